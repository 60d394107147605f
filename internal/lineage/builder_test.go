package lineage

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// start is when the tests' clusters were started.
var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// Graphs and vertices of the tests, as hexadecimal ids.
var (
	graphA = hexID(0xa)
	graphB = hexID(0xb)
	graphC = hexID(0xc)
)

func hexID(n int) string { return fmt.Sprintf("%032x", n) }

// scene builds a Snapshot.
type scene struct {
	*Snapshot
	vertices map[string]string // name to id
}

// newScene is a cluster with a leader, both views turned on, and no jobs. Each TaskManager has a reporter and a fresh dump that show nothing.
func newScene(tms ...string) *scene {
	s := &scene{
		Snapshot: &Snapshot{Time: start, Leader: &LeaderView{TaskManagers: []TaskManager{}}, ReportersOn: true, ThreadsOn: true},
		vertices: map[string]string{},
	}
	for _, tm := range tms {
		s.Leader.TaskManagers = append(s.Leader.TaskManagers, TaskManager{ID: tm, SlotsTotal: 4, SlotsFree: 4})
		s.Reporters = append(s.Reporters, Reporter{URL: "http://" + tm, TaskManager: Sanitize(tm)})
		s.Dumps = append(s.Dumps, ThreadDump{TaskManager: tm, Time: start, Fresh: true})
	}
	return s
}

// at returns the scene as seen d after start: a new Snapshot, so that what is changed in it does not reach into the earlier one.
func (s *scene) at(d time.Duration) *scene {
	c := &scene{Snapshot: &Snapshot{}, vertices: s.vertices}
	*c.Snapshot = *s.Snapshot
	c.Time = start.Add(d)
	if s.Leader != nil {
		l := *s.Leader
		l.Jobs, l.TaskManagers = slices.Clone(l.Jobs), slices.Clone(l.TaskManagers)
		for i := range l.Jobs {
			l.Jobs[i].Vertices = slices.Clone(l.Jobs[i].Vertices)
			for k := range l.Jobs[i].Vertices {
				l.Jobs[i].Vertices[k].Executions = slices.Clone(l.Jobs[i].Vertices[k].Executions)
			}
		}
		c.Leader = &l
	}
	c.Reporters = slices.Clone(s.Reporters)
	for i := range c.Reporters {
		c.Reporters[i].Executions = slices.Clone(c.Reporters[i].Executions)
	}
	c.Dumps = slices.Clone(s.Dumps)
	for i := range c.Dumps {
		c.Dumps[i].Threads = slices.Clone(c.Dumps[i].Threads)
	}
	return c
}

// job adds a job that the leader took up at the given time after start.
func (s *scene) job(id, name string, state JobState, taken time.Duration) *Job {
	s.Leader.Jobs = append(s.Leader.Jobs, Job{
		ID: id, Name: name, State: state, StartTime: start.Add(taken), Detailed: true, Tasks: map[ExecutionState]int{},
	})
	return &s.Leader.Jobs[len(s.Leader.Jobs)-1]
}

// expect adds a vertex with an execution for each of the given places, and counts them in the job's tasks.
func (s *scene) expect(j *Job, vertex string, executions ...Execution) {
	if s.vertices[vertex] == "" {
		s.vertices[vertex] = hexID(0x1000 + len(s.vertices))
	}
	parallelism := 0
	for _, x := range executions {
		parallelism = max(parallelism, x.Subtask+1)
		j.Tasks[x.State]++
	}
	j.Vertices = append(j.Vertices, Vertex{ID: s.vertices[vertex], Name: vertex, Parallelism: parallelism, Executions: executions})
}

func exec(subtask, attempt int, state ExecutionState, tm string) Execution {
	return Execution{Subtask: subtask, Attempt: attempt, State: state, TaskManager: tm}
}

// report makes a TaskManager's reporter show an execution.
func (s *scene) report(tm, job, jobName, graph, vertex string, subtask, attempt int) {
	id := s.vertices[vertex]
	if id == "" {
		id = hexID(0x1000 + len(s.vertices))
		s.vertices[vertex] = id
	}
	e := ReportedExecution{
		JobID: job, JobName: Sanitize(jobName), VertexID: id, VertexName: Sanitize(vertex), Subtask: subtask, Attempt: attempt,
		AttemptID: AttemptID(fmt.Sprintf("%s_%s_%d_%d", graph, id, subtask, attempt)),
	}
	if graph == "" {
		e.AttemptID = AttemptID(fmt.Sprintf("%032x", 0xf0000+len(s.Reporters[0].Executions)*16+subtask))
	}
	for i := range s.Reporters {
		if s.Reporters[i].TaskManager == Sanitize(tm) {
			s.Reporters[i].Executions = append(s.Reporters[i].Executions, e)
			return
		}
	}
	s.Reporters = append(s.Reporters, Reporter{URL: "http://" + tm, TaskManager: Sanitize(tm), Executions: []ReportedExecution{e}})
}

var threadID int64

// thread adds a thread to a TaskManager's dump.
func (s *scene) thread(t testing.TB, tm, name string) {
	t.Helper()
	thread, ok := ParseThread(name)
	if !ok {
		t.Fatalf("%q is no thread that matters", name)
	}
	threadID++
	thread.ID = threadID
	for i := range s.Dumps {
		if s.Dumps[i].TaskManager == tm {
			s.Dumps[i].Threads = append(s.Dumps[i].Threads, thread)
			return
		}
	}
	t.Fatalf("TaskManager %s has no dump", tm)
}

// run makes both views show an execution.
func (s *scene) run(t testing.TB, tm, job, jobName, graph, vertex string, subtask, parallelism, attempt int) {
	t.Helper()
	s.report(tm, job, jobName, graph, vertex, subtask, attempt)
	s.thread(t, tm, TaskName{vertex, subtask, parallelism, attempt}.String())
}

// noThreads turns the threads view off, noReporters the other.
func (s *scene) noThreads() *scene   { s.ThreadsOn, s.Dumps = false, nil; return s }
func (s *scene) noReporters() *scene { s.ReportersOn, s.Reporters = false, nil; return s }

// look judges as a scrape does: a second look at the same moment if the first is suspicious, and what is remembered afterwards.
func look(s *scene, m *Memory) *Report {
	r := Judge(s.Snapshot, m, Rules{})
	if len(r.Suspicious()) > 0 {
		r = Confirm(s.Snapshot, m, Rules{}, r)
	}
	m.Remember(r)
	return r
}

func jobReport(t testing.TB, r *Report, id string) *JobReport {
	t.Helper()
	for i := range r.Jobs {
		if r.Jobs[i].ID == id {
			return &r.Jobs[i]
		}
	}
	t.Fatalf("the report has no job %s", id)
	return nil
}

func wantVerdict(t testing.TB, r *Report, id string, want Verdict) *JobReport {
	t.Helper()
	j := jobReport(t, r, id)
	if j.Verdict != want {
		t.Errorf("job %s: verdict %s (%s), want %s; orphans %+v", id, j.Verdict, j.Why, want, r.Orphans)
	}
	return j
}

func reasons(r *Report, v View) map[Reason]int {
	n := map[Reason]int{}
	for _, o := range r.Orphans {
		if o.View == v && o.Confirmed {
			n[o.Reason]++
		}
	}
	return n
}
