package lineage

import (
	"cmp"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// simRuns is how many histories each sequence test plays; more of them take longer, other than that it is safe to raise.
var simRuns = flag.Int("sim.runs", 2000, "histories that each sequence test plays")

// runs is how many histories a sequence test plays.
func runs(n int) int {
	if testing.Short() || slow {
		return n / 10
	}
	return n
}

// describe says what a report rests on, for a failure's message.
func describe(r *Report) string {
	var b strings.Builder
	for _, j := range r.Jobs {
		fmt.Fprintf(&b, "  job %s %s: %s (%s) %v\n", j.ID, j.Name, j.Verdict, j.Why, j.DuplicateSubtasks)
		if j.Leader != nil {
			fmt.Fprintf(&b, "    leader: %s tasks %v\n", j.Leader.State, j.Leader.Tasks)
			for _, v := range j.Leader.Vertices {
				fmt.Fprintf(&b, "      %s %+v\n", v.Name, v.Executions)
			}
		}
	}
	for _, o := range r.Orphans {
		fmt.Fprintf(&b, "  orphan %+v\n", o)
	}
	for _, rep := range r.Snapshot.Reporters {
		for _, x := range rep.Executions {
			fmt.Fprintf(&b, "  reporter %s: %s %s %d#%d %s\n", rep.TaskManager, x.JobID[28:], x.VertexName, x.Subtask, x.Attempt, x.AttemptID)
		}
	}
	for _, d := range r.Snapshot.Dumps {
		for _, t := range d.Threads {
			fmt.Fprintf(&b, "  dump %s fresh %v: kind %d %s id %d\n", d.TaskManager, d.Fresh, t.Kind, t.Task, t.ID)
		}
	}
	return b.String()
}

// simCluster is a cluster with one job under events and sometimes a second one beside it that has vertices of the same names.
func simCluster(seed uint64) (*sim, *simJob, time.Duration) {
	s := newSim(seed)
	j, t := s.submit(0, j1, "pipeline", 1+s.IntN(3), "Source: a", "Sink: b (c)")
	if s.IntN(3) == 0 {
		other := "Source: a"
		if s.IntN(2) == 0 {
			other = "other"
		}
		s.submit(0, j2, "beside", 1+s.IntN(2), other)
	}
	return s, j, t
}

// legalEvents are everything that may happen to a job without anything running twice.
var legalEvents = map[string]func(s *sim, t time.Duration, j *simJob) (*simJob, time.Duration){
	"clean failover": func(s *sim, t time.Duration, j *simJob) (*simJob, time.Duration) {
		return j, s.failover(t, j, nil, nil)
	},
	"restart full": func(s *sim, t time.Duration, j *simJob) (*simJob, time.Duration) {
		return j, s.restart(t, j, true)
	},
	"restart region": func(s *sim, t time.Duration, j *simJob) (*simJob, time.Duration) {
		return j, s.restart(t, j, false)
	},
	"cancel and resubmit": func(s *sim, t time.Duration, j *simJob) (*simJob, time.Duration) {
		return s.resubmit(t, j)
	},
	"rescale": func(s *sim, t time.Duration, j *simJob) (*simJob, time.Duration) {
		return j, s.rescale(t, j, 1+s.IntN(4))
	},
	"speculation": func(s *sim, t time.Duration, j *simJob) (*simJob, time.Duration) {
		if s.random {
			return j, t // Flink 1.15 has none
		}
		return j, s.speculate(t, j)
	},
	"TaskManager lost": func(s *sim, t time.Duration, j *simJob) (*simJob, time.Duration) {
		tms := s.registeredAt(t)
		if len(tms) < 2 {
			return j, t
		}
		return j, s.lose(t, tms[s.IntN(len(tms))])
	},
}

func eventNames() []string {
	names := make([]string, 0, len(legalEvents))
	for name := range legalEvents {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Whatever happens to a cluster whose tasks end as they should, no scrape of a sequence says that something runs twice.
func TestSequenceLegalEventsNeverDuplicate(t *testing.T) {
	names := eventNames()
	scrapes, verdicts := 0, map[Verdict]int{}
	for seed := range uint64(runs(*simRuns)) {
		s, j, at := simCluster(seed)
		var history []string
		speculated := false
		for range 1 + s.IntN(4) {
			// Also during the event before has not been seen by the cached view.
			at += s.upTo(6 * time.Second)
			name := names[s.IntN(len(names))]
			if speculated || len(j.current(at)) == 0 {
				break // a subtask has finished: nothing restarts it
			}
			history = append(history, fmt.Sprintf("%s at %v", name, at))
			speculated = name == "speculation"
			j, at = legalEvents[name](s, at, j)
		}
		if s.IntN(3) == 0 && len(j.current(at)) > 0 {
			at += s.upTo(4 * time.Second)
			history = append(history, fmt.Sprintf("finish at %v", at))
			at = s.finish(at, j)
		}
		restart := never
		if s.IntN(2) == 0 {
			restart = s.upTo(at)
		}
		last := at + 12*time.Second
		var r *Report
		for now := s.upTo(time.Second); now < last; {
			if now > restart {
				s.forget()
				restart = never
			}
			var end time.Duration
			r, end = s.scrape(now)
			scrapes++
			for i := range r.Jobs {
				verdicts[r.Jobs[i].Verdict]++
				if r.Jobs[i].Verdict == VerdictDuplicate {
					t.Fatalf("seed %d, scrape at %v: duplicate after %q; random ids %v\n%s", seed, now, history, s.random, describe(r))
				}
				for v, n := range r.Jobs[i].DuplicateSubtasks {
					if n > 0 {
						t.Fatalf("seed %d, scrape at %v: %d duplicates by %s after %q\n%s", seed, now, n, v, history, describe(r))
					}
				}
			}
			now = max(now+time.Second, end)
		}
		// Long after the last event everything is understood.
		for i := range r.Jobs {
			if r.Jobs[i].Verdict != VerdictOK {
				t.Fatalf("seed %d: %s (%s) at the end after %q\n%s", seed, r.Jobs[i].Verdict, r.Jobs[i].Why, history, describe(r))
			}
		}
	}
	t.Logf("%d scrapes, verdicts %v", scrapes, verdicts)
	if verdicts[VerdictOK] < verdicts[VerdictUnknown] {
		t.Errorf("more scrapes could not tell than could: %v", verdicts)
	}
}

// zombieKinds are the ways an execution comes to go on beside its successor.
var zombieKinds = []string{"same TaskManager", "other TaskManager", "unregistered TaskManager", "thawed TaskManager"}

// A zombie is found within two scrapes of the leader's view showing its successor at work, named with the TaskManager to restart, and gone
// with it; a restart of the exporter at any moment changes nothing of that.
func TestSequenceZombies(t *testing.T) {
	for _, kind := range zombieKinds {
		t.Run(kind, func(t *testing.T) {
			for seed := range uint64(runs(*simRuns / 4)) {
				playZombie(t, kind, 1_000_000+seed)
				if t.Failed() {
					return
				}
			}
		})
	}
}

func playZombie(t *testing.T, kind string, seed uint64) {
	t.Helper()
	s := newSim(seed)
	parallelism := 1 + s.IntN(3)
	j, at := s.submit(0, j1, "pipeline", parallelism, "Source: a", "Sink: b (c)")
	if s.IntN(3) == 0 {
		s.submit(0, j2, "beside", 1, "other")
	}
	at += time.Second + s.upTo(5*time.Second)
	if s.IntN(3) == 0 {
		at = s.restart(at, j, s.IntN(2) == 0) + s.upTo(6*time.Second)
	}
	old := j.current(at)
	victim := old[s.IntN(len(old))].tm
	if kind == "unregistered TaskManager" {
		s.reportersOn = true
	} else if s.reportersOn && s.threadsOn && s.IntN(3) == 0 {
		s.mute[victim] = true
	}
	elsewhere := slices.DeleteFunc(s.registeredAt(at), func(id string) bool { return id == victim })
	onVictim := func(x *simExec) bool { return x.tm == victim }
	other := func(int, int) string { return elsewhere[s.IntN(len(elsewhere))] }
	var running, successors time.Duration
	switch kind {
	case "same TaskManager":
		running = s.failover(at, j, onVictim, func(vertex, subtask int) string {
			i := slices.IndexFunc(old, func(x *simExec) bool { return x.vertex == vertex && x.subtask == subtask })
			return old[i].tm
		})
	case "other TaskManager":
		running = s.failover(at, j, onVictim, other)
	case "unregistered TaskManager":
		s.tm(victim).registered[0].to = at
		running = s.failover(at, j, onVictim, other)
		for _, job := range s.jobs { // the job beside loses its executions there too
			if job != j {
				running = max(running, s.redeployWithout(running, job, victim))
				for _, x := range job.execs {
					if x.tm == victim {
						x.ends = min(x.ends, running)
					}
				}
			}
		}
	case "thawed TaskManager":
		tm := s.tm(victim)
		tm.answers[0].to = at
		noticed := at + s.upTo(5*time.Second)
		tm.registered[0].to = noticed
		running = noticed
		for _, job := range s.jobs {
			running = max(running, s.redeployWithout(noticed, job, victim))
		}
		successors = running
		thawed := running + s.upTo(8*time.Second)
		tm.answers, tm.registered = append(tm.answers, span{thawed, never}), append(tm.registered, span{thawed + s.upTo(time.Second), never})
		for _, job := range s.jobs {
			for _, x := range job.execs {
				if x.tm == victim && job != j {
					x.ends = min(x.ends, thawed)
				}
				x.canceling = max(x.canceling, thawed)
			}
		}
		running = tm.registered[1].from
	}
	successors = cmp.Or(successors, running)
	kill := running + 8*time.Second + s.upTo(8*time.Second)
	restart := never
	if s.IntN(2) == 0 {
		restart = s.upTo(kill)
	}
	settled := max(s.lose(kill, victim), kill)
	for _, tm := range s.tms {
		settled = max(settled, tm.answers[0].from)
	}
	fail := func(now time.Duration, r *Report, format string, args ...any) {
		t.Helper()
		t.Fatalf("seed %d, scrape at %v: %s; successors run from %v, killed %s at %v, settled at %v, exporter restarted at %v, reporters %v without %v, threads %v every %v, random ids %v\n%s",
			seed, now, fmt.Sprintf(format, args...), running, victim, kill, settled, restart, s.reportersOn, s.mute, s.threadsOn, s.dumpEvery, s.random, describe(r))
	}
	caughtUp, forgot := 0, false
	for now := s.upTo(time.Second); now < settled+10*time.Second; {
		if now > restart && !forgot {
			s.forget()
			forgot = true
		}
		r, end := s.scrape(now)
		var job *JobReport
		for i := range r.Jobs {
			if r.Jobs[i].ID == j1 {
				job = &r.Jobs[i]
			}
		}
		if job != nil && job.Verdict == VerdictDuplicate {
			named := slices.ContainsFunc(job.Restart, func(x Restart) bool { return Sanitize(x.TaskManager) == Sanitize(victim) })
			// An exporter that has just started cannot tell which of two executions came first before the view has caught up.
			if !named || len(job.Restart) != 1 && (!forgot || caughtUp > 0) {
				fail(now, r, "restart %v", job.Restart)
			}
		}
		switch {
		case now >= running && end < kill:
			if caughtUp > 0 || job != nil && allRunning(job) && s.cache[j1] >= successors {
				caughtUp++
			}
			if caughtUp == 0 {
				break
			}
			if job == nil || caughtUp > 1 && job.Verdict != VerdictDuplicate {
				fail(now, r, "%d scrapes after the view caught up it is no duplicate", caughtUp)
			}
		case now > kill:
			if job != nil && (job.Verdict == VerdictDuplicate || job.Verdict == VerdictOrphan) {
				fail(now, r, "still %s", job.Verdict)
			}
			if now > settled+cacheTTL+time.Second && (job == nil || job.Verdict != VerdictOK) {
				fail(now, r, "not ok again")
			}
		}
		now = max(now+time.Second, end)
	}
	if caughtUp < 2 {
		t.Fatalf("seed %d: the view caught up for %d scrapes only", seed, caughtUp)
	}
}

// allRunning is whether the leader's view has every execution at work.
func allRunning(j *JobReport) bool {
	if j.Leader == nil || !j.Leader.Detailed || len(j.Leader.Vertices) == 0 {
		return false
	}
	for _, v := range j.Leader.Vertices {
		for _, x := range v.Executions {
			if x.State != Running {
				return false
			}
		}
	}
	return true
}
