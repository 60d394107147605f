package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/flink-lineage/flink-lineage-exporter/test/beam"
	"github.com/flink-lineage/flink-lineage-exporter/test/lab"
	"github.com/flink-lineage/flink-lineage-exporter/test/scrape"
)

// sample is one scrape.
type sample = scrape.Sample

// stage is where a scenario is played.
type stage struct {
	ctx      context.Context
	cluster  *lab.Cluster
	beam     *beam.Run // nil without Kafka
	settings *settings
	result   *result
	exporter *scrape.Exporter

	producers []*beam.Producer
}

// flags make the exporter look at the cluster, through all its JobManagers unless some are given.
func (p *stage) flags(jobManagers ...*lab.JobManager) []string {
	return append(p.cluster.ExporterFlags(jobManagers...), "--taskmanager.metrics-ports=", "--log.level=debug")
}

// watch starts the exporter and scrapes it every second from now on.
func (p *stage) watch() error {
	flags := p.flags()
	if p.beam != nil {
		more, err := p.beam.LedgerFlags(p.ctx, ledgerWindow)
		if err != nil {
			return err
		}
		flags = append(flags, more...)
	}
	e, err := scrape.Start(p.ctx, p.settings.exporter, p.cluster.Dir(), flags...)
	if err != nil {
		return err
	}
	p.exporter = e
	e.Watch(p.ctx)
	return nil
}

// stopExporter ends the exporter, which must obey at once, and counts its scrapes.
func (p *stage) stopExporter() error {
	if p.exporter == nil {
		return nil
	}
	err := p.exporter.Close()
	samples := p.exporter.Since(time.Time{})
	p.result.scrapes += len(samples)
	for _, s := range samples {
		p.result.longest = max(p.result.longest, s.End.Sub(s.Begin))
	}
	p.exporter = nil
	return err
}

// begin waits until the job runs and the exporter says that all is well.
func (p *stage) begin() error {
	if err := p.cluster.WaitRunning(p.ctx); err != nil {
		return err
	}
	if err := p.watch(); err != nil {
		return err
	}
	_, err := p.await("the verdict ok", time.Now(), func(s *sample) bool { return s.Verdict("") == "ok" })
	return err
}

// await waits for a scrape begun at or after t for which cond holds, and returns it with its number among those since t, from 1.
func (p *stage) await(what string, t time.Time, cond func(*sample) bool) (found, error) {
	s, n, err := p.exporter.Await(p.ctx, what, t, 2*time.Minute, cond)
	if err != nil {
		if s != nil {
			p.keep(s)
		}
		return found{}, err
	}
	return found{s, n}, nil
}

// last is the last scrape that succeeded.
func (p *stage) last() *sample {
	last := &sample{}
	for _, s := range p.exporter.Since(time.Time{}) {
		if s.Err == nil {
			last = s
		}
	}
	return last
}

// found is a scrape and its number among those since some moment.
type found struct {
	*sample
	number int
}

// keep writes down a scrape that is wrong.
func (p *stage) keep(s *sample) {
	if p.settings.keep == "" {
		return
	}
	name := fmt.Sprintf("%s-%s-%s.prom", p.result.version, p.result.scenario.name, s.Begin.Format("150405.000"))
	if err := os.WriteFile(filepath.Join(p.settings.keep, name), []byte(s.Text), 0o600); err != nil {
		fmt.Println(err)
	}
}

// alarms counts the scrapes between two moments, begun and answered, in which some job has a verdict that must not be, and keeps them. One
// that was still under way at the second moment may have seen what came after it.
func (p *stage) alarms(from, to time.Time, verdict string) int {
	n := 0
	for _, s := range p.exporter.Since(from) {
		if s.End.Before(to) && s.Err == nil && s.Verdicts()[verdict] {
			n++
			p.keep(s)
			fmt.Printf("    at %s: %s\n", s.Begin.Format("15:04:05.000"), s.Describe())
		}
	}
	return n
}

// failed counts scrapes that failed as such.
func (p *stage) failed() (n int, err error) {
	for _, s := range p.exporter.Since(time.Time{}) {
		if s.Err != nil {
			n++
			err = s.Err
		}
	}
	return n, err
}

