package cluster_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/flink-lineage/flink-lineage-exporter/internal/config"
	"github.com/flink-lineage/flink-lineage-exporter/internal/lineage"
	"github.com/flink-lineage/flink-lineage-exporter/internal/recording"
)

// TestFinishedJobs: a job that has ended is shown for a while after its end, and costs no request of its own.
func TestFinishedJobs(t *testing.T) {
	const id = "00000000000000000000000000000001"
	for _, c := range []struct {
		name  string
		state lineage.JobState
		ended time.Duration // ago
		keep  time.Duration
		shown bool
	}{
		{"finished lately", lineage.JobFinished, 10 * time.Minute, time.Hour, true},
		{"failed lately", lineage.JobFailed, 10 * time.Minute, time.Hour, true},
		{"canceled long ago", lineage.JobCanceled, 2 * time.Hour, time.Hour, false},
		{"not kept at all", lineage.JobFinished, time.Second, 0, false},
		{"suspended is no end", lineage.JobSuspended, 2 * time.Hour, time.Hour, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ended := time.Now().Add(-c.ended).UnixMilli()
			jobs := fmt.Sprintf(`{"jobs":[{"jid":%q,"name":"nightly","state":%q,"start-time":1000,"end-time":%d,"tasks":{"total":1,"finished":1}}]}`,
				id, c.state, ended)
			s := replay(t, &recording.Recording{Format: recording.Format, JobManagers: []recording.JobManager{{
				URL: "http://localhost", Responses: map[string]recording.Response{
					"/jobs/overview": {Status: 200, Body: json.RawMessage(jobs)},
					"/taskmanagers":  {Status: 200, Body: json.RawMessage(`{"taskmanagers":[]}`)},
				},
			}}})
			r := scrape(t, watch(t, s.JobManagerURLs(), nil, func(cfg *config.Cluster) { cfg.FinishedJobs = c.keep }))
			if shown := len(r.Jobs) == 1; shown != c.shown {
				t.Fatalf("shown %v, want %v", shown, c.shown)
			}
			if n := s.Requests()["/jobs/"+id]; c.state.Ended() && n > 0 {
				t.Errorf("%d requests for the details of a job that has ended", n)
			}
			if c.shown && c.state.Ended() && (r.Jobs[0].Verdict == lineage.VerdictDuplicate || r.Jobs[0].Leader.Tasks[lineage.Finished] != 1) {
				t.Errorf("got %+v", r.Jobs[0])
			}
		})
	}
}
