package main

import (
	"maps"
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

var flinkScenarios = []*scenario{
	numbers,
	zombies, starved, frozen, frozenLeader, frozenLeaderZombies, cutOff,
	failovers, fullRestarts, regionRestarts, resubmits, savepoints, rescales, speculative, sameNames, load,
	sameJobTwice, leakedSource, userThreads,
}

// highlyAvailable is a cluster with two JobManagers and two TaskManagers whose job runs in one of them.
func highlyAvailable(jobArgs ...string) func(string) lab.Options {
	return func(string) lab.Options {
		return lab.Options{HA: lab.ZooKeeper, JobManagers: 2, TaskManagers: 2, Slots: 2, Parallelism: 2, JobArgs: jobArgs}
	}
}

// with adds configuration to that of other options.
func with(o func(string) lab.Options, conf map[string]string) func(string) lab.Options {
	return func(version string) lab.Options {
		options := o(version)
		all := map[string]string{}
		maps.Copy(all, options.FlinkConf)
		maps.Copy(all, conf)
		options.FlinkConf = all
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
		before, err := p.cluster.OnlyJob(p.ctx)
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
		if err := p.cluster.WaitRestored(p.ctx, before); err != nil {
			return err
		}
		after, err := p.cluster.OnlyJob(p.ctx)
		if err != nil {
			return err
		}
		back, err := p.await("the standby's view with one failover", time.Now(), func(s *sample) bool {
			up, _ := s.Value("up")
			deadUp, _ := s.Value("jobmanager_up", "jobmanager", dead.URL)
			start, _ := s.Value("job_start_timestamp_seconds")
			failovers, _ := s.Value("job_failovers_total")
			return up == 1 && deadUp == 0 && start == float64(after.StartTime)/1000 && failovers == 1 && s.Verdict("") == "ok"
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