// noAlarm fails if any scrape since the beginning said duplicate or failed.
func (p *stage) noAlarm() error {
	p.result.falseAlarms = p.alarms(time.Time{}, time.Now(), "duplicate")
	n, err := p.failed()
	if p.result.falseAlarms > 0 {
		return fmt.Errorf("%d scrapes say duplicate", p.result.falseAlarms)
	}
	if n > 0 {
		return fmt.Errorf("%d scrapes failed, such as: %w", n, err)
	}
	return nil
}

// killLeader kills the JobManager that leads and returns it with the moment.
func (p *stage) killLeader() (*lab.JobManager, time.Time, error) {
	leader, err := p.cluster.Leader(p.ctx)
	if err != nil {
		return nil, time.Time{}, err
	}
	at := time.Now()
	return leader, at, leader.Kill()
}

// failover kills the leader and waits until the standby runs the job.
func (p *stage) failover() (dead *lab.JobManager, at time.Time, err error) {
	return p.cluster.FailOver(p.ctx, (*lab.JobManager).Kill)
}

// freezeLeader freezes the leader and waits until the standby runs the job.
func (p *stage) freezeLeader() (leader *lab.JobManager, at time.Time, err error) {
	return p.cluster.FailOver(p.ctx, (*lab.JobManager).Freeze)
}

// busiest is the TaskManager whose tasks write.
func (p *stage) busiest(since time.Time) (*lab.TaskManager, error) {
	for _, tm := range p.cluster.TaskManagers() {
		writes, err := lab.ReadSink(tm.Sink)
		if err != nil {
			return nil, err
		}
		for _, w := range writes {
			if w.Time.After(since) {
				return tm, nil
			}
		}
	}
	return nil, errors.New("no TaskManager writes")
}

// restarted restarts the TaskManager, waits until the job runs and the exporter says that all is well, and returns since when the job ran.
func (p *stage) restarted(tm *lab.TaskManager) (since time.Time, err error) {
	if err := tm.Restart(); err != nil {
		return time.Time{}, err
	}
	if err := p.cluster.WaitRunning(p.ctx); err != nil {
		return time.Time{}, err
	}
	since = time.Now()
	cleared, err := p.await("the verdict ok after the restart", since, func(s *sample) bool { return s.Verdict("") == "ok" })
	p.result.cleared = cleared.number
	return since, err
}

// doubledOn waits until two writers of one subtask have written after since, and returns when the second began and where both are.
func (p *stage) doubledOn(since time.Time) (time.Time, *lab.TaskManager, error) {
	at, err := p.doubled(since)
	if err != nil {
		return at, nil, err
	}
	var tm *lab.TaskManager
	err = p.cluster.Wait(p.ctx, "they go on", func(context.Context) (bool, error) {
		tm, err = p.busiest(at)
		return tm != nil, err
	})
	return at, tm, err
}

// doubled waits until two writers of one subtask have written after since, and returns when the second began.
func (p *stage) doubled(since time.Time) (time.Time, error) {
	var at time.Time
	err := p.cluster.Wait(p.ctx, "two writers of one subtask", func(context.Context) (bool, error) {
		first := map[string]map[string]time.Time{} // by subtask and writer
		for _, sink := range p.cluster.Sinks() {
			writes, err := lab.ReadSink(sink)
			if err != nil {
				return false, err
			}
			for _, w := range writes {
				if w.Time.Before(since) {
					continue
				}
				thread, instance, _ := strings.Cut(w.Writer, "@")
				subtask, _, _ := strings.Cut(thread, "#")
				if first[subtask] == nil {
					first[subtask] = map[string]time.Time{}
				}
				writer := sink + thread + instance
				if t, ok := first[subtask][writer]; !ok || w.Time.Before(t) {
					first[subtask][writer] = w.Time
				}
			}
		}
		at = time.Time{}
		for _, writers := range first {
			if len(writers) < 2 {
				continue
			}
			var last time.Time
			for _, t := range writers {
				if t.After(last) {
					last = t
				}
			}
			if at.IsZero() || last.Before(at) {
				at = last
			}
		}
		return !at.IsZero(), nil
	})
	return at, err
}
