package cluster_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-kit/log"
	promconfig "github.com/prometheus/common/config"
	"go.uber.org/goleak"

	"github.com/flink-lineage/flink-lineage-exporter/internal/cluster"
	"github.com/flink-lineage/flink-lineage-exporter/internal/config"
	"github.com/flink-lineage/flink-lineage-exporter/internal/flink"
	"github.com/flink-lineage/flink-lineage-exporter/internal/flink/flinktest"
	"github.com/flink-lineage/flink-lineage-exporter/internal/lineage"
	"github.com/flink-lineage/flink-lineage-exporter/internal/recording"
)

// watch returns a Cluster of these JobManagers and reporters, with thread dumps once in a long while.
func watch(tb testing.TB, jobManagers, reporters []string, change ...func(*config.Cluster)) *cluster.Cluster {
	tb.Helper()
	cfg := config.Default()
	cfg.Timeout = 20 * time.Second
	cfg.FlinkURLs = jobManagers
	cfg.TaskManagers.MetricsPorts = ""
	cfg.TaskManagers.MetricsURLs = reporters
	cfg.Threads.Interval = time.Hour
	for _, f := range change {
		f(&cfg)
	}
	c, err := cluster.New(&cfg, log.NewNopLogger(), func(string, string) {})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

// replay serves a recording until the test ends.
func replay(tb testing.TB, rec *recording.Recording) *recording.Server {
	tb.Helper()
	s, err := recording.Serve(rec)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

func scrape(tb testing.TB, c *cluster.Cluster) *lineage.Report {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	result, err := c.Scrape(ctx)
	if err != nil {
		tb.Fatal(err)
	}
	return result.Report
}

// verdict is the verdict on the one job there is.
func verdict(tb testing.TB, r *lineage.Report) lineage.Verdict {
	tb.Helper()
	if len(r.Jobs) != 1 {
		tb.Fatalf("%d jobs", len(r.Jobs))
	}
	return r.Jobs[0].Verdict
}

// count is how many requests there were by endpoint; then they are counted anew.
func count(before map[string]int, s *flinktest.Server) map[string]int {
	n := map[string]int{}
	for path, now := range s.Requests() {
		if d := now - before[path]; d > 0 {
			n[flinktest.Template(path)] += d
		}
		before[path] = now
	}
	return n
}

// TestRequests: the JobManager that serves is asked 3 + jobs + vertices + TaskManagers times, each other one twice. Thread dumps come on
// top when they are due.
func TestRequests(t *testing.T) {
	rec := flinktest.Load(t, "1.17.2-healthy")
	serving, other := flinktest.Serve(t, rec.JobManagers[0]), flinktest.Serve(t, rec.JobManagers[1])
	c := watch(t, []string{serving.URL, other.URL}, replay(t, rec).ReporterURLs())
	beforeServing, beforeOther := map[string]int{}, map[string]int{}
	check := func(what string, dumps int) {
		t.Helper()
		scrape(t, c)
		want := map[string]int{
			"/overview": 1, "/jobs/overview": 1, "/taskmanagers": 1, "/jobs/:jobid": 1, "/jobs/:jobid/vertices/:vertexid": 2,
			"/taskmanagers/:taskmanagerid": 2,
		}
		if dumps > 0 {
			want["/taskmanagers/:taskmanagerid/thread-dump"] = dumps
		}
		if got := count(beforeServing, serving); !maps.Equal(got, want) {
			t.Errorf("%s: the serving JobManager was asked %v, want %v", what, got, want)
		}
		if got, want := count(beforeOther, other), (map[string]int{"/jobs/overview": 1, "/taskmanagers": 1}); !maps.Equal(got, want) {
			t.Errorf("%s: the other JobManager was asked %v, want %v", what, got, want)
		}
	}
	check("first scrape", 2)
	check("second scrape", 0)
	later := func(a any) any {
		change := func(job map[string]any) { job["start-time"] = job["start-time"].(float64) + 1000 }
		flinktest.Each(a, "jobs.*", change)
		if _, list := a.(map[string]any)["jobs"]; !list {
			change(a.(map[string]any))
		}
		return a
	}
	serving.Fail("/jobs/overview", flinktest.Changed("later", later))
	serving.Fail("/jobs/:jobid", flinktest.Changed("later", later))
	check("another start time", 2)
	check("the same start time", 0)
}

// TestDumpInterval: an interval of 0 takes a dump every scrape, --no-threads none at all.
func TestDumpInterval(t *testing.T) {
	rec := flinktest.Load(t, "1.17.2-healthy")
	for want, change := range map[int]func(*config.Cluster){
		6: func(c *config.Cluster) { c.Threads.Interval = 0 },
		2: func(c *config.Cluster) { c.Threads.Interval = time.Hour },
		0: func(c *config.Cluster) { c.Threads.Enabled = false },
	} {
		s := flinktest.Serve(t, rec.JobManagers[0])
		c := watch(t, []string{s.URL}, replay(t, rec).ReporterURLs(), change)
		for range 3 {
			scrape(t, c)
		}
		if got := count(map[string]int{}, s)["/taskmanagers/:taskmanagerid/thread-dump"]; got != want {
			t.Errorf("%d thread dumps in three scrapes, want %d", got, want)
		}
	}
}

// gate holds requests until it is opened, and tells when one has come.
type gate struct{ come, open chan struct{} }

func newGate() *gate { return &gate{make(chan struct{}, 100), make(chan struct{})} }

func (g *gate) fault() flinktest.Fault {
	return flinktest.Fault{Name: "held", Serve: func(w http.ResponseWriter, r *http.Request, good []byte) {
		g.come <- struct{}{}
		select {
		case <-g.open:
			_, _ = w.Write(good)
		case <-r.Context().Done():
		}
	}}
}

type outcome struct {
	report *lineage.Report
	err    error
}

func start(ctx context.Context, c *cluster.Cluster) chan outcome {
	done := make(chan outcome, 1)
	go func() {
		r, err := c.Scrape(ctx)
		if err != nil {
			done <- outcome{nil, err}
			return
		}
		done <- outcome{r.Report, nil}
	}()
	return done
}

// until waits for a condition.
func until(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); runtime.Gosched() {
		if time.Now().After(end) {
			tb.Fatalf("never came: %s", what)
		}
	}
}

// TestShared: two scrapes at once are one, also for the second when the first caller gives up.
func TestShared(t *testing.T) {
	for _, giveUp := range []bool{false, true} {
		t.Run(fmt.Sprintf("giving up %t", giveUp), func(t *testing.T) {
			rec := flinktest.Load(t, "1.17.2-healthy")
			s := flinktest.Serve(t, rec.JobManagers[0])
			c := watch(t, []string{s.URL}, replay(t, rec).ReporterURLs())
			g := newGate()
			s.Fail("/overview", g.fault())
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			first := start(ctx, c)
			<-g.come
			second := start(context.Background(), c)
			until(t, "the second caller waits", func() bool { return c.Waiting() == 2 })
			if giveUp {
				cancel()
				if o := <-first; o.err == nil {
					t.Error("the caller that gave up got a report")
				}
			}
			close(g.open)
			o := <-second
			if o.err != nil || o.report.Snapshot.Leader == nil || o.report.Snapshot.Leader.Overview == nil {
				t.Fatalf("second caller: %+v", o)
			}
			if !giveUp {
				if f := <-first; f.report != o.report {
					t.Error("two reports")
				}
			}
			for path, n := range s.Requests() {
				if n != 1 {
					t.Errorf("%s was asked for %d times", path, n)
				}
			}
		})
	}
}

// TestAborted: scrapes that are given up leave nothing behind, and the next one works.
func TestAborted(t *testing.T) {
	rec := flinktest.Load(t, "1.17.2-healthy")
	ignore := goleak.IgnoreCurrent()
	server, err := recording.Serve(rec)
	if err != nil {
		t.Fatal(err)
	}
	jm := flinktest.Serve(t, rec.JobManagers[0])
	c := watch(t, []string{jm.URL, flinktest.Frozen(t)}, server.ReporterURLs())
	for i := range 1000 {
		ctx, cancel := context.WithCancel(context.Background())
		done := start(ctx, c)
		// At different moments of a scrape, from before its first request on.
		for range i % 50 {
			runtime.Gosched()
		}
		cancel()
		if o := <-done; o.err == nil && o.report == nil {
			t.Fatal("neither a report nor an error")
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if o := <-start(ctx, c); o.err != nil || o.report.Snapshot.Leader == nil {
		t.Errorf("scrape afterwards: %+v", o)
	}
	c.Close()
	jm.Close()
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	goleak.VerifyNone(t, ignore)
}

// TestFrozen: a JobManager that accepts and never answers does not keep another one from serving, within the deadline.
func TestFrozen(t *testing.T) {
	rec := flinktest.Load(t, "1.17.2-healthy")
	healthy := flinktest.Serve(t, rec.JobManagers[0])
	c := watch(t, []string{flinktest.Frozen(t), healthy.URL}, replay(t, rec).ReporterURLs(), func(c *config.Cluster) { c.Concurrency = 1 })
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Second)
	defer cancel()
	o := <-start(ctx, c)
	if o.err != nil {
		t.Fatal(o.err)
	}
	if s := o.report.Snapshot; s.Leader == nil || s.Leader.JobManager != healthy.URL || s.JobManagers[0].Up || !s.JobManagers[1].Up ||
		!flink.IsKind(s.JobManagers[0].Err, flink.Unreachable) {
		t.Errorf("%+v", s.JobManagers)
	}
	if v := verdict(t, o.report); v != lineage.VerdictOK {
		t.Errorf("verdict %s: %s", v, o.report.Jobs[0].Why)
	}
}

// TestServing: the JobManager that served last goes on to serve, and one that knows a later start before any other.
func TestServing(t *testing.T) {
	rec := flinktest.Load(t, "1.17.2-healthy")
	a, b := flinktest.Serve(t, rec.JobManagers[0]), flinktest.Serve(t, rec.JobManagers[1])
	c := watch(t, []string{a.URL, b.URL}, nil)
	serves := func(what, want string) {
		t.Helper()
		if got := scrape(t, c).Snapshot.Leader; got == nil || got.JobManager != want {
			t.Errorf("%s: served by %+v", what, got)
		}
	}
	serves("both", a.URL)
	a.Fail("/jobs/overview", flinktest.Flink("", 503, flinktest.Election))
	serves("the first electing", b.URL)
	a.Fail("/jobs/overview", flinktest.Fault{})
	serves("both again", b.URL)

	thawed := replay(t, flinktest.Load(t, "1.17.2-k8s-leader-thawed"))
	r := scrape(t, watch(t, thawed.JobManagerURLs(), thawed.ReporterURLs()))
	if r.Snapshot.Leader.JobManager != thawed.JobManagerURLs()[1] || !r.Disagreement[lineage.AspectStartTime] {
		t.Errorf("a leader that was replaced serves: %s, disagreement %v", r.Snapshot.Leader.JobManager, r.Disagreement)
	}
}

// TestFailover: up, electing, unknown, and afterwards one failover and ok.
func TestFailover(t *testing.T) {
	server := replay(t, flinktest.Load(t, "1.17.2-healthy"))
	c := watch(t, server.JobManagerURLs(), server.ReporterURLs())
	for _, step := range []struct {
		recording string
		leader    bool
		electing  []bool
		verdict   lineage.Verdict
		failovers int
	}{
		{"1.17.2-healthy", true, []bool{false, false}, lineage.VerdictOK, 0},
		{"1.17.2-leader-just-died", false, []bool{false, true}, lineage.VerdictUnknown, 0},
		{"1.17.2-clean-failover", true, []bool{false, false}, lineage.VerdictOK, 1},
		{"1.17.2-clean-failover", true, []bool{false, false}, lineage.VerdictOK, 1},
	} {
		if err := server.Show(flinktest.Load(t, step.recording)); err != nil {
			t.Fatal(err)
		}
		r := scrape(t, c)
		if (r.Snapshot.Leader != nil) != step.leader {
			t.Errorf("%s: leader %v", step.recording, r.Snapshot.Leader)
		}
		for i, want := range step.electing {
			if jm := r.Snapshot.JobManagers[i]; jm.Electing != want {
				t.Errorf("%s: %+v", step.recording, jm)
			}
		}
		if v := verdict(t, r); v != step.verdict || r.Jobs[0].Failovers != step.failovers {
			t.Errorf("%s: verdict %s (%s), %d failovers", step.recording, v, r.Jobs[0].Why, r.Jobs[0].Failovers)
		}
		if !step.leader && len(r.Jobs[0].DuplicateSubtasks) > 0 {
			t.Errorf("%s: duplicates counted without a leader: %v", step.recording, r.Jobs[0].DuplicateSubtasks)
		}
	}
}

// without is a recording whose JobManagers do not list a TaskManager.
func without(rec *recording.Recording, id string) *recording.Recording {
	out := *rec
	out.JobManagers = nil
	for _, jm := range rec.JobManagers {
		responses := maps.Clone(jm.Responses)
		list := responses["/taskmanagers"]
		list.Body = flinktest.Change(list.Body, func(a any) any {
			o := a.(map[string]any)
			o["taskmanagers"] = slices.DeleteFunc(o["taskmanagers"].([]any), func(x any) bool { return x.(map[string]any)["id"] == id })
			return a
		})
		responses["/taskmanagers"] = list
		for path := range responses {
			if strings.HasPrefix(path, "/taskmanagers/"+id) {
				delete(responses, path)
			}
		}
		out.JobManagers = append(out.JobManagers, recording.JobManager{URL: jm.URL, Responses: responses})
	}
	return &out
}

// TestUnregistered: a TaskManager that left the leader's list is seen as long as its reporter answers.
func TestUnregistered(t *testing.T) {
	const busy = "127.0.0.1:16232-a380b7"
	rec := flinktest.Load(t, "1.17.2-healthy")
	server := replay(t, rec)
	c := watch(t, server.JobManagerURLs(), server.ReporterURLs())
	scrape(t, c)
	left := without(rec, busy)
	if err := server.Show(left); err != nil {
		t.Fatal(err)
	}
	r := scrape(t, c)
	i := slices.IndexFunc(r.TaskManagers, func(tm lineage.TaskManagerReport) bool { return tm.ID == busy })
	if i < 0 || r.TaskManagers[i].Registered || len(r.TaskManagers) != 2 {
		t.Fatalf("TaskManagers: %+v", r.TaskManagers)
	}
	gone := *left
	gone.TaskManagers = slices.Clone(rec.TaskManagers)
	gone.TaskManagers[0].Status = 0
	if err := server.Show(&gone); err != nil {
		t.Fatal(err)
	}
	r = scrape(t, c)
	if slices.ContainsFunc(r.TaskManagers, func(tm lineage.TaskManagerReport) bool {
		return !tm.Registered && len(tm.Executions[lineage.ViewReporter]) > 0
	}) {
		t.Errorf("its reporter is gone: %+v", r.TaskManagers)
	}
}

// reporterThat serves text of the number of the request.
func reporterThat(tb testing.TB, text func(n int) string) (string, *atomic.Int32) {
	tb.Helper()
	var n atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text(int(n.Add(1))))) }))
	tb.Cleanup(s.Close)
	return s.URL + "/metrics", &n
}

