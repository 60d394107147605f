package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/flink-lineage/flink-lineage-exporter/test/lab"
)

// cluster is a real Flink cluster with one job.
type cluster struct{ *lab.Cluster }

// startCluster starts a small cluster with its logs below dir, and waits until its job runs. By default it has two JobManagers with ZooKeeper
// and two TaskManagers, one of which has slots enough for the whole job.
func startCluster(ctx context.Context, dir string, o lab.Options) (*cluster, error) {
	o.HA, o.Dir = lab.ZooKeeper, dir
	say("Flink %s is started.", o.Version)
	c, err := lab.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := c.WaitRunning(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return &cluster{c}, nil
}

// handover is what was written by executions that began before some moment, and by those that began after it.
type handover struct {
	// last is when an execution from before last wrote.
	last time.Time
	// first is when an execution from after first wrote; zero if there is none.
	first time.Time
	// begun is the number of executions from after.
	begun int
	// late are the TaskManagers on which executions from before still wrote after first.
	late []*lab.TaskManager
}

// gap is how long nobody wrote; negative if old and new executions wrote side by side for so long.
func (h *handover) gap() time.Duration { return h.first.Sub(h.last) }

// handover reads it from what the job wrote to the outside.
func (c *cluster) handover(at time.Time) (handover, error) {
	writes := map[*lab.TaskManager][]lab.Write{}
	for _, tm := range c.TaskManagers() {
		var err error
		if writes[tm], err = lab.ReadSink(tm.Sink); err != nil {
			return handover{}, err
		}
	}
	return handoverOf(writes, at), nil
}

// handoverOf tells executions apart by their writers, of which each JVM gives each execution another.
func handoverOf(writes map[*lab.TaskManager][]lab.Write, at time.Time) handover {
	var h handover
	lasts := map[*lab.TaskManager]time.Time{}
	for tm, all := range writes {
		old, begun := map[string]bool{}, map[string]bool{}
		for _, w := range all {
			if w.Time.Before(at) {
				old[w.Writer] = true
			}
		}
		for _, w := range all {
			if old[w.Writer] {
				lasts[tm] = later(lasts[tm], w.Time)
				continue
			}
			begun[w.Writer] = true
			if h.first.IsZero() || w.Time.Before(h.first) {
				h.first = w.Time
			}
		}
		h.begun += len(begun)
	}
	for tm, last := range lasts {
		h.last = later(h.last, last)
		if !h.first.IsZero() && last.After(h.first) {
			h.late = append(h.late, tm)
		}
	}
	return h
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// writer is the TaskManager whose tasks wrote last.
func (c *cluster) writer() (*lab.TaskManager, error) {
	var found *lab.TaskManager
	var last time.Time
	for _, tm := range c.TaskManagers() {
		writes, err := lab.ReadSink(tm.Sink)
		if err != nil {
			return nil, err
		}
		if len(writes) > 0 && writes[len(writes)-1].Time.After(last) {
			found, last = tm, writes[len(writes)-1].Time
		}
	}
	if found == nil {
		return nil, fmt.Errorf("no task wrote to any of %s", strings.Join(c.Sinks(), ", "))
	}
	return found, nil
}
