package flink

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/flink-lineage/flink-lineage-exporter/internal/config"
	"github.com/flink-lineage/flink-lineage-exporter/internal/flink/flinktest"
	"github.com/flink-lineage/flink-lineage-exporter/internal/lineage"
	"github.com/flink-lineage/flink-lineage-exporter/internal/recording"
	"github.com/flink-lineage/flink-lineage-exporter/recordings"
)

func ignore(string, string) {}

// newClient returns a client of url as the exporter makes it.
func newClient(tb testing.TB, url string, timeout time.Duration) *Client {
	tb.Helper()
	cfg := config.Default()
	cfg.Timeout = timeout
	h, err := cfg.FlinkClient()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(h.CloseIdleConnections)
	return NewClients([]string{url}, Config{HTTP: h, Timeout: timeout, Concurrency: 16, Count: ignore})[0]
}

// serve serves a recorded JobManager and returns a client of it.
func serve(tb testing.TB, jm recording.JobManager) (*Client, *flinktest.Server) {
	tb.Helper()
	s := flinktest.Serve(tb, jm)
	return newClient(tb, s.URL, 20*time.Second), s
}

// answering is a JobManager with these answers.
func answering(answers map[string]string) recording.JobManager {
	jm := recording.JobManager{Responses: map[string]recording.Response{}}
	for path, body := range answers {
		jm.Responses[path] = recording.Response{Status: http.StatusOK, Body: []byte(body)}
	}
	return jm
}

// view reads the whole leader's view.
func view(tb testing.TB, c *Client) (*lineage.LeaderView, map[string]Part) {
	tb.Helper()
	p := c.Probe(context.Background())
	if !p.Leads() {
		tb.Fatalf("no leader's view: %v", p.JobsErr)
	}
	return c.View(context.Background(), p)
}

const (
	graph  = "00000000217e81b80000000000000000"
	source = "cbc357ccb763df2852fee8c4fc7d55f2"
	sink   = "90bea66de1c231edf33913ecd54406c1"
)

// TestVersions reads the recordings of three versions, which tell the same things differently.
func TestVersions(t *testing.T) {
	for _, tc := range []struct {
		recording, version, job    string
		start, heartbeat           int64
		busy, idle                 string
		slotsKnown, stateSinceKnow bool
	}{
		{"1.15.4-healthy", "1.15.4", "00000000000000000000000000000000", 1796077366457, 1796077385984,
			"127.0.0.1:16232-4c32ab", "127.0.0.1:16242-4eb116", false, false},
		{"1.17.2-healthy", "1.17.2", graph, 1796076814921, 1796076844138,
			"127.0.0.1:16232-a380b7", "127.0.0.1:16242-fe41c1", false, true},
		{"2.3.0-healthy", "2.3.0", graph, 1796076991557, 1796077020409,
			"127.0.0.1:16242-8b5942", "127.0.0.1:16232-028ace", true, true},
	} {
		t.Run(tc.recording, func(t *testing.T) {
			c, _ := serve(t, flinktest.Load(t, tc.recording).JobManagers[0])
			v, parts := view(t, c)
			for name, p := range parts {
				if p.Err != nil {
					t.Errorf("part %s: %v", name, p.Err)
				}
			}
			if o := v.Overview; o.FlinkVersion != tc.version || o.SlotsTotal != 4 || o.SlotsFree != 2 {
				t.Errorf("overview: %+v", o)
			}
			if len(v.Jobs) != 1 {
				t.Fatalf("%d jobs", len(v.Jobs))
			}
			job := v.Jobs[0]
			if job.ID != tc.job || job.Name != "beam-pipeline" || job.State != lineage.JobRunning || job.StartTime.UnixMilli() != tc.start ||
				!job.EndTime.IsZero() || job.Tasks[lineage.Running] != 4 || !job.Detailed || len(job.Vertices) != 2 {
				t.Errorf("job: %+v", job)
			}
			for _, x := range job.Vertices {
				if x.Parallelism != 2 || len(x.Executions) != 2 || x.Tasks[lineage.Running] != 2 {
					t.Errorf("vertex: %+v", x)
				}
				for i, e := range x.Executions {
					if e.Subtask != i || e.Attempt != 0 || e.State != lineage.Running || e.TaskManager != tc.busy ||
						e.StateSince.IsZero() == tc.stateSinceKnow {
						t.Errorf("execution %d of %s: %+v", i, x.Name, e)
					}
				}
			}
			for _, tm := range v.TaskManagers {
				switch tm.ID {
				case tc.busy:
					if tm.Host != "127.0.0.1" || tm.SlotsTotal != 2 || tm.SlotsFree != 0 || (tm.AllocatedSlots != nil) != tc.slotsKnown ||
						tm.LastHeartbeat.UnixMilli() != tc.heartbeat { // an instant, in spite of its name in REST
						t.Errorf("busy TaskManager: %+v", tm)
					}
					for _, id := range tm.AllocatedSlots {
						if id != tc.job {
							t.Errorf("slot of job %q", id)
						}
					}
				case tc.idle:
					if tm.SlotsFree != 2 || tm.AllocatedSlots == nil || len(tm.AllocatedSlots) != 0 {
						t.Errorf("idle TaskManager: %+v", tm)
					}
				default:
					t.Errorf("TaskManager %q", tm.ID)
				}
			}
		})
	}
}

