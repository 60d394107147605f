package lineage

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// The rows of the case list that no test here is named after, and why: L5 to L7 are for the views of readers and of the ledger (L7 not even
// for those: it takes a view over two clusters); C14 and C15 end in the same threads as C12, and their other signs are texts of exceptions
// and of databases; C21 and C23 are seen only across clusters; N7, N9 and N10 are log lines and files, which nothing here reads.

const sourceName, sinkName = "Source: a -> b (c)", "Sink: #1"

func wantRestart(t testing.TB, j *JobReport, want ...Restart) {
	t.Helper()
	if !slices.Equal(j.Restart, want) {
		t.Errorf("restart %v, want %v", j.Restart, want)
	}
}

func wantReasons(t testing.TB, r *Report, v View, want map[Reason]int) {
	t.Helper()
	if got := reasons(r, v); !maps.Equal(got, want) {
		t.Errorf("reasons of %s %v, want %v", v, got, want)
	}
}

// An old attempt blocked in a write stays beside its successor, which waits in INITIALIZING: nothing is processed twice yet.
func TestL8SuccessorStillInitializing(t *testing.T) {
	var m Memory
	s := newScene("tm-1", "tm-2")
	j := s.job(j1, "pipeline", JobRunning, 0)
	s.expect(j, sinkName, exec(0, 1, Initializing, "tm-1"))
	s.run(t, "tm-1", j1, "pipeline", graphA, sinkName, 0, 1, 0)
	s.run(t, "tm-1", j1, "pipeline", graphA, sinkName, 0, 1, 1)
	r := look(s, &m)
	job := wantVerdict(t, r, j1, VerdictOrphan)
	wantDuplicates(t, job, map[View]int{ViewReporter: 0, ViewThreads: 0})
	wantReasons(t, r, ViewReporter, map[Reason]int{StaleAttempt: 1})
	wantReasons(t, r, ViewThreads, map[Reason]int{StaleAttempt: 1})
	wantRestart(t, job, Restart{"tm-1", StaleAttempt})
	// Once the successor runs it is a duplicate.
	s = s.at(time.Minute)
	s.Leader.Jobs[0].Vertices[0].Executions[0].State = Running
	s.Leader.Jobs[0].Tasks = map[ExecutionState]int{Running: 1}
	wantVerdict(t, look(s, &m), j1, VerdictDuplicate)
}

// A frozen leader thaws and the job restarts once: attempt 1 of the new graph, and nothing more.
func TestL9ThawedLeaderRestartsTheJob(t *testing.T) {
	var m Memory
	look(healthy(t, graphA, 0, 0), &m)
	look(healthy(t, graphB, 0, 30*time.Second).at(31*time.Second), &m)
	r := look(healthy(t, graphB, 1, 30*time.Second).at(70*time.Second), &m)
	if j := wantVerdict(t, r, j1, VerdictOK); j.Failovers != 1 {
		t.Errorf("%d failovers, want 1", j.Failovers)
	}
}

// A TaskManager frozen past the heartbeat's timeout thaws: attempt 0 goes on there beside attempt 1, in one execution graph.
func TestL10ThawedTaskManager(t *testing.T) {
	for name, view := range map[string]func(*scene) *scene{
		"both views": func(s *scene) *scene { return s }, "reporters": (*scene).noThreads, "threads": (*scene).noReporters,
	} {
		t.Run(name, func(t *testing.T) {
			var m Memory
			s := newScene("tm-1", "tm-2")
			j := s.job(j1, "pipeline", JobRunning, 0)
			s.expect(j, sourceName, exec(0, 1, Running, "tm-2"), exec(1, 1, Running, "tm-2"))
			for i := range 2 {
				s.run(t, "tm-1", j1, "pipeline", graphA, sourceName, i, 2, 0)
				s.run(t, "tm-2", j1, "pipeline", graphA, sourceName, i, 2, 1)
			}
			r := look(view(s), &m)
			job := wantVerdict(t, r, j1, VerdictDuplicate)
			want := map[View]int{}
			if s.ReportersOn {
				want[ViewReporter] = 2
				wantReasons(t, r, ViewReporter, map[Reason]int{StaleAttempt: 2})
				if job.ExecutionGraphs != 1 {
					t.Errorf("%d execution graphs, want 1", job.ExecutionGraphs)
				}
			}
			if s.ThreadsOn {
				want[ViewThreads] = 2
				wantReasons(t, r, ViewThreads, map[Reason]int{StaleAttempt: 2})
			}
			wantDuplicates(t, job, want)
			wantRestart(t, job, Restart{"tm-1", StaleAttempt})
		})
	}
}

