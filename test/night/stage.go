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
	s, n, err := p.exporter.Await(ctx, what, t, 3*time.Minute, cond)
	if err != nil && s != nil {
		p.keep("wrong", s)
	}
	return s, n, err
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
	flags := append(p.cluster().ExporterFlags(), "--taskmanager.metrics-ports=")
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

// wait waits for a condition of the cluster, for three minutes.
func (p *stage) wait(ctx context.Context, what string, cond func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	return p.cluster().Wait(ctx, what, cond)
}

// waitCheckpoint waits for a new checkpoint, for three minutes.
func waitCheckpoint(ctx context.Context, c *lab.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	return c.WaitCheckpoint(ctx)
}

// restoredFrom is the checkpoint that the running job began with. REST tells it from a view that is up to three seconds old.
func (p *stage) restoredFrom(ctx context.Context) (name string, err error) {
	err = p.wait(ctx, "REST names the checkpoint", func(ctx context.Context) (bool, error) {
		job, err := p.cluster().OnlyJob(ctx)
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
	return p.exporter.Close()
}
