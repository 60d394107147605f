package lineage

import (
	"maps"
	"testing"
	"time"
)

const (
	j1 = "00000000000000000000000000000001"
	j2 = "00000000000000000000000000000002"
)

// healthy is a job of two vertices, source with two subtasks on tm-1 and sink with one on tm-2, as both views should see it.
func healthy(t testing.TB, graph string, attempt int, taken time.Duration) *scene {
	t.Helper()
	s := newScene("tm-1", "tm-2")
	j := s.job(j1, "pipeline", JobRunning, taken)
	s.expect(j, "Source: a -> b (c)", exec(0, attempt, Running, "tm-1"), exec(1, attempt, Running, "tm-1"))
	s.expect(j, "Sink: #1", exec(0, attempt, Running, "tm-2"))
	s.run(t, "tm-1", j1, "pipeline", graph, "Source: a -> b (c)", 0, 2, attempt)
	s.run(t, "tm-1", j1, "pipeline", graph, "Source: a -> b (c)", 1, 2, attempt)
	s.run(t, "tm-2", j1, "pipeline", graph, "Sink: #1", 0, 1, attempt)
	return s
}

func wantDuplicates(t testing.TB, j *JobReport, want map[View]int) {
	t.Helper()
	if !maps.Equal(j.DuplicateSubtasks, want) {
		t.Errorf("duplicate subtasks %v, want %v", j.DuplicateSubtasks, want)
	}
}

func TestHealthyIsOK(t *testing.T) {
	var m Memory
	r := look(healthy(t, graphA, 0, 0), &m)
	j := wantVerdict(t, r, j1, VerdictOK)
	wantDuplicates(t, j, map[View]int{ViewReporter: 0, ViewThreads: 0})
	if j.ExecutionGraphs != 1 || len(r.Orphans) != 0 || j.Failovers != 0 || j.Starved || len(j.Restart) != 0 {
		t.Errorf("got %+v with orphans %v", j, r.Orphans)
	}
	for _, v := range []View{ViewReporter, ViewThreads} {
		if r.Coverage[v] != (Coverage{2, 2}) {
			t.Errorf("coverage of %s is %v", v, r.Coverage[v])
		}
	}
}

// Tasks that ignore cancellation go on in the same slots, beside their successors.
func TestL1ZombiesInTheSameSlots(t *testing.T) {
	for name, remembered := range map[string]bool{"seen from the start": true, "exporter just started": false} {
		t.Run(name, func(t *testing.T) {
			var m Memory
			if remembered {
				look(healthy(t, graphA, 0, 0), &m)
			}
			s := healthy(t, graphB, 0, 30*time.Second).at(40 * time.Second)
			for i := range 2 {
				s.run(t, "tm-1", j1, "pipeline", graphA, "Source: a -> b (c)", i, 2, 0)
				s.thread(t, "tm-1", "Canceler/Interrupts for "+TaskName{"Source: a -> b (c)", i, 2, 0}.String()+" ("+graphA+"_"+hexID(0x1000)+"_0_0).")
			}
			r := look(s, &m)
			j := wantVerdict(t, r, j1, VerdictDuplicate)
			wantDuplicates(t, j, map[View]int{ViewReporter: 2, ViewThreads: 2})
			if j.ExecutionGraphs != 2 {
				t.Errorf("%d execution graphs, want 2", j.ExecutionGraphs)
			}
			if got := reasons(r, ViewReporter); !maps.Equal(got, map[Reason]int{StaleExecutionGraph: 2}) {
				t.Errorf("reporter's reasons %v", got)
			}
			if got := reasons(r, ViewThreads); !maps.Equal(got, map[Reason]int{SurplusThread: 2}) {
				t.Errorf("threads' reasons %v", got)
			}
			if len(j.Restart) != 1 || j.Restart[0] != (Restart{"tm-1", StaleExecutionGraph}) {
				t.Errorf("restart %v, want tm-1", j.Restart)
			}
			for _, o := range r.Orphans {
				if o.View == ViewReporter && o.AttemptID.Graph() != graphA {
					t.Errorf("the new execution %s is taken for the orphan", o.AttemptID)
				}
			}
			if n := r.TaskManagers[0].OrphanThreads[CancelerThread]; n != 2 {
				t.Errorf("%d orphan cancelers, want 2", n)
			}
			if remembered != (j.Failovers == 1) {
				t.Errorf("%d failovers", j.Failovers)
			}
			if !j.DuplicateSince.Equal(s.Time) {
				t.Errorf("duplicate since %v, want %v", j.DuplicateSince, s.Time)
			}
			// Restarting the TaskManager ends it in the next scrape.
			r = look(healthy(t, graphB, 1, 30*time.Second).at(70*time.Second), &m)
			if j := wantVerdict(t, r, j1, VerdictOK); !j.DuplicateSince.IsZero() {
				t.Errorf("still duplicate since %v", j.DuplicateSince)
			}
		})
	}
}