// TestEveryRecording reads every JobManager of every recording: whatever real clusters answered is understood.
func TestEveryRecording(t *testing.T) {
	names, err := fs.Glob(recordings.FS, "*.json.gz")
	if err != nil || len(names) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	for _, name := range names {
		rec := flinktest.Load(t, strings.TrimSuffix(name, ".json.gz"))
		for i, jm := range rec.JobManagers {
			if jm.Responses["/jobs/overview"].Status == 0 {
				continue // was not there
			}
			c, _ := serve(t, jm)
			p := c.Probe(context.Background())
			if jm.Responses["/jobs/overview"].Status != http.StatusOK {
				if !IsKind(p.JobsErr, NoLeader) {
					t.Errorf("%s, JobManager %d: %v", name, i, p.JobsErr)
				}
				continue
			}
			v, parts := c.View(context.Background(), p)
			for part, x := range parts {
				// A recording is made by many requests: some of what a list names may be gone before its details were asked for.
				if x.Err != nil && !IsKind(x.Err, UnknownTaskManager) && !IsKind(x.Err, NotFound) {
					t.Errorf("%s, JobManager %d, %s: %v", name, i, part, x.Err)
				}
			}
			threads := 0
			for _, tm := range v.TaskManagers {
				got, err := c.Threads(context.Background(), tm.ID)
				if err != nil && !IsKind(err, UnknownTaskManager) {
					t.Errorf("%s, JobManager %d, thread dump: %v", name, i, err)
				}
				threads += len(got)
			}
			for _, job := range v.Jobs {
				if n := job.Tasks[lineage.Running]; threads < n {
					t.Errorf("%s, JobManager %d: %d threads of %d running tasks", name, i, threads, n)
				}
			}
		}
	}
}

// TestSparseGraph: while a leader initialises a job it tells of no vertices, which does not mean that there are none.
func TestSparseGraph(t *testing.T) {
	c, _ := serve(t, answering(map[string]string{
		"/jobs/overview": `{"jobs":[{"jid":"` + graph + `","name":"j","start-time":1700000000000,"end-time":-1,"duration":1,"state":"INITIALIZING",` +
			`"last-modification":0,"tasks":{"total":0,"created":0}}]}`,
		"/taskmanagers": `{"taskmanagers":[]}`,
		"/overview":     `{"taskmanagers":0,"slots-total":0,"slots-available":0,"flink-version":"1.17.2","flink-commit":"c"}`,
		"/jobs/" + graph: `{"jid":"` + graph + `","name":"j","isStoppable":false,"state":"INITIALIZING","start-time":1700000000000,"end-time":-1,` +
			`"timestamps":{"CREATED":0,"INITIALIZING":1700000000000},"vertices":[],"status-counts":{},"plan":{}}`,
	}))
	v, parts := view(t, c)
	if err := parts[PartVertices].Err; err != nil {
		t.Error(err)
	}
	if job := v.Jobs[0]; job.State != lineage.JobInitializing || job.Expected() {
		t.Errorf("what should run is taken as known: %+v", job)
	}
	if v.TaskManagers == nil {
		t.Error("no TaskManager registered is taken as not known")
	}
}

// TestStaleGraph: a graph of another start time than the uncached overview's is of the leader before.
func TestStaleGraph(t *testing.T) {
	c, s := serve(t, flinktest.Load(t, "1.17.2-healthy").JobManagers[0])
	s.Fail("/jobs/:jobid", flinktest.Changed("stale", func(a any) any {
		flinktest.Each(a, "", func(job map[string]any) { job["start-time"] = 1700000000000 })
		return a
	}))
	v, parts := view(t, c)
	if job := v.Jobs[0]; job.Detailed || job.Vertices != nil || parts[PartVertices].Err != nil {
		t.Errorf("a stale graph is believed: %+v, %v", job, parts[PartVertices].Err)
	}
}

// TestSpeculative: concurrent attempts are executions of their own, and "NaN" in the metrics beside does not matter.
func TestSpeculative(t *testing.T) {
	c, _ := serve(t, answering(map[string]string{
		"/jobs/" + graph + "/vertices/" + source: `{"id":"` + source + `","name":"v","parallelism":2,"maxParallelism":128,"now":1700000010000,"subtasks":[
			{"subtask":0,"status":"RUNNING","attempt":0,"endpoint":"a:1","start-time":1700000000000,"taskmanager-id":"a:1-x",
			 "status-duration":{"RUNNING":4000,"DEPLOYING":10},"metrics":{"accumulated-busy-time":"NaN"},
			 "other-concurrent-attempts":[{"subtask":0,"status":"DEPLOYING","attempt":1,"endpoint":"b:1","start-time":1700000009000,
			 "taskmanager-id":"b:1-y","metrics":{"accumulated-busy-time":"NaN"}}]},
			{"subtask":1,"status":"SCHEDULED","attempt":2,"endpoint":"(unassigned)","start-time":-1,"taskmanager-id":"(unassigned)",
			 "metrics":{"accumulated-busy-time":"NaN"}}]}`,
	}))
	n, got, err := c.vertex(context.Background(), graph, source)
	if err != nil {
		t.Fatal(err)
	}
	want := []lineage.Execution{
		{Subtask: 0, Attempt: 0, State: lineage.Running, TaskManager: "a:1-x", StateSince: time.UnixMilli(1700000006000)},
		{Subtask: 0, Attempt: 1, State: lineage.Deploying, TaskManager: "b:1-y", StateSince: time.UnixMilli(1700000009000)},
		{Subtask: 1, Attempt: 2, State: lineage.Scheduled},
	}
	if n != 2 || len(got) != len(want) {
		t.Fatalf("parallelism %d, executions %+v", n, got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("execution %d: got %+v, want %+v", i, got[i], want[i])
		}
	}
}

