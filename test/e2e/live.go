package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/flink-lineage/flink-lineage-exporter/test/lab"
)

const (
	liveVersion = "1.17.2"
	// liveInterval leaves a busy machine the time to answer a scrape.
	liveInterval = 5 * time.Second
)

// watch starts everything that watches a cluster and waits until its job is seen to be well.
func watch(ctx context.Context, dir, instance string, c *cluster) (*stack, error) {
	s, err := start(ctx, dir, liveInterval, target{instance: instance, flags: c.ExporterFlags()})
	if err != nil {
		return s, err
	}
	explain(liveInterval)
	return s, s.waitFor(ctx, "the exporter is scraped and sees a healthy job", func() (bool, error) {
		return s.prometheus.holds(ctx, `flink_lineage_job_verdict{verdict="ok"} == 1`)
	})
}

// playCleanFailover kills the leader of a cluster whose tasks end as they should, and starts it again as the standby.
func playCleanFailover(ctx context.Context, dir string, t *tally) (err error) {
	after, err := pageAfter()
	if err != nil {
		return err
	}
	c, err := startCluster(ctx, filepath.Join(dir, "flink"), lab.Options{Version: liveVersion})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	s, err := watch(ctx, dir, "clean", c)
	defer func() { err = errors.Join(err, s.stop()) }()
	if err != nil {
		return err
	}
	t.check("the exporter sees a healthy job on a real cluster", nil)

	say("The leader is killed.")
	dead, at, err := c.FailOver(ctx, (*lab.JobManager).Kill)
	if err != nil {
		return err
	}
	say("The standby runs the job.")
	if err := dead.Start(); err != nil {
		return err
	}
	if err := s.waitFor(ctx, "the failover is counted and all is well", func() (bool, error) {
		return s.prometheus.holds(ctx, `flink_lineage_job_failovers_total == 1 and on (job_id) flink_lineage_job_verdict{verdict="ok"} == 1
and on () (count(flink_lineage_jobmanager_up == 1) == 2)`)
	}); err != nil {
		return err
	}
	t.check("the failover is counted, the old leader is back, and the job is well", nil)
	h, err := c.handover(at)
	if err != nil {
		return err
	}
	say("%.1f s from the last write of an old execution to the first of a new one. Now nobody must be paged for longer than the rule waits.",
		h.gap().Seconds())
	if err := lab.Sleep(ctx, after+4*liveInterval); err != nil {
		return err
	}
	t.check("the clean failover was counted, and told nobody", s.checkClean(ctx, "clean"))
	return nil
}

// playIncident kills the leader of a cluster whose tasks cannot be cancelled and go on beside their successors.
func playIncident(ctx context.Context, dir string, t *tally) (err error) {
	after, err := pageAfter()
	if err != nil {
		return err
	}
	c, err := startCluster(ctx, filepath.Join(dir, "flink"), lab.Options{
		Version: liveVersion, JobArgs: []string{"--mode", "zombie"},
		// The successors are given the slots of the old executions, which nothing ends.
		FlinkConf: map[string]string{"taskmanager.slot.timeout": "120000", "task.cancellation.timeout": "0"},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	s, err := watch(ctx, dir, "incident", c)
	defer func() { err = errors.Join(err, s.stop()) }()
	if err != nil {
		return err
	}
	t.check("the exporter sees a healthy job on a real cluster", nil)

	say("The leader is killed.")
	_, at, err := c.FailOver(ctx, (*lab.JobManager).Kill)
	if err != nil {
		return err
	}
	var h handover
	if err := c.Wait(ctx, "old and new executions to write side by side", func(context.Context) (bool, error) {
		h, err = c.handover(at)
		return len(h.late) > 0, err
	}); err != nil {
		return err
	}
	say("Old and new executions have written side by side since %s.", h.first.Format(time.TimeOnly))
	page, err := s.receiver.wait(ctx, "page", duplicate, "firing", after+patience)
	if err != nil {
		return err
	}
	fmt.Printf("From the first doubled write to the page: %.1f s, of which the rule waits %s.\n", page.received.Sub(h.first).Seconds(), after)
	fmt.Printf("The page says: %s\n", page.Annotations["description"])

	// Only now: an old execution that was to end may have been about to.
	if h, err = c.handover(at); err != nil {
		return err
	}
	if len(h.late) != 1 {
		return fmt.Errorf("old executions write beside new ones on %d TaskManagers, want one", len(h.late))
	}
	job, err := c.OnlyJob(ctx)
	if err != nil {
		return err
	}
	id, err := h.late[0].ID(ctx)
	if err != nil {
		return err
	}
	t.check("the page names the job and the TaskManager on which old executions write", checkPage(page, "incident", culprit{job.ID, job.Name, id}))

	say("The TaskManager is restarted.")
	restarted := time.Now()
	if err := h.late[0].Restart(); err != nil {
		return err
	}
	if err := s.waitResolved(ctx, t, restarted); err != nil {
		return err
	}
	if err := c.WaitRunning(ctx); err != nil {
		return err
	}
	if err := s.waitFor(ctx, "the verdict is ok", func() (bool, error) {
		return s.prometheus.holds(ctx, `flink_lineage_job_verdict{verdict="ok"} == 1`)
	}); err != nil {
		return err
	}
	t.check("the job is well again", nil)
	t.check("of the incident there was the one page", s.checkOnePage("incident"))
	return nil
}