// A thawed leader and the new one tell different stories for a moment.
func TestL11TwoLeadersTellDifferentStories(t *testing.T) {
	var m Memory
	s := healthy(t, graphA, 0, 30*time.Second)
	s.JobManagers = []JobManager{
		{URL: "jm-1", Up: true, Jobs: map[string]JobSummary{j1: {JobSuspended, start}}, TaskManagers: map[string]bool{"tm-1": true, "tm-2": true}},
		{URL: "jm-2", Up: true, Jobs: map[string]JobSummary{j1: {JobRunning, start.Add(30 * time.Second)}},
			TaskManagers: map[string]bool{"tm-1": true, "tm-2": true}},
		{URL: "jm-3", Err: errors.New("connection refused")},
	}
	r := look(s, &m)
	wantVerdict(t, r, j1, VerdictOK)
	if want := (map[Aspect]bool{AspectJobs: false, AspectStartTime: true, AspectTaskManagers: false}); !maps.Equal(r.Disagreement, want) {
		t.Errorf("disagreement %v, want %v", r.Disagreement, want)
	}
	// The old leader's answer does not count as a failover back.
	old := s.at(2 * time.Second)
	old.Leader.Jobs[0].StartTime = start
	look(old, &m)
	if j := jobReport(t, look(s.at(4*time.Second), &m), j1); j.Failovers != 0 {
		t.Errorf("%d failovers, want 0", j.Failovers)
	}
}

// Zombies of two leaders, two for each subtask, go on while the job waits in SCHEDULED.
func TestL12TwoOrphansOfEachSubtask(t *testing.T) {
	for name, view := range map[string]func(*scene) *scene{
		"both views": func(s *scene) *scene { return s }, "reporters": (*scene).noThreads, "threads": (*scene).noReporters,
	} {
		t.Run(name, func(t *testing.T) {
			var m Memory
			s := newScene("tm-1", "tm-2")
			j := s.job(j1, "pipeline", JobRunning, 0)
			s.expect(j, sourceName, exec(0, 1, Scheduled, ""), exec(1, 1, Scheduled, ""))
			for i := range 2 {
				s.run(t, "tm-1", j1, "pipeline", graphA, sourceName, i, 2, 0)
				s.run(t, "tm-1", j1, "pipeline", graphB, sourceName, i, 2, 0)
			}
			r := look(view(s), &m)
			job := wantVerdict(t, r, j1, VerdictDuplicate)
			want := map[View]int{}
			if s.ReportersOn {
				want[ViewReporter] = 2
			}
			if s.ThreadsOn {
				want[ViewThreads] = 2
			}
			wantDuplicates(t, job, want)
			if !job.Starved {
				t.Error("the job waits for slots that its zombies hold, yet it is not starved")
			}
			if len(job.Restart) != 1 || job.Restart[0].TaskManager != "tm-1" {
				t.Errorf("restart %v, want tm-1", job.Restart)
			}
		})
	}
}

// C1, C19, C20 and C22: a job runs beside another of its name.
func TestC1ResurrectedJob(t *testing.T)        { twoJobsOfOneName(t) }
func TestC19RestoredAndSubmitted(t *testing.T) { twoJobsOfOneName(t) }
func TestC20SubmittedAgain(t *testing.T)       { twoJobsOfOneName(t) }
func TestC22RecreatedResource(t *testing.T)    { twoJobsOfOneName(t) }

func twoJobsOfOneName(t *testing.T) {
	var m Memory
	s := sameName(t)
	ended := s.job(hexID(3), "pipeline", JobCanceled, 0)
	ended.EndTime = start
	r := look(s, &m)
	if !maps.Equal(r.SurplusJobs, map[string]int{"pipeline": 1}) {
		t.Errorf("surplus jobs %v, want one of pipeline", r.SurplusJobs)
	}
	// Neither job runs twice by itself.
	wantVerdict(t, r, j1, VerdictOK)
	wantVerdict(t, r, j2, VerdictOK)
}

// sameName is two jobs of one name and of the same vertices, on one TaskManager.
func sameName(t testing.TB) *scene {
	s := newScene("tm-1")
	for i, id := range []string{j1, j2} {
		j := s.job(id, "pipeline", JobRunning, time.Duration(i)*time.Minute)
		s.expect(j, sourceName, exec(0, 0, Running, "tm-1"))
		s.run(t, "tm-1", id, "pipeline", []string{graphA, graphB}[i], sourceName, 0, 1, 0)
	}
	return s
}

// One attempt id on two TaskManagers is two executions.
func TestC2OneAttemptIDOnTwoTaskManagers(t *testing.T) {
	var m Memory
	s := healthy(t, graphA, 0, 0)
	s.run(t, "tm-2", j1, "pipeline", graphA, sourceName, 0, 2, 0)
	r := look(s, &m)
	job := wantVerdict(t, r, j1, VerdictDuplicate)
	wantDuplicates(t, job, map[View]int{ViewReporter: 1, ViewThreads: 1})
	wantReasons(t, r, ViewReporter, map[Reason]int{WrongTaskManager: 1})
	wantReasons(t, r, ViewThreads, map[Reason]int{WrongTaskManager: 1})
	wantRestart(t, job, Restart{"tm-2", WrongTaskManager})
}

// A job that had ended runs again.
func TestC3RestoredAfterItsEnd(t *testing.T) {
	var m Memory
	look(healthy(t, graphA, 0, 0), &m)
	s := newScene("tm-1", "tm-2").at(time.Minute)
	s.job(j1, "pipeline", JobFinished, 0)
	if j := wantVerdict(t, look(s, &m), j1, VerdictOK); j.RestoredAfterEnd != 0 {
		t.Errorf("restored %d times after its end while it had ended", j.RestoredAfterEnd)
	}
	r := look(healthy(t, graphB, 0, 2*time.Minute).at(3*time.Minute), &m)
	if j := wantVerdict(t, r, j1, VerdictOK); j.RestoredAfterEnd != 1 || j.Failovers != 0 {
		t.Errorf("restored %d times after its end, %d failovers; want 1, 0", j.RestoredAfterEnd, j.Failovers)
	}
	r = look(healthy(t, graphB, 0, 2*time.Minute).at(4*time.Minute), &m)
	if j := jobReport(t, r, j1); j.RestoredAfterEnd != 1 {
		t.Errorf("restored %d times after its end, want still 1", j.RestoredAfterEnd)
	}
}

