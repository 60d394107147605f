package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flink-lineage/flink-lineage-exporter/test/beam"
	"github.com/flink-lineage/flink-lineage-exporter/test/lab"
)

// scenario is an incident, or a piece of ordinary life, with the right answer.
type scenario struct {
	name  string
	about string
	// applies is whether the version has what the scenario needs; nil for all.
	applies func(version string) bool
	options func(version string) lab.Options
	// beam is what options is for a scenario with Kafka and PostgreSQL.
	beam func(version string) beam.Options
	play func(*stage) error
}

var scenarios = []*scenario{numbers, zombies, starved, frozen, frozenLeader, failovers, restarts, resubmits}

func scenarioNames() string {
	var names []string
	for _, x := range scenarios {
		names = append(names, x.name)
	}
	var beams []string
	for _, x := range beamScenarios {
		beams = append(beams, x.name)
	}
	return "There are: " + strings.Join(names, ", ") + "; with --beam: " + strings.Join(beams, ", ") + "."
}

// highlyAvailable is a cluster with two JobManagers and two TaskManagers whose job runs in one of them.
func highlyAvailable(jobArgs ...string) func(string) lab.Options {
	return func(string) lab.Options {
		return lab.Options{HA: lab.ZooKeeper, JobManagers: 2, TaskManagers: 2, Slots: 2, Parallelism: 2, JobArgs: jobArgs}
	}
}

func with(o func(string) lab.Options, conf map[string]string) func(string) lab.Options {
	return func(version string) lab.Options {
		options := o(version)
		options.FlinkConf = conf
		return options
	}
}

// numbers compares every number with REST, and follows a failover.
var numbers = &scenario{
	name:    "numbers",
	about:   "every number equals what REST says beside it, through each JobManager; leader killed: `up` 0 and electing, then the standby's view, a new start time and one failover",
	options: highlyAvailable(),
	play: func(p *stage) error {
		if err := p.cluster.WaitRunning(p.ctx); err != nil {
			return err
		}
		jms := p.cluster.JobManagers()
		for _, through := range [][]*lab.JobManager{{jms[0]}, {jms[1]}, jms} {
			if err := p.compare(through); err != nil {
				return err
			}
		}
		if err := p.begin(); err != nil {
			return err
		}
		before, err := p.startTime()
		if err != nil {
			return err
		}
		dead, at, err := p.killLeader()
		if err != nil {
			return err
		}
		down, err := p.await("up 0, the standby electing and the verdict unknown", at, func(s *sample) bool {
			up, _ := s.Value("up")
			electing, _ := s.Sum("jobmanager_electing")
			_, tasks := s.Value("job_tasks")
			return up == 0 && electing == 1 && !tasks && s.Verdict("") == "unknown"
		})
		if err != nil {
			return err
		}
		if err := p.restored(before); err != nil {
			return err
		}
		after, err := p.startTime()
		if err != nil {
			return err
		}
		back, err := p.await("the standby's view with one failover", time.Now(), func(s *sample) bool {
			up, _ := s.Value("up")
			deadUp, _ := s.Value("jobmanager_up", "jobmanager", dead.URL)
			start, _ := s.Value("job_start_timestamp_seconds")
			failovers, _ := s.Value("job_failovers_total")
			return up == 1 && deadUp == 0 && start == float64(after)/1000 && failovers == 1 && s.Verdict("") == "ok"
		})
		if err != nil {
			return err
		}
		p.result.note("`up` 0 after %.1f s, again 1 %.1f s after the kill", down.Begin.Sub(at).Seconds(), back.Begin.Sub(at).Seconds())
		if err := p.noAlarm(); err != nil {
			return err
		}
		if err := p.stopExporter(); err != nil {
			return err
		}
		alive := jms[0]
		if alive == dead {
			alive = jms[1]
		}
		return p.compare([]*lab.JobManager{alive})
	},
}

