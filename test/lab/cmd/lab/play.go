package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/flink-lineage/flink-lineage-exporter/test/lab"
)

// play is one run of a scenario: a cluster, and the recordings made of its moments.
type play struct {
	*lab.Cluster
	recorder []string
	out      string
	log      io.Writer
}

// scenario is an incident, or its absence, on one cluster.
type scenario struct {
	help    string
	options lab.Options
	play    func(context.Context, *play) error
}

// neverGiveUp keeps tasks that ignore cancellation for as long as their TaskManager lives, and their slots open for the restored job until
// the standby has taken over.
var neverGiveUp = map[string]string{"task.cancellation.timeout": "0", "taskmanager.slot.timeout": "60000"}

var scenarios = map[string]scenario{
	"night": {
		help: "one incident in four moments: healthy, no leader, every record of one TaskManager written twice, TaskManager restarted",
		options: lab.Options{
			HA: lab.ZooKeeper, Parallelism: 4, JobArgs: []string{"--mode", "zombie", "--zombie-on", "tm2"}, TaskManagerConf: neverGiveUp,
			// long: the moment without a leader has to last as long as a recording takes
			FlinkConf: map[string]string{"high-availability.zookeeper.client.session-timeout": "20000", "heartbeat.timeout": "50000"},
		},
		play: playNight,
	},
	"healthy": {
		help:    "nothing happens",
		options: lab.Options{HA: lab.ZooKeeper},
		play: func(ctx context.Context, p *play) error {
			if err := p.steady(ctx, 20); err != nil {
				return err
			}
			return p.record(ctx, "healthy", "application mode, two JobManagers with ZooKeeper HA, two TaskManagers with two slots each; nothing has happened yet")
		},
	},
	"zombie-same-tm": {
		help:    "leader killed, tasks of the old execution go on beside their successors in the same slots",
		options: lab.Options{HA: lab.ZooKeeper, JobArgs: []string{"--mode", "zombie"}, TaskManagerConf: neverGiveUp},
		play:    playZombie,
	},
	"session-two-jobs": {
		help:    "two jobs whose vertices have the same names run on one TaskManager of a session cluster",
		options: lab.Options{HA: lab.ZooKeeper, Mode: lab.Session, TaskManagers: 1, Slots: 4},
		play:    playTwoJobs,
	},
	"task-restart": {
		help:    "an ordinary task failure, just restarted: attempt 1, same execution graph, same start-time",
		options: lab.Options{HA: lab.ZooKeeper},
		play:    playTaskRestart,
	},
	"leaked-legacy-source": {
		help:    "a thread of a legacy source outlives its task, which failed and was restarted",
		options: lab.Options{HA: lab.ZooKeeper, JobArgs: []string{"--mode", "leak-source"}},
		play:    playLeakedSource,
	},
	"speculative": {
		help: "a batch job runs a second attempt of a slow task beside the first, on purpose",
		options: lab.Options{HA: lab.ZooKeeper, Mode: lab.Session, Slots: 3, FlinkConf: map[string]string{
			"jobmanager.scheduler":                                   "AdaptiveBatch",
			"execution.batch.speculative.enabled":                    "true",
			"execution.batch.speculative.block-slow-node-duration":   "0 s", // all TaskManagers are one node here
			"slow-task-detector.check-interval":                      "1 s",
			"slow-task-detector.execution-time.baseline-lower-bound": "1 s",
			"slow-task-detector.execution-time.baseline-ratio":       "0.5",
			"execution.batch.adaptive.auto-parallelism.enabled":      "false",
		}},
		play: playSpeculative,
	},
	"adaptive-rescaled": {
		help: "the adaptive scheduler has just rescaled the job from four to two",
		options: lab.Options{HA: lab.ZooKeeper, Parallelism: 4, FlinkConf: map[string]string{
			"jobmanager.scheduler": "adaptive",
			"jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "1 s",
		}},
		play: playRescale,
	},
}