// One job id in two execution graphs.
func TestC4OneJobIDTwice(t *testing.T) {
	var m Memory
	s := healthy(t, graphA, 0, 0)
	for i := range 2 {
		s.run(t, "tm-2", j1, "pipeline", graphB, sourceName, i, 2, 0)
	}
	r := look(s, &m)
	job := wantVerdict(t, r, j1, VerdictDuplicate)
	if job.ExecutionGraphs != 2 {
		t.Errorf("%d execution graphs, want 2", job.ExecutionGraphs)
	}
	wantDuplicates(t, job, map[View]int{ViewReporter: 2, ViewThreads: 2})
	wantRestart(t, job, Restart{"tm-2", StaleExecutionGraph})
}

// C5 to C7: JobManagers that do not give up, or do not wait for, leadership.
func TestC5DispatcherKeepsLeadership(t *testing.T) {
	wantDisagreement(t, []JobManager{
		{URL: "jm-1", Jobs: map[string]JobSummary{j1: {JobRunning, start}}, TaskManagers: map[string]bool{"tm-1": true}},
		{URL: "jm-2", Jobs: map[string]JobSummary{j1: {JobRunning, start}}, TaskManagers: map[string]bool{"tm-2": true}},
	}, map[Aspect]bool{AspectJobs: false, AspectStartTime: false, AspectTaskManagers: true})
}

func TestC6RecoversWithoutLeadership(t *testing.T) {
	wantDisagreement(t, []JobManager{
		{URL: "jm-1", Jobs: map[string]JobSummary{j1: {JobRunning, start}}},
		{URL: "jm-2", Jobs: map[string]JobSummary{j1: {JobRunning, start.Add(time.Minute)}}},
	}, map[Aspect]bool{AspectJobs: false, AspectStartTime: true})
}

func TestC7StandbyRunsItsOwnJob(t *testing.T) {
	wantDisagreement(t, []JobManager{
		{URL: "jm-1", Jobs: map[string]JobSummary{j1: {JobRunning, start}}},
		{URL: "jm-2", Jobs: map[string]JobSummary{j1: {JobRunning, start}, j2: {JobRunning, start}}},
	}, map[Aspect]bool{AspectJobs: true, AspectStartTime: false})
}

func wantDisagreement(t *testing.T, jms []JobManager, want map[Aspect]bool) {
	t.Helper()
	for _, swapped := range []bool{false, true} {
		if swapped {
			slices.Reverse(jms)
		}
		s := healthy(t, graphA, 0, 0)
		s.JobManagers = jms
		if got := look(s, &Memory{}).Disagreement; !maps.Equal(got, want) {
			t.Errorf("swapped %v: disagreement %v, want %v", swapped, got, want)
		}
	}
	s := healthy(t, graphA, 0, 0)
	s.JobManagers = jms[:1]
	if got := look(s, &Memory{}).Disagreement; len(got) != 0 {
		t.Errorf("one JobManager disagrees with itself: %v", got)
	}
}

// C8 and C9: slots are in use for which there is no task.
func TestC8SlotsHeldForNothing(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*scene)
		want   []int // tm-1, tm-2
	}{
		"counts, as up to 1.17": {func(s *scene) {
			s.Leader.TaskManagers[0].SlotsFree, s.Leader.TaskManagers[1].SlotsFree = 2, 1
		}, []int{0, 2}},
		"counts explained by tasks": {func(s *scene) {
			s.Leader.TaskManagers[0].SlotsFree, s.Leader.TaskManagers[1].SlotsFree = 2, 3
		}, []int{0, 0}},
		"allocations of a job unknown": {func(s *scene) {
			s.Leader.TaskManagers[0].AllocatedSlots = []string{j1, j2}
			s.Leader.TaskManagers[1].AllocatedSlots = []string{}
		}, []int{1, 0}},
		"a job waits for slots": {func(s *scene) {
			j := s.job(j2, "waiting", JobRunning, 0)
			s.expect(j, "w", exec(0, 0, Scheduled, ""))
			s.Leader.TaskManagers[0].SlotsFree, s.Leader.TaskManagers[1].SlotsFree = 2, 2
		}, []int{0, 0}},
		"a job's executions not known": {func(s *scene) {
			s.Leader.Jobs[0].Detailed = false
		}, []int{-1, -1}},
	} {
		t.Run(name, func(t *testing.T) {
			s := healthy(t, graphA, 0, 0)
			c.change(s)
			r := look(s, &Memory{})
			for i, want := range c.want {
				if got := r.TaskManagers[i].UnaccountedSlots; got != want {
					t.Errorf("%s: %d slots unaccounted for, want %d", r.TaskManagers[i].ID, got, want)
				}
			}
		})
	}
}