// zombies is case L1.
var zombies = &scenario{
	name:  "zombies",
	about: "leader killed, tasks ignore cancellation and go on beside their successors (L1); then their TaskManager is restarted",
	options: with(highlyAvailable("--mode", "zombie"), map[string]string{
		"taskmanager.slot.timeout": "120000", "task.cancellation.timeout": "0",
	}),
	play: func(p *stage) error {
		if err := p.begin(); err != nil {
			return err
		}
		before, err := p.startTime()
		if err != nil {
			return err
		}
		_, at, err := p.killLeader()
		if err != nil {
			return err
		}
		if err := p.restored(before); err != nil {
			return err
		}
		doubled, err := p.doubled(at)
		if err != nil {
			return err
		}
		return p.duplicate(doubled, func() (*lab.TaskManager, error) { return p.busiest(doubled) }, "stale_execution_graph")
	},
}

// duplicate checks that both views see double work that began at a known moment, with the TaskManager to restart, and that restarting it ends
// it.
func (p *stage) duplicate(since time.Time, culprit func() (*lab.TaskManager, error), reason string) error {
	tm, err := culprit()
	if err != nil {
		return err
	}
	id, err := tm.ID(p.ctx)
	if err != nil {
		return err
	}
	for _, view := range []string{"reporter", "threads"} {
		f, err := p.await("duplicates by view "+view, since, func(s *sample) bool {
			n, _ := s.Value("duplicate_subtasks", "view", view)
			return n > 0
		})
		if err != nil {
			return err
		}
		p.result.seen(view, f, since)
	}
	f, err := p.await("the verdict duplicate and the TaskManager to restart", since, func(s *sample) bool {
		_, named := s.Value("taskmanager_restart_advised", "tm_id", id, "reason", reason)
		return s.Verdict("") == "duplicate" && named && len(s.Series("taskmanager_restart_advised")) == 1
	})
	if err != nil {
		return err
	}
	p.result.seen("verdict", f, since)
	doubles, err := lab.CountDoubles(since, p.cluster.Sinks()...)
	if err != nil {
		return err
	}
	if len(doubles.Duplicated()) == 0 {
		return fmt.Errorf("the records written show no double work: %s", doubles)
	}
	p.result.note("restart %s; %s", id, doubles)
	if err := tm.Kill(); err != nil {
		return err
	}
	if err := tm.Start(); err != nil {
		return err
	}
	if err := p.cluster.WaitRunning(p.ctx); err != nil {
		return err
	}
	restarted := time.Now()
	cleared, err := p.await("the verdict ok after the restart", restarted, func(s *sample) bool { return s.Verdict("") == "ok" })
	if err != nil {
		return err
	}
	p.result.cleared = cleared.number
	p.result.falseAlarms = p.alarms(restarted, time.Now(), "duplicate") + p.alarms(time.Time{}, since, "duplicate")
	if p.result.falseAlarms > 0 {
		return fmt.Errorf("%d scrapes say duplicate before it began or after it ended", p.result.falseAlarms)
	}
	return nil
}

// starved is case L2.
var starved = &scenario{
	name:  "starved",
	about: "leader killed, the standby slower than the slot timeout: the old tasks keep their slots and go on, the restored job waits in SCHEDULED (L2)",
	options: with(highlyAvailable("--mode", "zombie"), map[string]string{
		"taskmanager.slot.timeout": "1000", "task.cancellation.timeout": "0",
	}),
	play: func(p *stage) error {
		if err := p.begin(); err != nil {
			return err
		}
		_, at, err := p.killLeader()
		if err != nil {
			return err
		}
		f, err := p.await("the verdict orphan and a starved job", at, func(s *sample) bool {
			hungry, _ := s.Value("job_starved")
			scheduled, _ := s.Value("job_tasks", "state", "scheduled")
			return s.Verdict("") == "orphan" && hungry == 1 && scheduled > 0
		})
		if err != nil {
			return err
		}
		tm, err := p.busiest(f.Begin)
		if err != nil {
			return err
		}
		id, err := tm.ID(p.ctx)
		if err != nil {
			return err
		}
		if !strings.Contains(f.Restart(), id) {
			return fmt.Errorf("restart %s is advised, but %s is the one to restart", f.Restart(), id)
		}
		p.result.note("orphan and starved %.1f s after the kill; restart %s", f.Begin.Sub(at).Seconds(), id)
		if err := p.noAlarm(); err != nil {
			return err
		}
		if err := tm.Kill(); err != nil {
			return err
		}
		if err := tm.Start(); err != nil {
			return err
		}
		if err := p.cluster.WaitRunning(p.ctx); err != nil {
			return err
		}
		cleared, err := p.await("the verdict ok after the restart", time.Now(), func(s *sample) bool { return s.Verdict("") == "ok" })
		p.result.cleared = cleared.number
		if err != nil {
			return err
		}
		return p.noAlarm()
	},
}

