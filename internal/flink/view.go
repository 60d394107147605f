package flink

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/flink-lineage/flink-lineage-exporter/internal/lineage"
)

// Probe is what a JobManager answers to the two requests each JobManager is asked in a scrape.
type Probe struct {
	Jobs         []lineage.Job
	TaskManagers []lineage.TaskManager
	// JobsErr and TaskManagersErr say why one of them is missing.
	JobsErr, TaskManagersErr   error
	JobsTook, TaskManagersTook time.Duration
}

// Probe asks for /jobs/overview and /taskmanagers at once.
func (c *Client) Probe(ctx context.Context) *Probe {
	p := &Probe{}
	var wg sync.WaitGroup
	wg.Go(func() {
		begin := time.Now()
		p.Jobs, p.JobsErr = c.Jobs(ctx)
		p.JobsTook = time.Since(begin)
	})
	wg.Go(func() {
		begin := time.Now()
		p.TaskManagers, p.TaskManagersErr = c.TaskManagers(ctx)
		p.TaskManagersTook = time.Since(begin)
	})
	wg.Wait()
	return p
}

// Leads is whether the answers are a leader's view: the leader's Dispatcher has answered.
func (p *Probe) Leads() bool { return p.JobsErr == nil }

// Story is the JobManager as the probe saw it.
func (p *Probe) Story(url string) lineage.JobManager {
	jm := lineage.JobManager{URL: url, Err: p.JobsErr}
	jm.Up = p.JobsErr == nil || p.TaskManagersErr == nil || answered(p.JobsErr) || answered(p.TaskManagersErr)
	jm.Electing = IsKind(p.JobsErr, NoLeader)
	if p.JobsErr == nil {
		jm.Jobs = make(map[string]lineage.JobSummary, len(p.Jobs))
		for _, j := range p.Jobs {
			jm.Jobs[j.ID] = lineage.JobSummary{State: j.State, StartTime: j.StartTime}
		}
	}
	if p.TaskManagersErr == nil {
		jm.TaskManagers = make(map[string]bool, len(p.TaskManagers))
		for _, t := range p.TaskManagers {
			jm.TaskManagers[t.ID] = true
		}
	}
	return jm
}

// Part is how one part of the leader's view was read.
type Part struct {
	Took time.Duration
	// Err joins what failed; nil if all of it was read.
	Err error
}

// The parts of the leader's view.
const (
	PartOverview     = "overview"
	PartJobs         = "jobs"
	PartVertices     = "vertices"
	PartTaskManagers = "taskmanagers"
	PartSlots        = "slots"
)

// View completes a probe to the leader's view: 1 + jobs that have not ended + their vertices + TaskManagers requests. A job or TaskManager
// that is gone by the time it is asked for is left out or without details, which is no error.
func (c *Client) View(ctx context.Context, p *Probe) (*lineage.LeaderView, map[string]Part) {
	v := &lineage.LeaderView{
		JobManager: c.url, Jobs: append([]lineage.Job(nil), p.Jobs...), TaskManagers: append([]lineage.TaskManager{}, p.TaskManagers...),
	}
	parts := map[string]Part{
		PartJobs:         {p.JobsTook, p.JobsErr},
		PartTaskManagers: {p.TaskManagersTook, p.TaskManagersErr},
	}
	var mu sync.Mutex
	part := func(name string, read func() error) func() {
		return func() {
			begin := time.Now()
			err := read()
			mu.Lock()
			defer mu.Unlock()
			parts[name] = Part{time.Since(begin), err}
		}
	}
	var wg sync.WaitGroup
	wg.Go(part(PartOverview, func() (err error) {
		v.Overview, err = c.Overview(ctx)
		return err
	}))
	wg.Go(part(PartVertices, func() error { return c.readJobs(ctx, v) }))
	if p.TaskManagersErr != nil {
		v.TaskManagers = nil
		mu.Lock()
		parts[PartSlots] = Part{0, errors.New("the TaskManagers are not known")}
		mu.Unlock()
	} else {
		wg.Go(part(PartSlots, func() error { return c.readSlots(ctx, v.TaskManagers) }))
	}
	wg.Wait()
	return v, parts
}

func (c *Client) readJobs(ctx context.Context, v *lineage.LeaderView) error {
	errs := make([]error, len(v.Jobs))
	var wg sync.WaitGroup
	for i := range v.Jobs {
		if !v.Jobs[i].State.Ended() {
			wg.Go(func() { errs[i] = c.readJob(ctx, &v.Jobs[i]) })
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

// readJob fills in a job's vertices and executions.
func (c *Client) readJob(ctx context.Context, job *lineage.Job) error {
	d, err := c.job(ctx, job.ID)
	if IsKind(err, NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	// A standby may still hold the execution graph of the leader before (it caches for web.refresh-interval).
	if !d.startTime.Equal(job.StartTime) {
		return nil
	}
	job.Vertices, job.Detailed = d.vertices, true
	errs := make([]error, len(job.Vertices))
	var wg sync.WaitGroup
	for i := range job.Vertices {
		x := &job.Vertices[i]
		wg.Go(func() {
			parallelism, executions, err := c.vertex(ctx, job.ID, x.ID)
			if err != nil {
				errs[i] = err
				return
			}
			x.Parallelism, x.Executions = parallelism, executions
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err == nil {
			continue
		}
		job.Detailed = false
		if IsKind(err, NotFound) {
			errs[i] = nil
		}
	}
	return errors.Join(errs...)
}

func (c *Client) readSlots(ctx context.Context, tms []lineage.TaskManager) error {
	errs := make([]error, len(tms))
	var wg sync.WaitGroup
	for i := range tms {
		wg.Go(func() {
			slots, err := c.allocatedSlots(ctx, tms[i].ID)
			if IsKind(err, UnknownTaskManager) {
				return
			}
			tms[i].AllocatedSlots, errs[i] = slots, err
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
