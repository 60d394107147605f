package lab

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// Real clusters run only when asked for: FLINK_LAB=1, with the release in FLINK_VERSION.
const (
	labEnv     = "FLINK_LAB"
	versionEnv = "FLINK_VERSION"
)

// release is the release to run.
func release() string { return cmp.Or(os.Getenv(versionEnv), "1.17.2") }

// startReal starts a cluster of the release in FLINK_VERSION and waits until its job, if it has one, runs.
func startReal(t *testing.T, o Options) (*Cluster, context.Context) {
	t.Helper()
	if os.Getenv(labEnv) != "1" {
		t.Skipf("runs a real Flink cluster: set %s=1, and %s to a release (default 1.17.2)", labEnv, versionEnv)
	}
	o.Version = release()
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

// writesOnce waits until the job's subtasks have written enough since that moment, and fails the test if anything was doubled.
func writesOnce(ctx context.Context, t *testing.T, c *Cluster, since time.Time) {
	t.Helper()
	mustWait(ctx, t, c, "the subtasks have written twenty records", func(context.Context) (bool, error) {
		d, err := CountDoubles(since, c.Sinks()...)
		return d.Writes >= 20, err
	})
	d, err := CountDoubles(since, c.Sinks()...)
	if err != nil {
		t.Fatal(err)
	}
	if d.Doubled != 0 || len(d.Duplicated()) != 0 {
		t.Errorf("%v, written twice: %q", d, d.Duplicated())
	}
}

func TestFailoverPlain(t *testing.T) {
	c, ctx := startReal(t, Options{HA: ZooKeeper})
	old, restored := failOver(ctx, t, c)
	if restored.ID != old.ID || restored.StartTime <= old.StartTime {
		t.Errorf("restored job %+v: want id %s and a start-time after %d", restored, old.ID, old.StartTime)
	}
	writesOnce(ctx, t, c, time.Now())
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
	mustWait(ctx, t, c, "the restarted TaskManager works", func(context.Context) (bool, error) {
		d, err := CountDoubles(since, c.Sinks()...)
		return d.Writes > 0, err
	})
	if err := c.WaitRunning(ctx); err != nil {
		t.Fatal(err)
	}
	writesOnce(ctx, t, c, time.Now())
	if job := onlyJob(ctx, t, c); job.StartTime != restored.StartTime {
		t.Errorf("start-time moved from %d to %d at an ordinary restart", restored.StartTime, job.StartTime)
	}
}

func TestTaskRestart(t *testing.T) {
	c, ctx := startReal(t, Options{HA: None, TaskManagers: 1})
	before := onlyJob(ctx, t, c)
	if err := c.TaskManagers()[0].FailTask(); err != nil {
		t.Fatal(err)
	}
	mustWait(ctx, t, c, "the job restarts", func(ctx context.Context) (bool, error) {
		jobs, err := c.Jobs(ctx)
		return err == nil && len(jobs) == 1 && !jobs[0].AllRunning(), err
	})
	if err := c.WaitRunning(ctx); err != nil {
		t.Fatal(err)
	}
	writesOnce(ctx, t, c, time.Now())
	if after := onlyJob(ctx, t, c); after.StartTime != before.StartTime {
		t.Errorf("start-time moved from %d to %d at an ordinary restart", before.StartTime, after.StartTime)
	}
	id, err := c.TaskManagers()[0].ID(ctx)
	if err != nil {
		t.Fatal(err)
	}
	names, err := c.Threads(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(names, "Source: kafka-source -> jdbc-write (1/2)#1") {
		t.Errorf("no task thread of attempt 1 among %q", names)
	}
}

func TestFrozenLeader(t *testing.T) {
	c, ctx := startReal(t, Options{HA: ZooKeeper})
	leader, err := c.Leader(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := leader.Freeze(); err != nil {
		t.Fatal(err)
	}
	mustWait(ctx, t, c, "the standby leads", func(ctx context.Context) (bool, error) {
		next, err := c.Leader(ctx)
		return err == nil && next != leader, err
	})
	if err := leader.Thaw(); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitRunning(ctx); err != nil {
		t.Fatal(err)
	}
	if next, err := c.Leader(ctx); err != nil || next == leader {
		t.Errorf("leader after the thaw: %v, %v", next, err)
	}
}

func TestSession(t *testing.T) {
	c, ctx := startReal(t, Options{HA: ZooKeeper, Mode: Session, TaskManagers: 1, Slots: 4})
	for _, name := range []string{"orders", "invoices"} {
		if _, err := c.RunJob(ctx, JobOptions{Args: []string{"--name", name}, Parallelism: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.WaitRunning(ctx); err != nil {
		t.Fatal(err)
	}
	jobs, err := c.Jobs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]string{}
	for _, j := range jobs {
		ids[j.Name] = j.ID
	}
	if err := c.CancelJob(ctx, ids["orders"]); err != nil {
		t.Fatal(err)
	}
	savepoint, err := c.StopJob(ctx, ids["invoices"])
	if err != nil {
		t.Fatal(err)
	}
	mustWait(ctx, t, c, "one job is cancelled, one finished", func(ctx context.Context) (bool, error) {
		orders, err := c.Job(ctx, ids["orders"])
		if err != nil {
			return false, err
		}
		invoices, err := c.Job(ctx, ids["invoices"])
		return orders.State == "CANCELED" && invoices.State == "FINISHED", err
	})
	if _, err := c.RunJob(ctx, JobOptions{Args: []string{"--name", "invoices"}, Parallelism: 1, Savepoint: savepoint}); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitRunning(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := c.RunJob(ctx, JobOptions{Class: "lab.NoSuchJob"}); err == nil {
		t.Error("a job without a class was run")
	}
}

func TestRescale(t *testing.T) {
	if v, err := parseVersion(release()); err != nil || !v.atLeast(1, 18) {
		t.Skipf("Flink has resource requirements since 1.18, this is %s", release())
	}
	c, ctx := startReal(t, Options{HA: None, TaskManagers: 1, FlinkConf: map[string]string{
		"jobmanager.scheduler": "adaptive", "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "1 s",
	}})
	job := onlyJob(ctx, t, c)
	if err := c.Rescale(ctx, job.ID, 1); err != nil {
		t.Fatal(err)
	}
	mustWait(ctx, t, c, "the parallelism is one", func(ctx context.Context) (bool, error) {
		vertices, err := c.Vertices(ctx, job.ID)
		return err == nil && vertices[0].Parallelism == 1, err
	})
	if err := c.WaitRunning(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestStartTellsWhatIsWrong(t *testing.T) {
	for _, tc := range []struct {
		o    Options
		want string
	}{
		{Options{Version: "1.17.2", HA: None, JobManagers: 2}, "without high availability"},
		{Options{Version: "seventeen"}, "seventeen"},
	} {
		if c, err := Start(t.Context(), tc.o); err == nil || c != nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: got %v, want an error with %q", tc.o, err, tc.want)
		}
	}
}

// TestWaitStopsWhenAProcessDies: a cluster that fell apart is not waited for.
func TestWaitStopsWhenAProcessDies(t *testing.T) {
	p := sleeper(t, "sh", "-c", "echo out of memory; exit 7")
	c := &Cluster{options: Options{}.withDefaults(), services: []*Process{p}}
	err := c.Wait(t.Context(), "pigs fly", func(context.Context) (bool, error) { return false, errors.New("no wings") })
	for _, want := range []string{"pigs fly", "exit status 7", "out of memory"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v lacks %q", err, want)
		}
	}
}

func TestWaitTellsTheLastError(t *testing.T) {
	c := &Cluster{options: Options{}.withDefaults()}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	err := c.Wait(ctx, "pigs fly", func(context.Context) (bool, error) { return true, errors.New("no wings") })
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no wings") {
		t.Errorf("got %v", err)
	}
}