func TestC9ResourcesNeverReleased(t *testing.T) {
	s := newScene("tm-1", "tm-2", "tm-3")
	j := s.job(j1, "pipeline", JobRunning, 0)
	s.expect(j, sourceName, exec(0, 0, Running, "tm-1"))
	s.run(t, "tm-1", j1, "pipeline", graphB, sourceName, 0, 1, 0)
	s.Leader.TaskManagers[0].AllocatedSlots = []string{j1}
	s.Leader.TaskManagers[1].AllocatedSlots = []string{j2, j2}
	s.Leader.TaskManagers[2].AllocatedSlots = []string{}
	ended := s.job(j2, "ended", JobFailed, 0)
	ended.EndTime = start
	r := look(s, &Memory{})
	for i, want := range []int{0, 2, 0} {
		if got := r.TaskManagers[i].UnaccountedSlots; got != want {
			t.Errorf("%s: %d slots unaccounted for, want %d", r.TaskManagers[i].ID, got, want)
		}
	}
}

// A TaskManager that is alive but not registered goes on with its tasks.
func TestC10UnregisteredTaskManager(t *testing.T) {
	for name, remembered := range map[string]bool{"seen before": true, "exporter just started": false} {
		t.Run(name, func(t *testing.T) {
			var m Memory
			id := "tm_3"
			if remembered {
				id = "tm-3"
				s := newScene("tm-1", "tm-2", "tm-3")
				look(s, &m)
			}
			s := healthy(t, graphA, 1, 0).at(time.Minute)
			s.report("tm-3", j1, "pipeline", graphA, sourceName, 1, 0)
			r := look(s, &m)
			job := wantVerdict(t, r, j1, VerdictDuplicate)
			wantReasons(t, r, ViewReporter, map[Reason]int{TaskManagerUnregistered: 1})
			wantRestart(t, job, Restart{id, TaskManagerUnregistered})
			// Threads cannot see it.
			wantDuplicates(t, job, map[View]int{ViewReporter: 1})
			tm := r.TaskManagers[len(r.TaskManagers)-1]
			if tm.ID != id || tm.Registered || tm.Leader != nil {
				t.Errorf("got %+v, want %s unregistered", tm, id)
			}
			if r.Coverage[ViewThreads] != (Coverage{2, 3}) || r.Coverage[ViewReporter] != (Coverage{3, 3}) {
				t.Errorf("coverage %v", r.Coverage)
			}
			// Forgotten with its tasks.
			s = healthy(t, graphA, 1, 0).at(2 * time.Minute)
			s.Reporters = append(s.Reporters, Reporter{URL: "http://tm-3", TaskManager: "tm_3"})
			r = look(s, &m)
			wantVerdict(t, r, j1, VerdictOK)
			if len(r.TaskManagers) != 2 {
				t.Errorf("%d TaskManagers, want 2", len(r.TaskManagers))
			}
		})
	}
}

// C11 to C14: threads that outlive their task, which reporters do not show.
func TestC11LegacySourceThreadOutlivesItsTask(t *testing.T) {
	outlivedThread(t, "Legacy Source Thread - "+sourceName+" (1/2)#0", LegacySourceThread)
}

func TestC12FetcherLeaks(t *testing.T) {
	outlivedThread(t, "Source Data Fetcher for "+sourceName+" (1/2)#0", FetcherThread)
}

func TestC13FetcherDoesNotExitInFailover(t *testing.T) {
	outlivedThread(t, "Source Data Fetcher for "+sourceName+" (2/2)#0", FetcherThread)
}

// A thread of a user function or connector, named after the task that started it.
func TestUserThreadOutlivesItsTask(t *testing.T) {
	outlivedThread(t, "jdbc-flusher for "+sourceName+" (1/2)#0", UserThread)
}

func outlivedThread(t *testing.T, name string, kind ThreadKind) {
	t.Helper()
	s := healthy(t, graphA, 1, 0)
	// One that works for a task that runs is in order.
	s.thread(t, "tm-1", strings.TrimSuffix(name, "0")+"1")
	r := look(s, &Memory{})
	if n := r.TaskManagers[0].OrphanThreads[kind]; n != 0 {
		t.Errorf("%d orphan threads although the task runs", n)
	}
	s.thread(t, "tm-1", name)
	s.thread(t, "tm-1", name)
	r = look(s, &Memory{})
	wantVerdict(t, r, j1, VerdictOK)
	if n := r.TaskManagers[0].OrphanThreads[kind]; n != 2 {
		t.Errorf("%d orphan threads, want 2", n)
	}
	if n := r.TaskManagers[1].OrphanThreads[kind]; n != 0 {
		t.Errorf("%d orphan threads on the other TaskManager", n)
	}
	if len(r.Orphans) != 0 {
		t.Errorf("orphan executions %+v", r.Orphans)
	}
}

// C16 to C18: executions stuck in a state they should leave.
func TestC16StuckCanceling(t *testing.T)    { stuck(t, Canceling) }
func TestC17StuckDeploying(t *testing.T)    { stuck(t, Deploying) }
func TestC18CancellationHangs(t *testing.T) { stuck(t, Canceling) }

