package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/flink-lineage/flink-lineage-exporter/test/lab"
)

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
		_, at, err := p.failover()
		if err != nil {
			return err
		}
		doubled, tm, err := p.doubledOn(at)
		if err != nil {
			return err
		}
		return p.duplicate(doubled, tm, "stale_execution_graph", "reporter", "threads")
	},
}

// duplicate checks that the views see double work that began at a known moment, with the TaskManager to restart, and that restarting it ends
// it.
func (p *stage) duplicate(since time.Time, tm *lab.TaskManager, reason string, views ...string) error {
	if err := p.sayDuplicate(since, tm, reason, views...); err != nil {
		return err
	}
	return p.restart(since, tm)
}

func (p *stage) sayDuplicate(since time.Time, tm *lab.TaskManager, reason string, views ...string) error {
	id, err := tm.ID(p.ctx)
	if err != nil {
		return err
	}
	for _, view := range views {
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
	return nil
}

// restart restarts the TaskManager and checks that all is well then, and was until the double work began at a known moment.
func (p *stage) restart(since time.Time, tm *lab.TaskManager) error {
	restarted, err := p.restarted(tm)
	if err != nil {
		return err
	}
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
		if _, err := p.restarted(tm); err != nil {
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
		return p.duplicate(doubled, tm, "stale_attempt", "reporter", "threads")
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
		leader, at, err := p.freezeLeader()
		if err != nil {
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

// frozenLeaderZombies is case L12.
var frozenLeaderZombies = &scenario{
	name: "frozen-leader-zombies",
	about: "the leader frozen until the standby leads, tasks ignore cancellation; then the leader is thawed, which takes the standby's slots away " +
		"or not: as long as two executions of a subtask write it is duplicate (L12)",
	options: zombies.options,
	play: func(p *stage) error {
		if err := p.begin(); err != nil {
			return err
		}
		leader, at, err := p.freezeLeader()
		if err != nil {
			return err
		}
		doubled, tm, err := p.doubledOn(at)
		if err != nil {
			return err
		}
		if err := p.sayDuplicate(doubled, tm, "stale_execution_graph", "reporter", "threads"); err != nil {
			return err
		}
		if err := leader.Thaw(); err != nil {
			return err
		}
		thawed := time.Now()
		if _, err := p.await("the thawed JobManager answering, and the verdict duplicate", thawed, func(s *sample) bool {
			up, _ := s.Value("jobmanager_up", "jobmanager", leader.URL)
			return up == 1 && s.Verdict("") == "duplicate"
		}); err != nil {
			return err
		}
		if err := p.pause(20 * time.Second); err != nil {
			return err
		}
		doubles, err := lab.CountDoubles(thawed, p.cluster.Sinks()...)
		if err != nil {
			return err
		}
		last, err := p.await("the TaskManager to restart, after a while", time.Now(), func(s *sample) bool {
			return s.Verdict("") == "duplicate" && len(s.Series("taskmanager_restart_advised")) > 0
		})
		if err != nil {
			return err
		}
		waiting, _ := last.Sum("job_tasks", "state", "scheduled")
		p.result.note("frozen %.0f s; after it thawed %s, %.0f tasks wait for slots", thawed.Sub(at).Seconds(), doubles, waiting)
		if n := p.alarms(thawed, time.Now(), "ok"); n > 0 {
			return fmt.Errorf("%d scrapes say ok while two executions of a subtask write", n)
		}
		return p.restart(doubled, tm)
	},
}

// cutOff is case C10.
var cutOff = &scenario{
	name: "cut-off-taskmanager",
	about: "a TaskManager loses ZooKeeper, so that no JobManager lists it any more; its tasks ignore cancellation and go on beside attempt 1 " +
		"elsewhere (C10). Only its reporter tells",
	options: with(func(string) lab.Options {
		return lab.Options{HA: lab.ZooKeeper, Mode: lab.Session, TaskManagers: 1, Slots: 2, Parallelism: 2}
	}, map[string]string{"heartbeat.interval": "1000", "heartbeat.timeout": "8000", "task.cancellation.timeout": "0"}),
	play: func(p *stage) error {
		network, err := lab.NewProxy(p.cluster.ZooKeeperAddress())
		if err != nil {
			return err
		}
		defer func() { _ = network.Close() }()
		// The job starts on the TaskManager that will be cut off, since it is the only one then.
		other := p.cluster.TaskManagers()[0]
		if err := other.Kill(); err != nil {
			return err
		}
		tm, err := p.cluster.AddTaskManager(map[string]string{"high-availability.zookeeper.quorum": network.Address()})
		if err != nil {
			return err
		}
		if err := p.registered(tm); err != nil {
			return err
		}
		if _, err := p.cluster.RunJob(p.ctx, lab.JobOptions{Args: []string{"--mode", "zombie"}, Parallelism: 2}); err != nil {
			return err
		}
		if err := p.cluster.WaitRunning(p.ctx); err != nil {
			return err
		}
		if err := other.Start(); err != nil {
			return err
		}
		if err := p.begin(); err != nil {
			return err
		}
		at := time.Now()
		network.Cut()
		doubled, err := p.doubled(at)
		if err != nil {
			return err
		}
		if err := p.sayDuplicate(doubled, tm, "taskmanager_unregistered", "reporter"); err != nil {
			return err
		}
		if _, err := p.await("one TaskManager unregistered", doubled, func(s *sample) bool {
			n, _ := s.Value("taskmanagers", "state", "unregistered")
			return n == 1
		}); err != nil {
			return err
		}
		network.Mend()
		return p.restart(doubled, tm)
	},
}

// registered waits until the JobManager lists just this TaskManager.
func (p *stage) registered(tm *lab.TaskManager) error {
	id, err := tm.ID(p.ctx)
	if err != nil {
		return err
	}
	return p.cluster.Wait(p.ctx, tm.Name+" is the only TaskManager", func(ctx context.Context) (bool, error) {
		ids, err := p.cluster.RegisteredTaskManagers(ctx)
		return len(ids) == 1 && ids[0] == id, err
	})
}
