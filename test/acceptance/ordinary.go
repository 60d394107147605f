package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flink-lineage/flink-lineage-exporter/test/lab"
	"github.com/flink-lineage/flink-lineage-exporter/test/scrape"
)

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
			dead, _, err := p.failover()
			if err != nil {
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

// fullRestarts and regionRestarts are ordinary.
var (
	fullRestarts   = taskRestarts("full-restarts", "one task fails and the whole job restarts under the same leader; repeated", "full")
	regionRestarts = taskRestarts("region-restarts", "one task fails and only its region restarts, so that attempt numbers differ; repeated", "region",
		"--shuffle", "false")
)

func taskRestarts(name, about, strategy string, jobArgs ...string) *scenario {
	return &scenario{
		name: name, about: about,
		options: with(highlyAvailable(jobArgs...), map[string]string{
			"jobmanager.execution.failover-strategy": strategy,
			"restart-strategy.fixed-delay.attempts":  "1000", "restart-strategy.fixed-delay.delay": "100",
		}),
		play: func(p *stage) error {
			if err := p.begin(); err != nil {
				return err
			}
			mixed := false
			for range p.settings.rounds {
				was, _ := p.last().Sum("task_attempt")
				tm, err := p.busiest(time.Now().Add(-2 * time.Second))
				if err != nil {
					return err
				}
				if err := tm.FailTask(); err != nil {
					return err
				}
				f, err := p.await("higher attempts and the verdict ok", time.Now(), func(s *sample) bool {
					n, _ := s.Sum("task_attempt")
					// A scrape may come when the JobManager has begun to count and is not done.
					return n > was && s.Verdict("") == "ok" && (strategy == "region" || attemptNumbers(s) == 1)
				})
				if err != nil {
					return err
				}
				mixed = mixed || attemptNumbers(f.sample) > 1
			}
			if strategy == "region" && !mixed {
				return errors.New("every task restarted each time: no region of its own did")
			}
			p.result.note("%d restarts", p.settings.rounds)
			return p.noAlarm()
		},
	}
}

// attemptNumbers counts the different attempt numbers of all subtasks.
func attemptNumbers(s *sample) int {
	numbers := map[float64]bool{}
	for _, m := range s.Series("task_attempt") {
		numbers[scrape.Value(m)] = true
	}
	return len(numbers)
}

// resubmits are jobs canceled and submitted anew on a session cluster.
var resubmits = submissions("resubmits", "the job is canceled and submitted anew on a session cluster; repeated",
	func(p *stage, id string) (savepoint string, err error) {
		if err := p.cluster.CancelJob(p.ctx, id); err != nil {
			return "", err
		}
		_, err = p.await("the job canceled", time.Now(), func(s *sample) bool {
			canceled, _ := s.Value("job_state", "job_id", id, "state", "CANCELED")
			return canceled == 1
		})
		return "", err
	})

// savepoints are planned restarts: the next job takes up where the last one stopped.
var savepoints = submissions("savepoints", "the job is stopped with a savepoint and submitted anew from it, on a session cluster; repeated",
	func(p *stage, id string) (savepoint string, err error) { return p.cluster.StopJob(p.ctx, id) })

// session is a cluster without a job, whose only JobManager stays.
func session(string) lab.Options {
	return lab.Options{HA: lab.ZooKeeper, Mode: lab.Session, JobManagers: 1, TaskManagers: 2, Slots: 2, Parallelism: 2}
}

// submissions are jobs one after the other, each begun from the savepoint with which the last one ended, if it has one.
func submissions(name, about string, end func(p *stage, id string) (savepoint string, err error)) *scenario {
	return &scenario{
		name: name, about: about, options: session,
		play: func(p *stage) error {
			savepoint := ""
			for i := range p.settings.rounds + 1 {
				id, err := p.cluster.RunJob(p.ctx, lab.JobOptions{Parallelism: 2, Savepoint: savepoint})
				if err != nil {
					return err
				}
				if i == 0 {
					if err := p.watch(); err != nil {
						return err
					}
				}
				if err := p.awaitRunning(id); err != nil {
					return err
				}
				if savepoint, err = end(p, id); err != nil {
					return err
				}
			}
			p.result.note("%d jobs", p.settings.rounds+1)
			return p.noAlarm()
		},
	}
}

// awaitRunning waits until the exporter says that this job runs and is well.
func (p *stage) awaitRunning(id string) error {
	_, err := p.await("the verdict ok on job "+id, time.Now(), func(s *sample) bool {
		running, _ := s.Value("job_tasks", "job_id", id, "state", "running")
		return running > 0 && s.Verdict(id) == "ok"
	})
	return err
}

// rescales make another execution graph by design (N5). Before Flink 1.18 a job follows its TaskManagers in reactive mode; since then it does
// as it is told.
var rescales = &scenario{
	name:  "rescales",
	about: "the adaptive scheduler rescales the job from four to two and back: told to through REST, before Flink 1.18 in reactive mode by a TaskManager that leaves and comes back; repeated",
	options: func(version string) lab.Options {
		o := lab.Options{HA: lab.ZooKeeper, JobManagers: 2, TaskManagers: 2, Slots: 2, Parallelism: 4, FlinkConf: map[string]string{
			"jobmanager.scheduler": "adaptive",
			"jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "1 s", "jobmanager.adaptive-scheduler.scaling-interval.min": "1 s",
			"heartbeat.interval": "1000", "heartbeat.timeout": "8000",
		}}
		if reactive(version) {
			o.FlinkConf["scheduler-mode"] = "reactive"
		}
		return o
	},
	play: func(p *stage) error {
		if err := p.begin(); err != nil {
			return err
		}
		for range max(1, p.settings.rounds/2) {
			for _, parallelism := range []int{2, 4} {
				if err := p.rescale(parallelism); err != nil {
					return err
				}
				if _, err := p.await(fmt.Sprintf("a parallelism of %d and the verdict ok", parallelism), time.Now(), func(s *sample) bool {
					tasks, _ := s.Value("job_tasks", "state", "running")
					return tasks == float64(2*parallelism) && s.Verdict("") == "ok"
				}); err != nil {
					return err
				}
			}
		}
		p.result.note("%d times", 2*max(1, p.settings.rounds/2))
		return p.noAlarm()
	},
}

func reactive(version string) bool {
	return strings.HasPrefix(version, "1.15.") || strings.HasPrefix(version, "1.16.") || strings.HasPrefix(version, "1.17.")
}

func (p *stage) rescale(parallelism int) error {
	if !reactive(p.cluster.Version()) {
		jobs, err := p.cluster.Jobs(p.ctx)
		if err != nil {
			return err
		}
		return p.cluster.Rescale(p.ctx, jobs[0].ID, parallelism)
	}
	last := p.cluster.TaskManagers()[1]
	if parallelism == 4 {
		return last.Start()
	}
	return last.Kill()
}

// speculative runs two attempts of one subtask at a time on purpose (N2).
var speculative = &scenario{
	name:    "speculative",
	about:   "a batch job runs a second attempt of a slow task beside the first on purpose, and cancels the slower one (N2)",
	applies: func(version string) bool { return !strings.HasPrefix(version, "1.15.") },
	options: func(string) lab.Options {
		return lab.Options{HA: lab.ZooKeeper, Mode: lab.Session, JobManagers: 1, TaskManagers: 2, Slots: 3, FlinkConf: map[string]string{
			"jobmanager.scheduler":                                                     "AdaptiveBatch",
			"execution.batch.speculative.enabled":                                      "true",
			"jobmanager.adaptive-batch-scheduler.speculative.enabled":                  "true", // until 1.16
			"execution.batch.speculative.block-slow-node-duration":                     "0 s",  // all TaskManagers are one node here
			"jobmanager.adaptive-batch-scheduler.speculative.block-slow-node-duration": "0 s",
			"slow-task-detector.check-interval":                                        "1 s",
			"slow-task-detector.execution-time.baseline-lower-bound":                   "1 s",
			"slow-task-detector.execution-time.baseline-ratio":                         "0.5",
			"execution.batch.adaptive.auto-parallelism.enabled":                        "false",
		}}
	},
	play: func(p *stage) error {
		id, err := p.cluster.RunJob(p.ctx, lab.JobOptions{
			Args: []string{"--bounded", "600", "--pause", "100", "--slow-subtask", "1", "--parallelism", "4"}, Parallelism: 4,
		})
		if err != nil {
			return err
		}
		if err := p.watch(); err != nil {
			return err
		}
		if err := p.cluster.Wait(p.ctx, "a task has two attempts", func(ctx context.Context) (bool, error) { return p.concurrent(ctx, id) }); err != nil {
			return err
		}
		if _, err := p.await("two attempts and the verdict ok", time.Now(), func(s *sample) bool { return s.Verdict(id) == "ok" }); err != nil {
			return err
		}
		if _, err := p.await("the job finished", time.Now(), func(s *sample) bool {
			finished, _ := s.Value("job_state", "job_id", id, "state", "FINISHED")
			return finished == 1
		}); err != nil {
			return err
		}
		return p.noAlarm()
	},
}

// concurrent is whether some subtask of the job has attempts beside each other by its JobManager's word.
func (p *stage) concurrent(ctx context.Context, id string) (bool, error) {
	subtasks, err := p.cluster.Subtasks(ctx, id)
	return slices.ContainsFunc(subtasks, func(s lab.Subtask) bool { return len(s.Others) > 0 }), err
}

// sameNames are two jobs whose threads cannot be told apart by their names.
var sameNames = &scenario{
	name:  "same-vertex-names",
	about: "two different jobs with the same vertex names on one TaskManager; the leader is killed and both are restored",
	options: func(string) lab.Options {
		return lab.Options{HA: lab.ZooKeeper, Mode: lab.Session, TaskManagers: 1, Slots: 4, Parallelism: 2}
	},
	play: func(p *stage) error {
		for _, name := range []string{"orders", "invoices"} {
			if _, err := p.cluster.RunJob(p.ctx, lab.JobOptions{Args: []string{"--name", name}, Parallelism: 2}); err != nil {
				return err
			}
		}
		if err := p.cluster.WaitRunning(p.ctx); err != nil {
			return err
		}
		if err := p.watch(); err != nil {
			return err
		}
		bothWell := func(failovers float64) func(s *sample) bool {
			return func(s *sample) bool {
				counted, _ := s.Sum("job_failovers_total")
				well, _ := s.Sum("job_verdict", "verdict", "ok")
				return well == 2 && counted == failovers
			}
		}
		if _, err := p.await("the verdict ok on both jobs", time.Now(), bothWell(0)); err != nil {
			return err
		}
		if _, _, err := p.killLeader(); err != nil {
			return err
		}
		if _, err := p.await("the verdict ok on both jobs, each with a failover", time.Now(), bothWell(2)); err != nil {
			return err
		}
		return p.noAlarm()
	},
}

// load keeps JobManagers and TaskManagers busy.
var load = &scenario{
	name:    "load",
	about:   "eight clients ask the JobManagers without pause while tasks write without pause; in the middle the leader is killed",
	options: highlyAvailable("--pause", "0"),
	play: func(p *stage) error {
		if err := p.begin(); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(p.ctx, time.Minute)
		defer cancel()
		var answers atomic.Int64
		var clients sync.WaitGroup
		defer clients.Wait()
		for range 8 {
			clients.Go(func() { p.askOn(ctx, &answers) })
		}
		if err := p.pause(10 * time.Second); err != nil {
			return err
		}
		if _, _, err := p.failover(); err != nil {
			return err
		}
		if _, err := p.await("the verdict ok and one failover, under load", time.Now(), func(s *sample) bool {
			n, _ := s.Value("job_failovers_total")
			return s.Verdict("") == "ok" && n == 1
		}); err != nil {
			return err
		}
		<-ctx.Done()
		p.result.note("%d answers to others in a minute", answers.Load())
		return p.noAlarm()
	},
}

// askOn asks what a busy web UI asks, until ctx is done. While there is no leader there are no answers, and it does not hurry then.
func (p *stage) askOn(ctx context.Context, answers *atomic.Int64) {
	for ctx.Err() == nil {
		jobs, err := p.cluster.Jobs(ctx)
		if err != nil || len(jobs) == 0 {
			_ = p.pause(100 * time.Millisecond)
			continue
		}
		var ignored any
		ids, _ := p.cluster.RegisteredTaskManagers(ctx)
		paths := []string{"/jobs/" + jobs[0].ID, "/overview"}
		for _, id := range ids {
			paths = append(paths, "/taskmanagers/"+id+"/thread-dump", "/taskmanagers/"+id)
		}
		for _, path := range paths {
			if p.cluster.Get(ctx, path, &ignored) == nil {
				answers.Add(1)
			}
		}
	}
}