// TestKinds: Flink's error answers, each with what it means.
func TestKinds(t *testing.T) {
	for _, tc := range []struct {
		name  string
		fault flinktest.Fault
		want  Kind
	}{
		{"election", flinktest.Flink("", 503, flinktest.Election), NoLeader},
		{"leader just died", flinktest.Flink("", 500, "Internal server error.", flinktest.LeaderDied), NoLeader},
		{"1.15, not started", flinktest.Flink("", 500, "org.apache.flink.runtime.rpc.exceptions.EndpointNotStartedException"), NoLeader},
		{"no ResourceManager", flinktest.Flink("", 404, flinktest.NoResource), NoLeader},
		{"unknown TaskManager", flinktest.Flink("", 500, "Internal server error.", flinktest.UnknownTaskManager), UnknownTaskManager},
		{"unknown job", flinktest.Flink("", 404, "Job could not be found"), NotFound},
		{"internal", flinktest.Flink("", 500, "Internal server error."), Failed},
		{"proxy without upstream", flinktest.Answer("", 503, "text/html", flinktest.Login), Foreign},
		{"proxy that does not know it", flinktest.Answer("", 404, "text/html", flinktest.Login), Foreign},
		{"unauthorized", flinktest.Answer("", 401, "application/json", `{"message":"no"}`), Foreign},
		{"no content", flinktest.Answer("", 204, "", ""), Foreign},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, s := serve(t, recording.JobManager{})
			s.Fail("/overview", tc.fault)
			_, err := c.Overview(context.Background())
			var e *Error
			if !errors.As(err, &e) || e.Kind != tc.want {
				t.Errorf("got %v, want kind %s", err, tc.want)
			}
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("error of several lines: %q", err)
			}
		})
	}
}

// TestVanished: what is gone by the time it is asked for is no error, and nothing is made up for it.
func TestVanished(t *testing.T) {
	gone := flinktest.Flink("", 404, "not found")
	for endpoint, fault := range map[string]flinktest.Fault{
		"/jobs/:jobid": gone, "/jobs/:jobid/vertices/:vertexid": gone,
		"/taskmanagers/:taskmanagerid": flinktest.Flink("", 500, "Internal server error.", flinktest.UnknownTaskManager),
	} {
		t.Run(endpoint, func(t *testing.T) {
			c, s := serve(t, flinktest.Load(t, "2.3.0-healthy").JobManagers[0])
			s.Fail(endpoint, fault)
			v, parts := view(t, c)
			for name, p := range parts {
				if p.Err != nil {
					t.Errorf("part %s: %v", name, p.Err)
				}
			}
			if strings.HasPrefix(endpoint, "/jobs") && v.Jobs[0].Expected() {
				t.Error("what should run is taken as known")
			}
			if endpoint == "/taskmanagers/:taskmanagerid" && v.TaskManagers[0].AllocatedSlots != nil {
				t.Error("slots are taken as known")
			}
		})
	}
}

// TestFrozenNeighbour: a JobManager that never answers takes nothing from another one's requests.
func TestFrozenNeighbour(t *testing.T) {
	s := flinktest.Serve(t, flinktest.Load(t, "1.17.2-healthy").JobManagers[0])
	cfg := config.Default()
	cfg.Timeout = time.Minute
	h, err := cfg.FlinkClient()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.CloseIdleConnections)
	clients := NewClients([]string{flinktest.Frozen(t), s.URL}, Config{HTTP: h, Timeout: time.Minute, Concurrency: 1, Count: ignore})
	ctx, cancel := context.WithCancel(context.Background())
	frozen := make(chan *Probe)
	go func() { frozen <- clients[0].Probe(ctx) }()
	for len(clients[0].slots) == 0 {
		time.Sleep(time.Millisecond) // until it waits for the frozen one
	}
	if p := clients[1].Probe(context.Background()); !p.Leads() || p.TaskManagersErr != nil {
		t.Errorf("the healthy one: %v, %v", p.JobsErr, p.TaskManagersErr)
	}
	cancel()
	if p := <-frozen; !IsKind(p.JobsErr, Unreachable) || !IsKind(p.TaskManagersErr, Unreachable) {
		t.Errorf("the frozen one: %v, %v", p.JobsErr, p.TaskManagersErr)
	}
}