func stuck(t *testing.T, state ExecutionState) {
	t.Helper()
	for _, told := range []bool{true, false} {
		var m Memory
		s := healthy(t, graphA, 0, 0)
		x := &s.Leader.Jobs[0].Vertices[0].Executions[1]
		x.State = state
		s.Leader.Jobs[0].Tasks = map[ExecutionState]int{Running: 2, state: 1}
		since := start
		if told { // since 1.16 the leader says since when
			since = start.Add(-time.Hour)
			x.StateSince = since
		}
		for i := range 3 {
			r := look(s.at(time.Duration(i)*time.Minute), &m)
			j := wantVerdict(t, r, j1, VerdictOK)
			if !reflect.DeepEqual(j.StateSince, map[ExecutionState]time.Time{state: since}) {
				t.Errorf("told %v, scrape %d: since %v, want %s since %v", told, i, j.StateSince, state, since)
			}
		}
		r := look(healthy(t, graphA, 0, 0).at(4*time.Minute), &m)
		if j := jobReport(t, r, j1); len(j.StateSince) != 0 {
			t.Errorf("still stuck: %v", j.StateSince)
		}
		// The next one in that state is not held for the one before.
		r = look(s.at(5*time.Minute), &m)
		if j := jobReport(t, r, j1); !told && !j.StateSince[state].Equal(start.Add(5*time.Minute)) {
			t.Errorf("since %v although it left the state in between", j.StateSince)
		}
	}
}

// The exporter follows the new leader and counts the takeover.
func TestC24FollowsTheNewLeader(t *testing.T) {
	var m Memory
	look(healthy(t, graphA, 0, 0), &m)
	dead := healthy(t, graphA, 0, 0).at(10 * time.Second)
	dead.Leader, dead.Dumps = nil, nil
	wantVerdict(t, look(dead, &m), j1, VerdictUnknown)
	s := healthy(t, graphB, 0, 20*time.Second).at(30 * time.Second)
	s.Leader.JobManager = "http://jm-2"
	if j := wantVerdict(t, look(s, &m), j1, VerdictOK); j.Failovers != 1 {
		t.Errorf("%d failovers, want 1", j.Failovers)
	}
}

// The leader does not know a job whose tasks go on.
func TestC25JobUnknownToTheLeader(t *testing.T) {
	for name, remembered := range map[string]bool{"seen before": true, "exporter just started": false} {
		t.Run(name, func(t *testing.T) {
			var m Memory
			if remembered {
				look(healthy(t, graphA, 0, 0), &m)
			}
			s := healthy(t, graphA, 0, 0).at(time.Minute)
			s.Leader.Jobs = nil
			r := look(s, &m)
			job := wantVerdict(t, r, j1, VerdictOrphan)
			if job.Leader != nil || job.Name != "pipeline" {
				t.Errorf("got %+v", job)
			}
			wantReasons(t, r, ViewReporter, map[Reason]int{JobUnknown: 3})
			wantReasons(t, r, ViewThreads, map[Reason]int{JobUnknown: 3})
			wantRestart(t, job, Restart{"tm-1", JobUnknown}, Restart{"tm-2", JobUnknown})
			// A new job does the same work again under another id: each runs once.
			s = s.at(2 * time.Minute)
			j := s.job(j2, "pipeline", JobRunning, time.Minute)
			s.expect(j, sourceName, exec(0, 0, Running, "tm-1"), exec(1, 0, Running, "tm-1"))
			for i := range 2 {
				s.run(t, "tm-1", j2, "pipeline", graphB, sourceName, i, 2, 0)
			}
			r = look(s, &m)
			wantVerdict(t, r, j1, VerdictOrphan)
			if got := reasons(r, ViewReporter); !maps.Equal(got, map[Reason]int{JobUnknown: 3}) {
				t.Errorf("reasons %v", got)
			}
		})
	}
}

// The same when the job has ended: its tasks should have too.
func TestTasksOfAJobThatHasEnded(t *testing.T) {
	var m Memory
	look(healthy(t, graphA, 0, 0), &m)
	s := healthy(t, graphA, 0, 0).at(time.Minute)
	s.Leader.Jobs[0] = Job{ID: j1, Name: "pipeline", State: JobCanceled, StartTime: start, EndTime: start.Add(50 * time.Second)}
	r := look(s, &m)
	wantVerdict(t, r, j1, VerdictOrphan)
	wantReasons(t, r, ViewReporter, map[Reason]int{JobEnded: 3})
	wantReasons(t, r, ViewThreads, map[Reason]int{JobEnded: 3})
}

// A short overlap that the second look does not find any more.
func TestN1ShortOverlap(t *testing.T) {
	var m Memory
	look(healthy(t, graphA, 0, 0), &m)
	s := healthy(t, graphB, 0, 30*time.Second).at(40 * time.Second)
	s.run(t, "tm-1", j1, "pipeline", graphA, sourceName, 0, 2, 0)
	first := Judge(s.Snapshot, &m, Rules{})
	job := wantVerdict(t, first, j1, VerdictUnknown)
	wantDuplicates(t, job, map[View]int{})
	if got := first.Suspicious(); !slices.Equal(got, []string{"tm-1"}) {
		t.Errorf("suspicious %v, want tm-1", got)
	}
	second := healthy(t, graphB, 0, 30*time.Second).at(41 * time.Second)
	r := Confirm(second.Snapshot, &m, Rules{}, first)
	wantDuplicates(t, wantVerdict(t, r, j1, VerdictOK), map[View]int{ViewReporter: 0, ViewThreads: 0})
	// Another one in the second look does not count either: no look saw it twice.
	other := healthy(t, graphB, 0, 30*time.Second).at(41 * time.Second)
	other.run(t, "tm-1", j1, "pipeline", graphA, sourceName, 1, 2, 0)
	wantVerdict(t, Confirm(other.Snapshot, &m, Rules{}, first), j1, VerdictUnknown)
}