// The same in 1.15, where attempt ids are random: only their number tells.
func TestL1RandomAttemptIDs(t *testing.T) {
	var m Memory
	s := healthy(t, graphB, 0, 0)
	for i := range s.Reporters {
		for k := range s.Reporters[i].Executions {
			s.Reporters[i].Executions[k].AttemptID = AttemptID(hexID(0x500 + 16*i + k))
		}
	}
	old := s.Reporters[0].Executions[0]
	old.AttemptID = AttemptID(hexID(0x999))
	s.Reporters[0].Executions = append(s.Reporters[0].Executions, old)
	r := look(s.noThreads(), &m)
	j := wantVerdict(t, r, j1, VerdictDuplicate)
	wantDuplicates(t, j, map[View]int{ViewReporter: 1})
	if j.ExecutionGraphs != 0 {
		t.Errorf("%d execution graphs counted although the ids do not tell", j.ExecutionGraphs)
	}
}

// Old tasks keep their slots in RELEASING, and the restored job waits in SCHEDULED although another TaskManager has free slots.
func TestL2ZombiesStarveTheRestoredJob(t *testing.T) {
	var m Memory
	s := newScene("tm-1", "tm-2")
	j := s.job(j1, "pipeline", JobRunning, 0)
	s.expect(j, "source", exec(0, 0, Scheduled, ""), exec(1, 0, Scheduled, ""))
	for i := range 2 {
		s.run(t, "tm-1", j1, "pipeline", graphA, "source", i, 2, 0)
	}
	r := look(s, &m)
	job := wantVerdict(t, r, j1, VerdictOrphan)
	wantDuplicates(t, job, map[View]int{ViewReporter: 0, ViewThreads: 0})
	if !job.Starved || len(job.Restart) != 1 || job.Restart[0].TaskManager != "tm-1" {
		t.Errorf("got %+v, want starved and tm-1 to restart", job)
	}
	if got := reasons(r, ViewReporter); !maps.Equal(got, map[Reason]int{StaleExecutionGraph: 2}) {
		t.Errorf("reasons %v", got)
	}
}

// The leader has just been killed: no leader, then a job in INITIALIZING without vertices.
func TestL3NoLeaderIsUnknown(t *testing.T) {
	var m Memory
	s := healthy(t, graphA, 0, 0)
	look(s, &m)
	dead := s.at(5 * time.Second)
	dead.Leader, dead.Dumps = nil, nil
	r := look(dead, &m)
	wantDuplicates(t, wantVerdict(t, r, j1, VerdictUnknown), map[View]int{})
	if len(r.Coverage) != 0 {
		t.Errorf("coverage %v although the TaskManagers are not known", r.Coverage)
	}
	init := s.at(10 * time.Second)
	init.Leader.Jobs[0] = Job{ID: j1, Name: "pipeline", State: JobInitializing, StartTime: start.Add(9 * time.Second), Detailed: true}
	r = look(init, &m)
	j := wantVerdict(t, r, j1, VerdictUnknown)
	wantDuplicates(t, j, map[View]int{})
}

// Everything ends as it should; one failover is counted, attempts are 0 again.
func TestL4CleanFailover(t *testing.T) {
	var m Memory
	look(healthy(t, graphA, 3, 0), &m)
	r := look(healthy(t, graphB, 0, 30*time.Second).at(40*time.Second), &m)
	if j := wantVerdict(t, r, j1, VerdictOK); j.Failovers != 1 {
		t.Errorf("%d failovers, want 1", j.Failovers)
	}
}

// An exporter that remembers nothing must know the TaskManagers' ids even if /taskmanagers cannot be read: the reporters' labels are
// sanitised, and nothing would be where it should.
func TestTaskManagersUnknown(t *testing.T) {
	var m Memory
	s := healthy(t, graphA, 0, 0).noThreads()
	s.Leader.TaskManagers = nil
	r := look(s, &m)
	wantDuplicates(t, wantVerdict(t, r, j1, VerdictUnknown), map[View]int{})
	if len(r.Orphans) != 0 || len(r.Coverage) != 0 {
		t.Errorf("orphans %v, coverage %v", r.Orphans, r.Coverage)
	}
}
