package lab

import (
	"context"
	"fmt"
	"time"
)

// FailOver does harm to the leader that makes the standby take over, and waits until the only job runs there with all its tasks. It returns
// the old leader and the moment before the harm.
func (c *Cluster) FailOver(ctx context.Context, harm func(*JobManager) error) (leader *JobManager, at time.Time, err error) {
	before, err := c.OnlyJob(ctx)
	if err != nil {
		return nil, at, err
	}
	if leader, err = c.Leader(ctx); err != nil {
		return nil, at, err
	}
	at = time.Now()
	if err := harm(leader); err != nil {
		return nil, at, err
	}
	return leader, at, c.WaitRestored(ctx, before)
}

// WaitRestored waits until the only job runs with all its tasks under another JobManager than before, hence with another start time.
func (c *Cluster) WaitRestored(ctx context.Context, before Job) error {
	return c.Wait(ctx, "the standby to run the job", func(ctx context.Context) (bool, error) {
		now, err := c.OnlyJob(ctx)
		return err == nil && now.StartTime != before.StartTime && now.AllRunning(), err
	})
}

// WaitCheckpoint waits until every job that has not ended has completed a checkpoint that began after the call: without one a failover
// restores nothing, and what a sink holds back is written at a checkpoint at the latest.
func (c *Cluster) WaitCheckpoint(ctx context.Context) error {
	begin := time.Now().UnixMilli()
	return c.Wait(ctx, "a new checkpoint is complete", func(ctx context.Context) (bool, error) {
		jobs, err := c.Jobs(ctx)
		if err != nil {
			return false, err
		}
		for _, job := range jobs {
			if job.Ended() {
				continue
			}
			var checkpoints struct {
				Latest struct {
					Completed *struct {
						Begin int64 `json:"trigger_timestamp"`
					} `json:"completed"`
				} `json:"latest"`
			}
			if err := c.Get(ctx, "/jobs/"+job.ID+"/checkpoints", &checkpoints); err != nil {
				return false, err
			}
			if done := checkpoints.Latest.Completed; done == nil || done.Begin < begin {
				return false, fmt.Errorf("job %s has no checkpoint since %d", job.Name, begin)
			}
		}
		return len(jobs) > 0, nil
	})
}