// scenarioHelp lists the scenarios for --help.
func scenarioHelp() string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(scenarios)) {
		lines = append(lines, name+" ("+scenarios[name].help+")")
	}
	return "One of " + strings.Join(lines, "; ") + "."
}

// playScenario starts the scenario's cluster, plays it and ends it.
func playScenario(ctx context.Context, name string, o lab.Options, recorder []string, out string) (err error) {
	s := scenarios[name]
	options := s.options
	options.Version, options.Dir, options.Log = o.Version, o.Dir, o.Log
	c, err := lab.Start(ctx, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	p := &play{Cluster: c, recorder: recorder, out: out, log: o.Log}
	return s.play(ctx, p)
}

// record runs the recorder for this moment.
func (p *play) record(ctx context.Context, moment, note string) error {
	file := filepath.Join(p.out, p.Version()+"-"+moment+".json.gz")
	begin := time.Now()
	if err := p.Record(ctx, p.recorder, file, moment, note); err != nil {
		return err
	}
	fmt.Fprintf(p.log, "lab: recorded %s in %.1f s\n", file, time.Since(begin).Seconds())
	return nil
}

// settle waits until the job runs and the JobManager's view of it, which is up to three seconds old, shows that too.
func (p *play) settle(ctx context.Context) error {
	if err := p.WaitRunning(ctx); err != nil {
		return err
	}
	return p.Wait(ctx, "the job's vertices are in the JobManager's view", func(ctx context.Context) (bool, error) {
		jobs, err := p.Jobs(ctx)
		if err != nil {
			return false, err
		}
		for _, j := range jobs {
			details, err := p.Job(ctx, j.ID)
			if err != nil {
				return false, err
			}
			if details.StartTime != j.StartTime || !details.AllRunning() {
				return false, fmt.Errorf("the view of %s still says %s since %d", j.Name, details.State, details.StartTime)
			}
		}
		return true, nil
	})
}

// waitWrites waits until n records have been written from now on and judge accepts them.
func (p *play) waitWrites(ctx context.Context, what string, n int, judge func(lab.Doubles) bool) error {
	since := time.Now()
	return p.Wait(ctx, what, func(context.Context) (bool, error) {
		d, err := lab.CountDoubles(since, p.Sinks()...)
		if err != nil {
			return false, err
		}
		if d.Writes < n || !judge(d) {
			return false, fmt.Errorf("%v, subtasks with two writers: %q", d, d.Duplicated())
		}
		return true, nil
	})
}

// steady waits until the job runs and n records were written, each once.
func (p *play) steady(ctx context.Context, n int) error {
	if err := p.settle(ctx); err != nil {
		return err
	}
	return p.waitWrites(ctx, "each subtask writes once", n, single)
}

func whatever(lab.Doubles) bool { return true }

func single(d lab.Doubles) bool { return d.Doubled == 0 && len(d.Duplicated()) == 0 }

// killLeader kills the JobManager that leads and returns it.
func (p *play) killLeader(ctx context.Context) (*lab.JobManager, error) {
	leader, err := p.Leader(ctx)
	if err != nil {
		return nil, err
	}
	return leader, leader.Kill()
}

// waitFailover waits until another JobManager than the dead one leads and has restored the job.
func (p *play) waitFailover(ctx context.Context, dead *lab.JobManager) error {
	err := p.Wait(ctx, "another JobManager leads", func(ctx context.Context) (bool, error) {
		leader, err := p.Leader(ctx)
		return err == nil && leader != dead, err
	})
	if err != nil {
		return err
	}
	return p.settle(ctx)
}

func playNight(ctx context.Context, p *play) error {
	const where = "application mode, two JobManagers with ZooKeeper HA, two TaskManagers with two slots each, parallelism four, " +
		"task.cancellation.timeout 0 on the TaskManagers; tasks on TaskManager 2 ignore cancellation. "
	if err := p.steady(ctx, 40); err != nil {
		return err
	}
	if err := p.record(ctx, "night-1-healthy", where+"First of four moments of one cluster: nothing has happened yet"); err != nil {
		return err
	}
	leader, err := p.killLeader(ctx)
	if err != nil {
		return err
	}
	err = p.Wait(ctx, "the standby answers that it reaches no leader", func(ctx context.Context) (bool, error) {
		_, err := p.Jobs(ctx)
		if status, ok := errors.AsType[*lab.StatusError](err); ok {
			return status.Code >= 500, nil
		}
		return false, err
	})
	if err != nil {
		return err
	}
	if err := p.record(ctx, "night-2-no-leader", where+"Second of four moments: the leading JobManager was killed a few seconds ago, "+
		"the standby does not lead yet and answers with errors, the tasks go on"); err != nil {
		return err
	}
	if _, err := p.Leader(ctx); err == nil {
		return errors.New("the standby took over while night-2-no-leader was recorded: play it again on a quieter machine")
	}
	if err := p.waitFailover(ctx, leader); err != nil {
		return err
	}
	if err := p.waitWrites(ctx, "two subtasks write twice", 40, func(d lab.Doubles) bool { return len(d.Duplicated()) == 2 && d.Doubled > 0 }); err != nil {
		return err
	}
	if err := p.record(ctx, "night-3-duplicate", where+"Third of four moments: the standby has restored the job, two tasks of the old execution "+
		"go on on TaskManager 2 beside their successors, and their records are written twice"); err != nil {
		return err
	}
	tm := p.TaskManagers()[1]
	before, err := tm.ID(ctx)
	if err != nil {
		return err
	}
	if err := tm.Restart(); err != nil {
		return err
	}
	after, err := tm.ID(ctx)
	if err != nil {
		return err
	}
	if err := p.waitWrites(ctx, "the restarted TaskManager writes", 40, whatever); err != nil {
		return err
	}
	if err := p.steady(ctx, 40); err != nil {
		return err
	}
	return p.record(ctx, "night-4-restarted", where+fmt.Sprintf("Last of four moments: TaskManager 2 was restarted, its id was %s and is %s; "+
		"every task runs once, at a later attempt of the restored execution", before, after))
}

func playZombie(ctx context.Context, p *play) error {
	if err := p.steady(ctx, 20); err != nil {
		return err
	}
	leader, err := p.killLeader(ctx)
	if err != nil {
		return err
	}
	if err := p.waitFailover(ctx, leader); err != nil {
		return err
	}
	err = p.waitWrites(ctx, "both subtasks write twice", 20, func(d lab.Doubles) bool { return len(d.Duplicated()) == 2 && d.Doubled > 0 })
	if err != nil {
		return err
	}
	since, here := time.Now().Add(-2*time.Second), 0
	for _, sink := range p.Sinks() {
		d, err := lab.CountDoubles(since, sink)
		if err != nil {
			return err
		}
		here += len(d.Duplicated())
	}
	if here != 2 {
		return fmt.Errorf("%d of 2 subtasks write twice on one TaskManager, the others on two: play it again", here)
	}
	return p.record(ctx, "zombie-same-tm", "application mode, two JobManagers with ZooKeeper HA, two TaskManagers with two slots each, "+
		"task.cancellation.timeout 0 and taskmanager.slot.timeout 60 s on them; leader killed, the standby took over within the slot timeout; "+
		"two tasks of the old execution ignore cancellation and go on beside the new ones, in the same slots")
}

func playTwoJobs(ctx context.Context, p *play) error {
	for _, name := range []string{"orders", "invoices"} {
		if _, err := p.RunJob(ctx, lab.JobOptions{Args: []string{"--name", name}, Parallelism: 2}); err != nil {
			return err
		}
	}
	if err := p.settle(ctx); err != nil {
		return err
	}
	if err := p.waitWrites(ctx, "both jobs write", 40, whatever); err != nil {
		return err
	}
	return p.record(ctx, "session-two-jobs", "session cluster, two JobManagers with ZooKeeper HA, one TaskManager with four slots; two jobs, orders and "+
		"invoices, whose vertices have the same names and ids run side by side, each once: their threads have the same names")
}

// restartTask fails one task and waits until the job runs again, with the execution graph and the start-time it had.
func restartTask(ctx context.Context, p *play) error {
	if err := p.steady(ctx, 20); err != nil {
		return err
	}
	for _, tm := range p.TaskManagers() {
		writes, err := lab.ReadSink(tm.Sink)
		if err != nil {
			return err
		}
		if len(writes) > 0 {
			if err := tm.FailTask(); err != nil {
				return err
			}
			break
		}
	}
	err := p.Wait(ctx, "the job restarts", func(ctx context.Context) (bool, error) {
		jobs, err := p.Jobs(ctx)
		return err == nil && len(jobs) == 1 && !jobs[0].AllRunning(), err
	})
	if err != nil {
		return err
	}
	return p.settle(ctx)
}

func playTaskRestart(ctx context.Context, p *play) error {
	if err := restartTask(ctx, p); err != nil {
		return err
	}
	return p.record(ctx, "task-restart", "application mode, two JobManagers with ZooKeeper HA, two TaskManagers with two slots each; a task failed and "+
		"the job has just been restarted: attempt 1 of the same execution graph, same start-time, everything once")
}

func playLeakedSource(ctx context.Context, p *play) error {
	if err := restartTask(ctx, p); err != nil {
		return err
	}
	// the leaked threads have names of attempt 0, of the same subtasks
	err := p.waitWrites(ctx, "the leaked threads write beside the new tasks", 20, func(d lab.Doubles) bool { return len(d.Duplicated()) == 2 })
	if err != nil {
		return err
	}
	return p.record(ctx, "leaked-legacy-source", "application mode, two JobManagers with ZooKeeper HA, two TaskManagers with two slots each; a task failed, "+
		"the job was restarted; each legacy source of attempt 0 left a thread behind that has its own thread's name, \"Legacy Source Thread - ...\", and "+
		"goes on writing: threads of attempt 0 without a task, beside attempt 1")
}

func playRescale(ctx context.Context, p *play) error {
	if err := p.steady(ctx, 20); err != nil {
		return err
	}
	jobs, err := p.Jobs(ctx)
	if err != nil {
		return err
	}
	if err := p.Rescale(ctx, jobs[0].ID, 2); err != nil {
		return err
	}
	err = p.Wait(ctx, "the job has a parallelism of two", func(ctx context.Context) (bool, error) {
		vertices, err := p.Vertices(ctx, jobs[0].ID)
		return err == nil && vertices[0].Parallelism == 2, err
	})
	if err != nil {
		return err
	}
	if err := p.settle(ctx); err != nil {
		return err
	}
	return p.record(ctx, "adaptive-rescaled", "application mode, two JobManagers with ZooKeeper HA, two TaskManagers with two slots each, adaptive scheduler; "+
		"the job has just been rescaled from four to two: another execution graph by design, everything once")
}

func playSpeculative(ctx context.Context, p *play) error {
	_, err := p.RunJob(ctx, lab.JobOptions{Args: []string{"--bounded", "1200", "--pause", "100", "--slow-subtask", "1"}, Parallelism: 4})
	if err != nil {
		return err
	}
	err = p.Wait(ctx, "a task has two attempts", func(ctx context.Context) (bool, error) {
		jobs, err := p.Jobs(ctx)
		if err != nil || len(jobs) == 0 {
			return false, err
		}
		subtasks, err := p.Subtasks(ctx, jobs[0].ID)
		if err != nil {
			return false, err
		}
		for _, s := range subtasks {
			if len(s.Others) > 0 && s.Status == "RUNNING" {
				return true, nil
			}
		}
		return false, fmt.Errorf("job is %s with tasks %v", jobs[0].State, jobs[0].Tasks)
	})
	if err != nil {
		return err
	}
	return p.record(ctx, "speculative", "session cluster, two JobManagers with ZooKeeper HA, two TaskManagers with three slots each; a batch job with "+
		"speculative execution runs attempt 1 of a slow subtask beside attempt 0, on purpose: other-concurrent-attempts")
}
