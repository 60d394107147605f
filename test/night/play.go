package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"path"
	"time"

	"github.com/flink-lineage/flink-lineage-exporter/test/scrape"
)

// step is one moment of the night: what each of the three says.
type step struct {
	Name     string
	After    float64 // seconds after the kill
	REST     string
	Sink     string
	Exporter exporterWords
}

// result is one act under one kind of high availability. Times are in seconds after the leader was killed.
type result struct {
	Act   string
	HA    string
	Steps []step

	Unknown    float64 // end of the first scrape with up 0 and the verdict unknown
	Leads      float64 // the standby leads, by the store of high availability
	Restored   float64 // every task runs, by REST
	Seen       float64 // end of the first scrape that is right about the double work
	SeenNumber int     // of the scrapes begun after Restored
	LastOld    float64 // last write of who wrote before the kill
	FirstNew   float64 // first write of who came after it
	RestoredBy string  // the checkpoint
	DoubledFor float64 // from Restored until the TaskManager was killed
	Cleared    int     // of the scrapes after the restart, the first one that is well
	Scrapes    int
	Longest    float64 // seconds of a scrape
}

// Ledger is whether the act compares with what was produced.
func (r *result) Ledger() bool { return r.Act == beamAct.name }

// Sink is what the job wrote to.
func (r *result) Sink() string { return acts[r.Act].Sink }

// Title is the kind of high availability.
func (r *result) Title() string { return kinds[r.HA].title }

// Overlap is how long old and new wrote beside each other, negative for a gap.
func (r *result) Overlap() float64 { return r.LastOld - r.FirstNew }

// String is what was measured, in a line.
func (r *result) String() string {
	return fmt.Sprintf("after the kill: unknown %.1f s, standby leads %.1f s, restored %.1f s from %s, seen %.1f s (scrape %d), old wrote until %.1f s, "+
		"new from %.1f s; twice for %.1f s; ok in scrape %d after the restart; %d scrapes, the longest %.1f s",
		r.Unknown, r.Leads, r.Restored, r.RestoredBy, r.Seen, r.SeenNumber, r.LastOld, r.FirstNew, r.DoubledFor, r.Cleared, r.Scrapes, r.Longest)
}

// play plays one act. Its result has the steps that came out right.
func play(ctx context.Context, s *settings, k kind, a *act) (*result, error) {
	r := &result{Act: a.name, HA: k.name}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	conf := nightConf
	if s.short {
		conf = with(nightConf, shortConf)
	}
	w, err := a.start(ctx, k, conf)
	if err != nil {
		return r, err
	}
	p := &stage{world: w, settings: s, result: r}
	err = p.play(ctx)
	return r, errors.Join(err, p.stopExporter(), w.stop())
}

func (p *stage) play(ctx context.Context) error {
	for _, step := range []func(context.Context) error{p.healthy, p.noLeader, p.restored, p.restarted} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	for _, s := range p.exporter.Since(time.Time{}) {
		p.result.Scrapes++
		p.result.Longest = max(p.result.Longest, s.End.Sub(s.Begin).Seconds())
		if s.Err != nil {
			return fmt.Errorf("a scrape failed: %w", s.Err)
		}
	}
	return nil
}

// after is a moment in seconds after the kill.
func (p *stage) after(t time.Time) float64 { return t.Sub(p.killed).Seconds() }

// done writes a step down, which came out right.
func (p *stage) done(ctx context.Context, name, sink string, at time.Time, s *scrape.Sample) {
	st := step{Name: name, REST: restWords(ctx, p.cluster()), Sink: sink, Exporter: wordsOf(s)}
	if !p.killed.IsZero() {
		st.After = p.after(at)
	}
	p.keep(name, s)
	p.result.Steps = append(p.result.Steps, st)
	fmt.Printf("    * %s (%.0f s after the kill)\n      REST: %s\n      sink: %s\n      exporter: %+v\n", name, st.After, st.REST, st.Sink, st.Exporter)
}

// healthy waits until every task runs, everything is written once and the exporter says so.
func (p *stage) healthy(ctx context.Context) error {
	if err := p.cluster().WaitRunning(ctx); err != nil {
		return err
	}
	if err := waitCheckpoint(ctx, p.cluster()); err != nil {
		return err
	}
	if err := p.watch(ctx); err != nil {
		return err
	}
	if _, _, err := p.await(ctx, "the verdict ok", time.Now(), p.well); err != nil {
		return err
	}
	return p.allWell(ctx, "healthy")
}

// allWell checks that everything is written once and that the exporter says so.
func (p *stage) allWell(ctx context.Context, name string) error {
	at := time.Now()
	sink, err := p.once(ctx)
	if err != nil {
		return err
	}
	s, _, err := p.await(ctx, "that all is well", at, func(s *scrape.Sample) bool { return p.well(s) && p.ratio(s, 1) })
	if err != nil {
		return err
	}
	p.done(ctx, name, sink, at, s)
	return nil
}

// ratio reports whether the ledger says so, where it is asked.
func (p *stage) ratio(s *scrape.Sample, want float64) bool {
	if !p.result.Ledger() || p.settings.short {
		return true
	}
	v, ok := s.Value("source_amplification_ratio")
	return ok && math.Abs(v-want) < 0.15
}