// zombies are the reporter's text of 1.17.2-zombie-same-tm, and the same without the old execution graph.
func zombies(tb testing.TB, rec *recording.Recording) (with, clean string) {
	tb.Helper()
	with = rec.TaskManagers[1].Metrics
	graphs := map[string]int{}
	for line := range strings.SplitSeq(with, "\n") {
		if _, rest, ok := strings.Cut(line, `task_attempt_id="`); ok && strings.HasPrefix(line, "flink_taskmanager_job_task_numRecordsIn{") {
			graphs[rest[:32]]++
		}
	}
	if len(graphs) != 2 {
		tb.Fatalf("graphs: %v", graphs)
	}
	old := ""
	for g, n := range graphs {
		if n == 2 { // the zombies; four tasks are new
			old = g
		}
	}
	var b strings.Builder
	for _, line := range strings.SplitAfter(with, "\n") {
		if old == "" || !strings.Contains(line, `task_attempt_id="`+old) {
			b.WriteString(line)
		}
	}
	return with, b.String()
}

// TestSecondLook: what is suspicious is looked at once more, and only that; what is gone by then does not count.
func TestSecondLook(t *testing.T) {
	rec := flinktest.Load(t, "1.17.2-zombie-same-tm")
	with, clean := zombies(t, rec)
	idle := rec.TaskManagers[0].Metrics
	for _, tc := range []struct {
		name     string
		text     func(n int) string
		requests int32
		want     lineage.Verdict
	}{
		{"nothing suspicious", func(int) string { return clean }, 1, lineage.VerdictOK},
		{"gone at the second look", func(n int) string {
			if n == 1 {
				return with
			}
			return clean
		}, 2, lineage.VerdictOK},
		{"still there", func(int) string { return with }, 2, lineage.VerdictDuplicate},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			busyURL, busy := reporterThat(t, tc.text)
			idleURL, other := reporterThat(t, func(int) string { return idle })
			server := replay(t, rec)
			c := watch(t, server.JobManagerURLs()[1:], []string{busyURL, idleURL}, func(c *config.Cluster) { c.Threads.Enabled = false })
			r := scrape(t, c)
			if v := verdict(t, r); v != tc.want {
				t.Errorf("verdict %s: %s", v, r.Jobs[0].Why)
			}
			if busy.Load() != tc.requests || other.Load() != 1 {
				t.Errorf("the suspicious reporter was read %d times, the other %d times", busy.Load(), other.Load())
			}
			if tc.want == lineage.VerdictOK && len(r.Orphans) > 0 {
				t.Errorf("orphans %+v", r.Orphans)
			}
		})
	}
}