// Speculative attempts run beside another on purpose.
func TestN2SpeculativeAttempts(t *testing.T) {
	build := func(states ...Execution) *scene {
		s := newScene("tm-1", "tm-2")
		j := s.job(j1, "batch", JobRunning, 0)
		s.expect(j, sourceName, states...)
		j.Tasks = map[ExecutionState]int{Running: 2}
		s.run(t, "tm-1", j1, "batch", graphA, sourceName, 0, 2, 0)
		s.run(t, "tm-1", j1, "batch", graphA, sourceName, 1, 2, 0)
		s.run(t, "tm-2", j1, "batch", graphA, sourceName, 0, 2, 1)
		return s
	}
	running := []Execution{exec(0, 0, Running, "tm-1"), exec(1, 0, Running, "tm-1")}
	for name, c := range map[string]struct {
		executions []Execution
		want       Verdict
	}{
		"known to the leader":        {append(slices.Clone(running), exec(0, 1, Running, "tm-2")), VerdictOK},
		"deploying":                  {append(slices.Clone(running), exec(0, 1, Deploying, "tm-2")), VerdictOK},
		"younger than the view":      {running, VerdictUnknown},
		"scheduled in the late view": {append(slices.Clone(running), exec(0, 1, Scheduled, "")), VerdictUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			for _, view := range []func(*scene) *scene{func(s *scene) *scene { return s }, (*scene).noThreads, (*scene).noReporters} {
				var m Memory
				s := view(build(c.executions...))
				for i := range 3 {
					r := look(s.at(time.Duration(i)*time.Second), &m)
					job := wantVerdict(t, r, j1, c.want)
					for v, n := range job.DuplicateSubtasks {
						if n != 0 {
							t.Errorf("%d duplicates by %s", n, v)
						}
					}
				}
			}
		})
	}
}

// Applications without a configured id all have the job id of zeros.
func TestN3JobIDOfZeros(t *testing.T) {
	const zeros = "00000000000000000000000000000000"
	s := newScene("tm-1")
	j := s.job(zeros, "app", JobRunning, 0)
	s.expect(j, sourceName, exec(0, 0, Running, "tm-1"))
	s.run(t, "tm-1", zeros, "app", graphA, sourceName, 0, 1, 0)
	wantVerdict(t, look(s, &Memory{}), zeros, VerdictOK)
}

// A reporter that still shows a task which has ended is refuted by a dump without its thread.
func TestN4StaleReporterSeries(t *testing.T) {
	s := healthy(t, graphB, 0, 0)
	s.report("tm-1", j1, "pipeline", graphA, sourceName, 0, 0)
	s.report("tm-2", j1, "pipeline", graphA, sourceName, 1, 0)
	wantVerdict(t, look(s.at(0), &Memory{}), j1, VerdictOK)
	// A dump of an earlier scrape refutes nothing.
	old := s.at(0)
	for i := range old.Dumps {
		old.Dumps[i].Fresh = false
	}
	wantVerdict(t, look(old, &Memory{}), j1, VerdictDuplicate)
	wantVerdict(t, look(s.at(0).noThreads(), &Memory{}), j1, VerdictDuplicate)
}

// The adaptive scheduler rescales: a new execution graph by design, attempts go on, subtasks come and go.
func TestN5Rescale(t *testing.T) {
	for name, c := range map[string]struct{ before, after int }{"up": {1, 3}, "down": {3, 1}, "same": {2, 2}} {
		t.Run(name, func(t *testing.T) {
			for _, view := range []func(*scene) *scene{func(s *scene) *scene { return s }, (*scene).noThreads, (*scene).noReporters} {
				var m Memory
				scale := func(graph string, parallelism, attempt int) *scene {
					s := newScene("tm-1", "tm-2")
					j := s.job(j1, "pipeline", JobRunning, 0)
					var xs []Execution
					for i := range parallelism {
						tm := []string{"tm-1", "tm-2"}[(i+attempt)%2]
						xs = append(xs, exec(i, attempt, Running, tm))
					}
					s.expect(j, sourceName, xs...)
					for _, x := range xs {
						s.run(t, x.TaskManager, j1, "pipeline", graph, sourceName, x.Subtask, parallelism, attempt)
					}
					return s
				}
				before, after := view(scale(graphA, c.before, 0)), view(scale(graphB, c.after, 1))
				wantVerdict(t, look(before, &m), j1, VerdictOK)
				// The leader's view is the one of before; its count of tasks is not.
				for i := range 3 {
					late := after.at(time.Duration(10+i) * time.Second)
					late.Leader.Jobs[0].Vertices = before.Leader.Jobs[0].Vertices
					j := jobReport(t, look(late, &m), j1)
					if j.Verdict == VerdictDuplicate || j.Verdict == VerdictOrphan {
						t.Errorf("scrape %d of the late view: %s (%s)", i, j.Verdict, j.Why)
					}
				}
				if j := wantVerdict(t, look(after.at(14*time.Second), &m), j1, VerdictOK); j.Failovers != 0 {
					t.Errorf("%d failovers", j.Failovers)
				}
			}
		})
	}
}