// noLeader kills the leader. Tasks go on without one, and the exporter must not claim to know anything.
func (p *stage) noLeader(ctx context.Context) error {
	leader, err := p.cluster().Leader(ctx)
	if err != nil {
		return err
	}
	p.killed = time.Now()
	if err := leader.Kill(); err != nil {
		return err
	}
	s, _, err := p.await(ctx, "up 0 and the verdict unknown", p.killed, func(s *scrape.Sample) bool {
		up, ok := s.Value("up")
		electing, _ := s.Sum("jobmanager_electing")
		_, tasks := s.Value("job_tasks")
		return ok && up == 0 && electing > 0 && !tasks && s.Verdict("") == "unknown"
	})
	if err != nil {
		return err
	}
	p.result.Unknown = p.after(s.End)
	sink, err := p.written(ctx, p.killed)
	if err != nil {
		return err
	}
	p.done(ctx, "no leader", sink, s.End, s)
	if err := p.wait(ctx, "the standby leads", func(ctx context.Context) (bool, error) {
		now, err := p.cluster().Leader(ctx)
		return err == nil && now != leader, err
	}); err != nil {
		return err
	}
	p.result.Leads = p.after(time.Now())
	return nil
}

// restored waits until the standby runs the whole job, by its own word, and looks at what is written twice although REST shows nothing.
func (p *stage) restored(ctx context.Context) error {
	if err := p.wait(ctx, "every task runs again", func(ctx context.Context) (bool, error) {
		job, err := p.cluster().OnlyJob(ctx)
		return err == nil && job.AllRunning() && job.StartTime > p.killed.UnixMilli(), err
	}); err != nil {
		return err
	}
	restored := time.Now()
	p.result.Restored = p.after(restored)
	var err error
	if p.result.RestoredBy, err = p.restoredFrom(ctx); err != nil {
		return err
	}
	id, err := p.cluster().TaskManagers()[0].ID(ctx)
	if err != nil {
		return err
	}
	right := func(s *scrape.Sample) bool { return p.double(s, id) }
	s, n, err := p.await(ctx, "the double work and the TaskManager to restart", restored, right)
	if err != nil {
		return err
	}
	p.result.Seen, p.result.SeenNumber = p.after(s.End), n
	at := time.Now()
	sink, err := p.twice(ctx)
	if err != nil {
		return err
	}
	s, _, err = p.await(ctx, "the double work, also by the ledger", at, func(s *scrape.Sample) bool { return right(s) && p.ratio(s, 2) })
	if err != nil {
		return err
	}
	if err := p.noFalseAlarm(); err != nil {
		return err
	}
	if err := p.overlap(ctx); err != nil {
		return err
	}
	p.done(ctx, "restored", sink, at, s)
	return nil
}

// noFalseAlarm checks that no scrape said duplicate that was answered before the standby led.
func (p *stage) noFalseAlarm() error {
	for _, s := range p.exporter.Since(time.Time{}) {
		if s.Err == nil && p.after(s.End) < p.result.Leads && s.Verdict("") == "duplicate" {
			p.keep("alarm", s)
			return fmt.Errorf("a false alarm %.1f s after the kill: %s", p.after(s.End), s.Describe())
		}
	}
	return nil
}

// overlap finds out how long old and new wrote beside each other.
func (p *stage) overlap(ctx context.Context) error {
	spans, err := p.spans(ctx)
	if err != nil {
		return err
	}
	var lastOld, firstNew time.Time
	for _, s := range spans {
		switch {
		case s.first.Before(p.killed):
			if s.last.After(lastOld) {
				lastOld = s.last
			}
		case firstNew.IsZero() || s.first.Before(firstNew):
			firstNew = s.first
		}
	}
	if lastOld.IsZero() || firstNew.IsZero() {
		return fmt.Errorf("nobody wrote before the kill, or nobody after it: %v", spans)
	}
	p.result.LastOld, p.result.FirstNew = p.after(lastOld), p.after(firstNew)
	return nil
}

// restarted kills the TaskManager and starts it anew, which must end both the double work and what the exporter says of it.
func (p *stage) restarted(ctx context.Context) error {
	tm := p.cluster().TaskManagers()[0]
	p.result.DoubledFor = p.after(time.Now()) - p.result.Restored
	if err := tm.Restart(); err != nil {
		return err
	}
	if err := p.wait(ctx, "the tasks are lost", func(ctx context.Context) (bool, error) {
		job, err := p.cluster().OnlyJob(ctx)
		return err == nil && !job.AllRunning(), err
	}); err != nil {
		return err
	}
	if err := p.cluster().WaitRunning(ctx); err != nil {
		return err
	}
	_, n, err := p.await(ctx, "the verdict ok", time.Now(), p.well)
	if err != nil {
		return err
	}
	p.result.Cleared = n
	return p.allWell(ctx, "TaskManager restarted")
}

// checkpointName names a checkpoint by its file system and its folder.
func checkpointName(location string) (string, error) {
	u, err := url.Parse(location)
	if err != nil {
		return "", err
	}
	if u.Scheme != "hdfs" {
		return "", fmt.Errorf("the job was restored from %s, which is not in HDFS", location)
	}
	return path.Base(u.Path) + " in HDFS", nil
}