// frozen is case L10.
var frozen = &scenario{
	name:  "frozen-taskmanager",
	about: "a TaskManager frozen past heartbeat.timeout and thawed: its tasks ignore cancellation and go on beside attempt 1 on the other (L10)",
	options: with(highlyAvailable("--mode", "zombie"), map[string]string{
		"heartbeat.interval": "1000", "heartbeat.timeout": "6000", "task.cancellation.timeout": "0",
	}),
	play: func(p *stage) error {
		if err := p.begin(); err != nil {
			return err
		}
		tm, err := p.busiest(time.Now().Add(-5 * time.Second))
		if err != nil {
			return err
		}
		if err := tm.Freeze(); err != nil {
			return err
		}
		at := time.Now()
		err = p.cluster.Wait(p.ctx, "the tasks to run on the other TaskManager", func(ctx context.Context) (bool, error) {
			jobs, err := p.cluster.Jobs(ctx)
			if err != nil || len(jobs) != 1 || !jobs[0].AllRunning() {
				return false, err
			}
			other, err := p.busiest(at.Add(time.Second))
			if err != nil {
				return false, nil
			}
			return other != tm, nil
		})
		if err != nil {
			return err
		}
		thawed := time.Now()
		if err := tm.Thaw(); err != nil {
			return err
		}
		doubled, err := p.doubled(thawed)
		if err != nil {
			return err
		}
		return p.duplicate(doubled, func() (*lab.TaskManager, error) { return tm, nil }, "stale_attempt")
	},
}

// frozenLeader is cases L9 and L11.
var frozenLeader = &scenario{
	name:    "frozen-leader",
	about:   "the leader frozen until the standby leads, then thawed: for a moment two JobManagers tell a story (L9, L11)",
	options: highlyAvailable(),
	play: func(p *stage) error {
		if err := p.begin(); err != nil {
			return err
		}
		before, err := p.startTime()
		if err != nil {
			return err
		}
		leader, err := p.cluster.Leader(p.ctx)
		if err != nil {
			return err
		}
		if err := leader.Freeze(); err != nil {
			return err
		}
		at := time.Now()
		if err := p.restored(before); err != nil {
			return err
		}
		if _, err := p.await("the standby's view beside a frozen leader", time.Now(), func(s *sample) bool {
			up, _ := s.Value("jobmanager_up", "jobmanager", leader.URL)
			return s.Verdict("") == "ok" && up == 0
		}); err != nil {
			return err
		}
		if err := leader.Thaw(); err != nil {
			return err
		}
		thawed := time.Now()
		if _, err := p.await("both JobManagers up and all well", thawed, func(s *sample) bool {
			up, _ := s.Value("jobmanager_up", "jobmanager", leader.URL)
			return s.Verdict("") == "ok" && up == 1
		}); err != nil {
			return err
		}
		disagreements := 0
		for _, s := range p.exporter.Since(thawed) {
			if n, _ := s.Sum("jobmanager_disagreement"); n > 0 {
				disagreements++
			}
		}
		_, err = p.await("one failover in all", thawed, func(s *sample) bool {
			n, _ := s.Value("job_failovers_total")
			return n == 1
		})
		if err != nil {
			return err
		}
		p.result.note("frozen %.0f s; %d scrapes saw the JobManagers disagree; failovers counted: 1", thawed.Sub(at).Seconds(), disagreements)
		return p.noAlarm()
	},
}