// Jobs of one name that may run together.
func TestN6SameNameOnPurpose(t *testing.T) {
	s := sameName(t)
	r := Judge(s.Snapshot, &Memory{}, Rules{AllowSameName: func(name string) bool { return name == "pipeline" }})
	if len(r.SurplusJobs) != 0 {
		t.Errorf("surplus jobs %v", r.SurplusJobs)
	}
	wantVerdict(t, r, j1, VerdictOK)
	wantVerdict(t, r, j2, VerdictOK)
	r = Judge(s.Snapshot, &Memory{}, Rules{AllowSameName: func(name string) bool { return name == "another" }})
	if r.SurplusJobs["pipeline"] != 1 {
		t.Errorf("surplus jobs %v", r.SurplusJobs)
	}
}

// What could not be looked at is unknown, and the count of duplicates is absent, never 0.
func TestN8CouldNotLook(t *testing.T) {
	failed := errors.New("timeout")
	for name, c := range map[string]struct {
		change func(*scene)
		want   Verdict
		counts map[View]int
	}{
		"no view turned on":       {func(s *scene) { s.noThreads().noReporters() }, VerdictUnknown, map[View]int{}},
		"identity labels dropped": {func(s *scene) { s.noThreads(); s.Reporters[0].Executions, s.Reporters[0].Unidentified = nil, 2 }, VerdictUnknown, map[View]int{}},
		"some labels dropped":     {func(s *scene) { s.noThreads(); s.Reporters[0].Unidentified = 1 }, VerdictUnknown, map[View]int{}},
		"series filtered":         {func(s *scene) { s.noThreads(); s.Reporters[0].Executions = nil }, VerdictUnknown, map[View]int{}},
		"reporter failed":         {func(s *scene) { s.noThreads(); s.Reporters[0] = Reporter{URL: "x", Err: failed} }, VerdictUnknown, map[View]int{}},
		"reporter missing":        {func(s *scene) { s.noThreads(); s.Reporters = s.Reporters[1:] }, VerdictUnknown, map[View]int{}},
		"dump failed":             {func(s *scene) { s.noReporters(); s.Dumps[0] = ThreadDump{TaskManager: "tm-1", Err: failed} }, VerdictUnknown, map[View]int{}},
		"the other view can":      {func(s *scene) { s.Reporters[0] = Reporter{URL: "x", Err: failed} }, VerdictOK, map[View]int{ViewThreads: 0}},
		"each can see a part": {func(s *scene) {
			s.Reporters[0] = Reporter{URL: "x", Err: failed}
			s.Dumps[1] = ThreadDump{TaskManager: "tm-2", Err: failed}
		}, VerdictOK, map[View]int{}},
		"TaskManagers not known": {func(s *scene) { s.Leader.TaskManagers = nil }, VerdictUnknown, map[View]int{}},
		"executions not known":   {func(s *scene) { s.Leader.Jobs[0].Detailed = false }, VerdictUnknown, map[View]int{}},
		"vertices not known":     {func(s *scene) { s.Leader.Jobs[0].Vertices = nil }, VerdictUnknown, map[View]int{}},
		"no leader":              {func(s *scene) { s.Leader = nil }, VerdictUnknown, map[View]int{}},
	} {
		t.Run(name, func(t *testing.T) {
			s := healthy(t, graphA, 0, 0)
			c.change(s)
			job := wantVerdict(t, look(s, &Memory{}), j1, c.want)
			wantDuplicates(t, job, c.counts)
		})
	}
}

// A duplicate that was seen stays one only for views that can still look; the series of scrapes is not broken by one that could not.
func TestDuplicateSinceOutlastsABlindScrape(t *testing.T) {
	var m Memory
	twice := func(d time.Duration) *scene {
		s := healthy(t, graphB, 0, 0).at(d)
		s.run(t, "tm-1", j1, "pipeline", graphA, sourceName, 0, 2, 0)
		return s
	}
	look(twice(0), &m)
	blind := twice(10 * time.Second)
	blind.Leader = nil
	wantVerdict(t, look(blind, &m), j1, VerdictUnknown)
	j := wantVerdict(t, look(twice(20*time.Second), &m), j1, VerdictDuplicate)
	if !j.DuplicateSince.Equal(start) {
		t.Errorf("duplicate since %v, want %v", j.DuplicateSince, start)
	}
	look(healthy(t, graphB, 0, 0).at(30*time.Second), &m)
	j = wantVerdict(t, look(twice(40*time.Second), &m), j1, VerdictDuplicate)
	if !j.DuplicateSince.Equal(start.Add(40 * time.Second)) {
		t.Errorf("duplicate since %v, want a new series", j.DuplicateSince)
	}
}