// TestNoTimeForSecondLook: what could not be looked at twice is unknown, neither duplicate nor ok.
func TestNoTimeForSecondLook(t *testing.T) {
	server := replay(t, flinktest.Load(t, "1.17.2-zombie-same-tm"))
	c := watch(t, server.JobManagerURLs(), server.ReporterURLs())
	ctx, cancel := context.WithTimeout(context.Background(), lineage.Settle+500*time.Millisecond)
	defer cancel()
	o := <-start(ctx, c)
	if o.err != nil {
		t.Fatal(o.err)
	}
	if v := verdict(t, o.report); v != lineage.VerdictUnknown || len(o.report.Orphans) == 0 {
		t.Errorf("verdict %s: %s; orphans %+v", v, o.report.Jobs[0].Why, o.report.Orphans)
	}
	for view, n := range o.report.Jobs[0].DuplicateSubtasks {
		t.Errorf("%s counts %d duplicates", view, n)
	}
}

// TestLog: a part that fails is logged when it begins to, and without secrets.
func TestLog(t *testing.T) {
	var out bytes.Buffer
	cfg := config.Default()
	cfg.Timeout = 10 * time.Second
	s := flinktest.Serve(t, flinktest.Load(t, "1.17.2-healthy").JobManagers[0])
	cfg.FlinkURLs = []string{s.URL}
	cfg.HTTP.BasicAuth = &promconfig.BasicAuth{Username: "s3cr3t", Password: "s3cr3t"}
	cfg.TaskManagers.MetricsPorts = ""
	c, err := cluster.New(&cfg, log.NewJSONLogger(&out), func(string, string) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	lines := func() int { return strings.Count(out.String(), `"part":"overview"`) }
	s.Fail("/overview", flinktest.Flink("", 500, "no"))
	scrape(t, c)
	scrape(t, c)
	if lines() != 1 {
		t.Errorf("logged %d times:\n%s", lines(), out.String())
	}
	s.Fail("/overview", flinktest.Fault{})
	scrape(t, c)
	scrape(t, c)
	if lines() != 2 {
		t.Errorf("logged %d times:\n%s", lines(), out.String())
	}
	if !json.Valid([]byte(strings.SplitN(out.String(), "\n", 2)[0])) || strings.Contains(out.String(), "s3cr3t") {
		t.Error(out.String())
	}
}