// failovers are clean (L4).
var failovers = &scenario{
	name:    "clean-failovers",
	about:   "leader killed, everything ends as it should, the dead JobManager comes back as standby (L4); repeated",
	options: highlyAvailable(),
	play: func(p *stage) error {
		if err := p.begin(); err != nil {
			return err
		}
		for i := range p.settings.rounds {
			before, err := p.startTime()
			if err != nil {
				return err
			}
			dead, _, err := p.killLeader()
			if err != nil {
				return err
			}
			if err := p.restored(before); err != nil {
				return err
			}
			if _, err := p.await("the verdict ok", time.Now(), func(s *sample) bool {
				n, _ := s.Value("job_failovers_total")
				return s.Verdict("") == "ok" && n == float64(i+1)
			}); err != nil {
				return err
			}
			if err := dead.Start(); err != nil {
				return err
			}
			if _, err := p.await("the dead JobManager back", time.Now(), func(s *sample) bool {
				up, _ := s.Value("jobmanager_up", "jobmanager", dead.URL)
				return up == 1
			}); err != nil {
				return err
			}
		}
		p.result.note("%d failovers, all counted", p.settings.rounds)
		return p.noAlarm()
	},
}

// restarts are ordinary.
var restarts = &scenario{
	name:    "task-restarts",
	about:   "one task fails and the job restarts under the same leader; repeated",
	options: with(highlyAvailable(), map[string]string{"restart-strategy.fixed-delay.attempts": "1000", "restart-strategy.fixed-delay.delay": "100"}),
	play: func(p *stage) error {
		if err := p.begin(); err != nil {
			return err
		}
		for range p.settings.rounds {
			was := p.attempts()
			tm, err := p.busiest(time.Now().Add(-2 * time.Second))
			if err != nil {
				return err
			}
			if err := tm.FailTask(); err != nil {
				return err
			}
			if _, err := p.await("a higher attempt and the verdict ok", time.Now(), func(s *sample) bool {
				n, _ := s.Sum("task_attempt")
				return n > was && s.Verdict("") == "ok"
			}); err != nil {
				return err
			}
		}
		p.result.note("%d restarts", p.settings.rounds)
		return p.noAlarm()
	},
}

// attempts is the sum of the attempt numbers in the last scrape.
func (p *stage) attempts() float64 {
	samples := p.exporter.Since(time.Time{})
	for _, sample := range slices.Backward(samples) {
		if n, ok := sample.Sum("task_attempt"); ok {
			return n
		}
	}
	return 0
}

// resubmits are jobs canceled and submitted anew on a session cluster.
var resubmits = &scenario{
	name:  "resubmits",
	about: "the job is canceled and submitted anew on a session cluster; repeated",
	options: func(string) lab.Options {
		return lab.Options{HA: lab.ZooKeeper, Mode: lab.Session, JobManagers: 1, TaskManagers: 2, Slots: 2, Parallelism: 2}
	},
	play: func(p *stage) error {
		for i := range p.settings.rounds + 1 {
			id, err := p.cluster.RunJob(p.ctx, lab.JobOptions{})
			if err != nil {
				return err
			}
			if i == 0 {
				if err := p.watch(); err != nil {
					return err
				}
			}
			if _, err := p.await("the verdict ok on the new job", time.Now(), func(s *sample) bool {
				running, _ := s.Value("job_tasks", "job_id", id, "state", "running")
				return running > 0 && s.Verdict(id) == "ok"
			}); err != nil {
				return err
			}
			if err := p.cluster.CancelJob(p.ctx, id); err != nil {
				return err
			}
			if _, err := p.await("the job canceled", time.Now(), func(s *sample) bool {
				canceled, _ := s.Value("job_state", "job_id", id, "state", "CANCELED")
				return canceled == 1
			}); err != nil {
				return err
			}
		}
		p.result.note("%d jobs", p.settings.rounds+1)
		return p.noAlarm()
	},
}

var errDiffers = errors.New("the exporter and REST differ")