// Two jobs with a vertex of the same name on one TaskManager: a thread too many could be of either.
func TestThreadOfEitherJob(t *testing.T) {
	s := sameName(t).noReporters()
	s.thread(t, "tm-1", TaskName{sourceName, 0, 1, 0}.String())
	r := look(s, &Memory{})
	for _, id := range []string{j1, j2} {
		wantDuplicates(t, wantVerdict(t, r, id, VerdictUnknown), map[View]int{})
	}
	if len(r.Orphans) != 1 || r.Orphans[0].Job != (JobRef{}) || r.Orphans[0].Reason != SurplusThread {
		t.Errorf("orphans %+v, want one of no job", r.Orphans)
	}
	// The reporter tells whose it is.
	s = sameName(t)
	s.run(t, "tm-1", j2, "pipeline", graphC, sourceName, 0, 1, 0)
	r = look(s, &Memory{})
	wantVerdict(t, r, j2, VerdictDuplicate)
	wantVerdict(t, r, j1, VerdictOK)
}

// Two vertices of one name in one job.
func TestVerticesOfOneName(t *testing.T) {
	s := newScene("tm-1")
	j := s.job(j1, "pipeline", JobRunning, 0)
	s.expect(j, "map", exec(0, 0, Running, "tm-1"))
	j.Vertices = append(j.Vertices, Vertex{ID: hexID(0x2222), Name: "map", Parallelism: 1, Executions: []Execution{exec(0, 0, Running, "tm-1")}})
	j.Tasks[Running]++
	s.noReporters()
	s.thread(t, "tm-1", "map (1/1)#0")
	s.thread(t, "tm-1", "map (1/1)#0")
	wantVerdict(t, look(s.at(0), &Memory{}), j1, VerdictOK)
	s.thread(t, "tm-1", "map (1/1)#0")
	job := wantVerdict(t, look(s, &Memory{}), j1, VerdictDuplicate)
	wantDuplicates(t, job, map[View]int{ViewThreads: 1})
	wantRestart(t, job, Restart{"tm-1", SurplusThread})
}

// A job that the leader does not know is remembered like any other.
func TestDuplicateSinceOfAJobUnknownToTheLeader(t *testing.T) {
	var m Memory
	s := newScene("tm-1")
	s.run(t, "tm-1", j1, "pipeline", graphA, sourceName, 0, 1, 0)
	s.run(t, "tm-1", j1, "pipeline", graphB, sourceName, 0, 1, 0)
	for i := range 3 {
		j := wantVerdict(t, look(s.at(time.Duration(i)*time.Minute), &m), j1, VerdictDuplicate)
		if !j.DuplicateSince.Equal(start) {
			t.Errorf("scrape %d: duplicate since %v, want %v", i, j.DuplicateSince, start)
		}
	}
}

// An exporter that starts while there is no leader has seen no failover when one appears.
func TestExporterStartsWithoutALeader(t *testing.T) {
	var m Memory
	s := healthy(t, graphA, 0, 0)
	s.Leader, s.Dumps = nil, nil
	wantVerdict(t, look(s, &m), j1, VerdictUnknown)
	if j := wantVerdict(t, look(healthy(t, graphB, 0, 30*time.Second).at(time.Minute), &m), j1, VerdictOK); j.Failovers != 0 {
		t.Errorf("%d failovers, want 0", j.Failovers)
	}
}

// A reporter read at two addresses shows nothing twice, and hides nothing.
func TestReporterReadAtTwoAddresses(t *testing.T) {
	var m Memory
	s := healthy(t, graphB, 0, 0)
	s.run(t, "tm-1", j1, "pipeline", graphA, sourceName, 0, 2, 0)
	again := s.Reporters[0]
	again.URL += ":9250"
	s.Reporters = append(s.Reporters, again)
	wantDuplicates(t, wantVerdict(t, look(s, &m), j1, VerdictDuplicate), map[View]int{ViewReporter: 1, ViewThreads: 1})
}

// Right after a takeover the leader's view may have tasks as scheduled that run already, beside zombies: which are the newer ones is told by
// when they were seen first, and nobody's TaskManager is named but the zombies'.
func TestL1WhileTheViewIsLate(t *testing.T) {
	var m Memory
	s := newScene("tm-1", "tm-2")
	j := s.job(j1, "pipeline", JobRunning, 0)
	s.expect(j, sourceName, exec(0, 0, Running, "tm-1"))
	s.run(t, "tm-1", j1, "pipeline", graphA, sourceName, 0, 1, 0)
	wantVerdict(t, look(s, &m), j1, VerdictOK)
	s = s.at(30 * time.Second)
	s.Leader.Jobs[0].StartTime = start.Add(28 * time.Second)
	s.run(t, "tm-2", j1, "pipeline", graphB, sourceName, 0, 1, 0)
	late := s.at(30 * time.Second)
	late.Leader.Jobs[0].Vertices[0].Executions[0] = exec(0, 0, Scheduled, "")
	r := look(late, &m)
	wantRestart(t, wantVerdict(t, r, j1, VerdictDuplicate), Restart{"tm-1", StaleExecutionGraph})
	// Unless the successor may still be restoring its state.
	late = late.at(30 * time.Second)
	late.Leader.Jobs[0].Tasks = map[ExecutionState]int{Initializing: 1}
	wantRestart(t, wantVerdict(t, look(late, &m), j1, VerdictUnknown), Restart{"tm-1", StaleExecutionGraph})
	s = s.at(31 * time.Second)
	s.Leader.Jobs[0].Vertices[0].Executions[0] = exec(0, 0, Running, "tm-2")
	wantRestart(t, wantVerdict(t, look(s, &m), j1, VerdictDuplicate), Restart{"tm-1", StaleExecutionGraph})
}
