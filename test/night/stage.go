package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/flink-lineage/flink-lineage-exporter/test/lab"
	"github.com/flink-lineage/flink-lineage-exporter/test/scrape"
)

// act is one way in which work is done twice after a failover.
type act struct {
	name string
	Sink string // what the job writes to
	// start starts what the act is played on, with these options of Flink.
	start func(ctx context.Context, k kind, conf map[string]string) (world, error)
}

var acts = map[string]*act{"beam": beamAct, "zombie": zombieAct}

// world is what an act is played on: a Flink cluster, and where its job writes.
type world interface {
	cluster() *lab.Cluster
	// flags are further flags of the exporter.
	flags(ctx context.Context) ([]string, error)
	// written says what was written at or after t, at this moment.
	written(ctx context.Context, t time.Time) (string, error)
	// once and twice watch for a while, say what was written, and fail unless it was written once or twice.
	once(ctx context.Context) (string, error)
	twice(ctx context.Context) (string, error)
	// double reports whether a scrape says what is right to say while everything is done twice: of this TaskManager, by its id.
	double(s *scrape.Sample, taskManager string) bool
	// well reports whether a scrape says that all is well, having looked at everything.
	well(s *scrape.Sample) bool
	// spans are who wrote from when to when.
	spans(ctx context.Context) ([]span, error)
	stop() error
}

// span is the time between the first and the last thing that somebody wrote.
type span struct{ first, last time.Time }

// stage is where an act is played.
type stage struct {
	world
	settings *settings
	result   *result
	exporter *scrape.Exporter
	killed   time.Time
}

// await waits for a scrape begun at or after t for which cond holds, and returns it with its number among those since t, from 1.
func (p *stage) await(ctx context.Context, what string, t time.Time, cond func(*scrape.Sample) bool) (*scrape.Sample, int, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	for {
		samples := p.exporter.Since(t)
		for i, s := range samples {
			if s.Err == nil && cond(s) {
				return s, i + 1, nil
			}
		}
		select {
		case <-ctx.Done():
			last := "no scrape at all"
			if n := len(samples); n > 0 {
				last = samples[n-1].Describe()
				p.keep("wrong", samples[n-1])
			}
			return nil, 0, fmt.Errorf("no scrape in three minutes shows %s; the last one: %s", what, last)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// keep writes a scrape down.
func (p *stage) keep(step string, s *scrape.Sample) {
	if p.settings.keep == "" {
		return
	}
	name := fmt.Sprintf("%s-%s-%s.prom", p.result.Act, p.result.HA, step)
	if err := os.WriteFile(filepath.Join(p.settings.keep, name), []byte(s.Text), 0o600); err != nil {
		fmt.Println(err)
	}
}

// watch starts the exporter and scrapes it every second from now on.
func (p *stage) watch(ctx context.Context) error {
	flags := []string{"--taskmanager.metrics-ports="}
	for _, jm := range p.cluster().JobManagers() {
		flags = append(flags, "--flink.url="+jm.URL)
	}
	for _, tm := range p.cluster().TaskManagers() {
		flags = append(flags, "--taskmanager.metrics-url="+tm.ReporterURL)
	}
	more, err := p.flags(ctx)
	if err != nil {
		return err
	}
	p.exporter, err = scrape.Start(ctx, p.settings.exporter, p.cluster().Dir(), append(flags, more...)...)
	if err != nil {
		return err
	}
	p.exporter.Watch(ctx)
	return nil
}

// job is the only job, as the leader tells it.
func (p *stage) job(ctx context.Context) (lab.Job, error) {
	jobs, err := p.cluster().Jobs(ctx)
	if err != nil {
		return lab.Job{}, err
	}
	if len(jobs) != 1 {
		return lab.Job{}, fmt.Errorf("%d jobs in place of one", len(jobs))
	}
	return jobs[0], nil
}

// wait waits for a condition of the cluster, for three minutes.
func (p *stage) wait(ctx context.Context, what string, cond func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	return p.cluster().Wait(ctx, what, cond)
}

// waitCheckpoint waits for a checkpoint that began after the call: without one a failover restores nothing, and what a sink holds back is written at
// a checkpoint at the latest.
func waitCheckpoint(ctx context.Context, c *lab.Cluster) error {
	begin := time.Now().UnixMilli()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	return c.Wait(ctx, "a new checkpoint is complete", func(ctx context.Context) (bool, error) {
		jobs, err := c.Jobs(ctx)
		if err != nil {
			return false, err
		}
		if len(jobs) != 1 {
			return false, fmt.Errorf("%d jobs in place of one", len(jobs))
		}
		var answer struct {
			Latest struct {
				Completed *struct {
					Begin int64 `json:"trigger_timestamp"`
				} `json:"completed"`
			} `json:"latest"`
		}
		if err := c.Get(ctx, "/jobs/"+jobs[0].ID+"/checkpoints", &answer); err != nil {
			return false, err
		}
		return answer.Latest.Completed != nil && answer.Latest.Completed.Begin >= begin, nil
	})
}

// restoredFrom is the checkpoint that the running job began with. REST tells it from a view that is up to three seconds old.
func (p *stage) restoredFrom(ctx context.Context) (name string, err error) {
	err = p.wait(ctx, "REST names the checkpoint", func(ctx context.Context) (bool, error) {
		job, err := p.job(ctx)
		if err != nil {
			return false, err
		}
		var answer struct {
			Latest struct {
				Restored *struct {
					Path string `json:"external_path"`
				} `json:"restored"`
			} `json:"latest"`
		}
		if err := p.cluster().Get(ctx, "/jobs/"+job.ID+"/checkpoints", &answer); err != nil {
			return false, err
		}
		if answer.Latest.Restored == nil {
			return false, errors.New("the job was restored from no checkpoint")
		}
		name, err = checkpointName(answer.Latest.Restored.Path)
		return err == nil, err
	})
	return name, err
}

// stopExporter ends the exporter, which must obey at once.
func (p *stage) stopExporter() error {
	if p.exporter == nil {
		return nil
	}
	p.exporter.Close()
	if p.exporter.Outcome != nil {
		return fmt.Errorf("the exporter did not end as it should: %w", p.exporter.Outcome)
	}
	return nil
}
