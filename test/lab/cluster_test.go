package lab

import (
	"context"
	"os"
	"testing"
	"time"
)

// Real clusters run only when asked for: FLINK_LAB=1, with the release in FLINK_VERSION.
const (
	labEnv     = "FLINK_LAB"
	versionEnv = "FLINK_VERSION"
)

// startReal starts a cluster of the release in FLINK_VERSION and waits until its job, if it has one, runs.
func startReal(t *testing.T, o Options) (*Cluster, context.Context) {
	t.Helper()
	if os.Getenv(labEnv) != "1" {
		t.Skipf("runs a real Flink cluster: set %s=1, and %s to a release (default 1.17.2)", labEnv, versionEnv)
	}
	if o.Version = os.Getenv(versionEnv); o.Version == "" {
		o.Version = "1.17.2"
	}
	o.Log = t.Output()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	c, err := Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	if o.Mode == Application {
		if err := c.WaitRunning(ctx); err != nil {
			t.Fatal(err)
		}
	}
	return c, ctx
}

func mustWait(ctx context.Context, t *testing.T, c *Cluster, what string, cond func(context.Context) (bool, error)) {
	t.Helper()
	if err := c.Wait(ctx, what, cond); err != nil {
		t.Fatal(err)
	}
}

// onlyJob returns the job of an application cluster.
func onlyJob(ctx context.Context, t *testing.T, c *Cluster) Job {
	t.Helper()
	jobs, err := c.Jobs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if len(jobs) != 1 {
		t.Fatalf("got %d jobs, want 1: %+v", len(jobs), jobs)
	}
	return jobs[0]
}

// failOver kills the leader and waits until another JobManager leads and has restored the job.
func failOver(ctx context.Context, t *testing.T, c *Cluster) (old, restored Job) {
	t.Helper()
	old = onlyJob(ctx, t, c)
	leader, err := c.Leader(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := leader.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Leader(ctx); err == nil {
		t.Error("the dead JobManager still counts as the leader")
	}
	mustWait(ctx, t, c, "another JobManager leads", func(ctx context.Context) (bool, error) {
		next, err := c.Leader(ctx)
		return err == nil && next != leader, err
	})
	if err := c.WaitRunning(ctx); err != nil {
		t.Fatal(err)
	}
	return old, onlyJob(ctx, t, c)
}

func TestFailoverPlain(t *testing.T) {
	c, ctx := startReal(t, Options{HA: ZooKeeper})
	old, restored := failOver(ctx, t, c)
	if restored.ID != old.ID || restored.StartTime <= old.StartTime {
		t.Errorf("restored job %+v: want id %s and a start-time after %d", restored, old.ID, old.StartTime)
	}
	since := time.Now()
	mustWait(ctx, t, c, "each subtask has written ten records", func(context.Context) (bool, error) {
		d, err := CountDoubles(since, c.Sinks()...)
		return d.Writes >= 20, err
	})
	d, err := CountDoubles(since, c.Sinks()...)
	if err != nil {
		t.Fatal(err)
	}
	if d.Doubled != 0 || len(d.Duplicated()) != 0 {
		t.Errorf("after a clean failover: %v, twice: %q", d, d.Duplicated())
	}
}

func TestFailoverZombie(t *testing.T) {
	c, ctx := startReal(t, Options{
		HA: ZooKeeper, TaskManagers: 1, JobArgs: []string{"--mode", "zombie"},
		TaskManagerConf: map[string]string{"task.cancellation.timeout": "0", "taskmanager.slot.timeout": "60000"},
	})
	old, restored := failOver(ctx, t, c)
	if restored.StartTime <= old.StartTime {
		t.Errorf("start-time %d, want one after %d", restored.StartTime, old.StartTime)
	}
	since := time.Now()
	mustWait(ctx, t, c, "both subtasks write twice", func(context.Context) (bool, error) {
		d, err := CountDoubles(since, c.Sinks()...)
		return d.Doubled > 10 && len(d.Duplicated()) == 2, err
	})

	tm := c.TaskManagers()[0]
	before, err := tm.ID(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := tm.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := tm.Start(); err != nil {
		t.Fatal(err)
	}
	after, err := tm.ID(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if after == before {
		t.Errorf("the restarted TaskManager has the id of the old one, %s", after)
	}
	since = time.Now()
	written := func(context.Context) (bool, error) {
		d, err := CountDoubles(since, c.Sinks()...)
		return d.Writes >= 20, err
	}
	mustWait(ctx, t, c, "the restarted TaskManager works", written)
	if err := c.WaitRunning(ctx); err != nil {
		t.Fatal(err)
	}
	since = time.Now()
	mustWait(ctx, t, c, "the restarted TaskManager works on", written)
	d, err := CountDoubles(since, c.Sinks()...)
	if err != nil {
		t.Fatal(err)
	}
	if d.Doubled != 0 || len(d.Duplicated()) != 0 {
		t.Errorf("after the restart of the TaskManager: %v, twice: %q", d, d.Duplicated())
	}
	if job := onlyJob(ctx, t, c); job.StartTime != restored.StartTime {
		t.Errorf("start-time moved from %d to %d at an ordinary restart", restored.StartTime, job.StartTime)
	}
}
