package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/flink-lineage/flink-lineage-exporter/test/lab"
)

// What is left over of one job, or is there twice, without any task being executed twice.

// sameJobTwice is case C20.
var sameJobTwice = &scenario{
	name:    "same-job-twice",
	about:   "the same job submitted twice in a session cluster (C20): two jobs of one name, each well; then one is canceled",
	options: session,
	play: func(p *stage) error {
		var ids []string
		for range 2 {
			id, err := p.cluster.RunJob(p.ctx, lab.JobOptions{Parallelism: 2})
			if err != nil {
				return err
			}
			ids = append(ids, id)
		}
		if err := p.cluster.WaitRunning(p.ctx); err != nil {
			return err
		}
		if err := p.watch(); err != nil {
			return err
		}
		surplus := func(want float64) func(s *sample) bool {
			return func(s *sample) bool {
				n, told := s.Value("surplus_jobs")
				return told && n == want && s.Verdict(ids[0]) == "ok"
			}
		}
		if _, err := p.await("one job of the name too many, and both well", time.Now(), func(s *sample) bool {
			return surplus(1)(s) && s.Verdict(ids[1]) == "ok"
		}); err != nil {
			return err
		}
		if err := p.cluster.CancelJob(p.ctx, ids[1]); err != nil {
			return err
		}
		if _, err := p.await("no job of the name too many", time.Now(), surplus(0)); err != nil {
			return err
		}
		return p.noAlarm()
	},
}

// leakedSource is case C11.
var leakedSource = outlive("leaked-source-threads", "threads of legacy sources outlive their canceled job and go on, without a task (C11); the job is submitted anew beside them",
	"leak-source", "legacy_source")

// userThreads is what a user function does that starts threads and does not end them.
var userThreads = outlive("user-threads", "threads of a user function, named after their task, outlive their canceled job and go on; the job is submitted anew beside them",
	"leak-thread", "user")

// outlive cancels a job of which a thread of each subtask stays, and runs it again.
func outlive(name, about, mode, kind string) *scenario {
	return &scenario{
		name: name, about: about,
		applies: func(version string) bool { return kind != "legacy_source" || strings.HasPrefix(version, "1.") },
		options: session,
		play: func(p *stage) error {
			run := func() (string, error) {
				return p.cluster.RunJob(p.ctx, lab.JobOptions{Args: []string{"--mode", mode}, Parallelism: 2})
			}
			id, err := run()
			if err != nil {
				return err
			}
			if err := p.begin(); err != nil {
				return err
			}
			if n, _ := p.last().Sum("orphan_threads"); n != 0 {
				return fmt.Errorf("%.0f orphan threads while their tasks run", n)
			}
			if err := p.cluster.CancelJob(p.ctx, id); err != nil {
				return err
			}
			leaked := func(s *sample) bool {
				n, _ := s.Sum("orphan_threads", "kind", kind)
				return n == 2 && len(s.Series("orphan_executions")) == 0
			}
			if _, err := p.await("two "+kind+" threads without a task", time.Now(), func(s *sample) bool {
				canceled, _ := s.Value("job_state", "job_id", id, "state", "CANCELED")
				return canceled == 1 && leaked(s)
			}); err != nil {
				return err
			}
			if id, err = run(); err != nil {
				return err
			}
			if err := p.awaitRunning(id); err != nil {
				return err
			}
			if _, err := p.await("the same threads beside the new job, which is well", time.Now(), func(s *sample) bool {
				return s.Verdict(id) == "ok" && leaked(s)
			}); err != nil {
				return err
			}
			doubles, err := lab.CountDoubles(time.Now().Add(-3*time.Second), p.cluster.Sinks()...)
			if err != nil {
				return err
			}
			p.result.note("2 threads of kind %s; %s", kind, doubles)
			return p.noAlarm()
		},
	}
}
