package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/flink-lineage/flink-lineage-exporter/internal/flink"
	"github.com/flink-lineage/flink-lineage-exporter/internal/ledger"
	"github.com/flink-lineage/flink-lineage-exporter/internal/lineage"
)

const (
	// patience is how long a scrape waits, once one JobManager has given a leader's view, for the others to give theirs.
	patience = 500 * time.Millisecond
	// dumpConcurrency bounds the thread dumps taken at a time: each stops all threads of a TaskManager for a moment and sends megabytes
	// through the JobManager.
	dumpConcurrency = 4
	// ledgerTimeout bounds what Kafka may add to a scrape.
	ledgerTimeout = 2 * time.Second
	// lookAgain is the least time that has to be left for a second look.
	lookAgain = lineage.Settle + 500*time.Millisecond
)

// scrape is one scrape under way.
type scrape struct {
	*Cluster
	ctx   context.Context
	begin time.Time

	mu    sync.Mutex
	parts map[string]flink.Part
}

// story is what one JobManager answered.
type story struct {
	index int
	probe *flink.Probe
}

func (s *scrape) run() (*lineage.Report, []ledger.Balance) {
	stories := make(chan story, len(s.jobManagers))
	for i, jm := range s.jobManagers {
		go func() { stories <- story{i, jm.Probe(s.ctx)} }()
	}
	probes := make([]*flink.Probe, len(s.jobManagers))
	chosen := s.choose(stories, probes)

	snapshot := s.look(chosen, probes)
	balances := make(chan []ledger.Balance, 1)
	looked := *snapshot // the JobManagers' stories are added to the other one meanwhile
	go func() { balances <- s.balance(&looked) }()
	report := lineage.Judge(snapshot, &s.memory, s.rules)
	suspicious := report.Suspicious()
	var second *lineage.Snapshot
	if len(suspicious) > 0 && s.settle() {
		second = s.lookAt(suspicious, snapshot, chosen)
	}

	// A JobManager that is slow to answer does not hold up the rest.
	for missing := slices.Index(probes, nil); missing >= 0; missing = slices.Index(probes, nil) {
		st := <-stories
		probes[st.index] = st.probe
	}
	snapshot.JobManagers = s.tell(probes)
	if chosen < 0 {
		s.noLeader(probes)
	}
	if second != nil {
		second.JobManagers = snapshot.JobManagers
		report = lineage.Confirm(second, &s.memory, s.rules, report)
	} else {
		report = lineage.Judge(snapshot, &s.memory, s.rules)
	}
	balanced := <-balances
	s.coverage(report)
	return report, balanced
}

// balance compares what came out of sources with what was produced. Without Kafka the ledger only counts.
func (s *scrape) balance(snapshot *lineage.Snapshot) []ledger.Balance {
	begin := time.Now()
	sources := ledger.Sources(snapshot, s.sources)
	var produced map[string]ledger.TopicEnd
	if s.kafka != nil {
		ctx, cancel := context.WithTimeout(s.ctx, ledgerTimeout)
		defer cancel()
		var err error
		produced, err = ledger.Fetch(ctx, s.kafka, sources)
		s.add(PartLedger, time.Since(begin), err)
	}
	return s.ledger.Observe(snapshot.Time, sources, produced)
}

// choose waits for the JobManagers' stories and returns the index of the one to serve this scrape, -1 if none gave a leader's view. It
// prefers the one that knows the latest start of a job, since a leader that has been replaced may answer once more; then the one that served
// last; then the order of the configuration.
func (s *scrape) choose(stories <-chan story, probes []*flink.Probe) int {
	var enough <-chan time.Time
	for range probes {
		select {
		case st := <-stories:
			probes[st.index] = st.probe
			if st.probe.Leads() && enough == nil {
				enough = time.After(patience)
			}
		case <-enough:
			return s.best(probes)
		}
	}
	return s.best(probes)
}

func (s *scrape) best(probes []*flink.Probe) int {
	chosen := -1
	for i, p := range probes {
		switch {
		case p == nil || !p.Leads():
		case chosen < 0, newer(p, probes[chosen]),
			s.jobManagers[i].URL() == s.serving && !newer(probes[chosen], p):
			chosen = i
		}
	}
	return chosen
}

// newer is whether a knows a later start of some job than b does.
func newer(a, b *flink.Probe) bool {
	starts := map[string]time.Time{}
	for _, j := range b.Jobs {
		starts[j.ID] = j.StartTime
	}
	return slices.ContainsFunc(a.Jobs, func(j lineage.Job) bool {
		t, ok := starts[j.ID]
		return ok && j.StartTime.After(t)
	})
}

// look takes the first look at everything.
func (s *scrape) look(chosen int, probes []*flink.Probe) *lineage.Snapshot {
	snapshot := &lineage.Snapshot{Time: s.begin, ReportersOn: s.targets.On(), ThreadsOn: s.cfg.Threads.Enabled}
	var registered []lineage.TaskManager
	var wg sync.WaitGroup
	if chosen >= 0 {
		probe := s.recent(probes[chosen])
		registered = probe.TaskManagers
		due := s.dueDumps(probe)
		wg.Go(func() {
			snapshot.Leader = s.view(chosen, probe)
		})
		wg.Go(func() { snapshot.Dumps = s.takeDumps(chosen, due, registered) })
	}
	wg.Go(func() { snapshot.Reporters = s.readReporters(registered) })
	wg.Wait()
	return snapshot
}

// recent is a probe without the jobs that ended too long ago to be shown.
func (s *scrape) recent(p *flink.Probe) *flink.Probe {
	r := *p
	r.Jobs = slices.DeleteFunc(slices.Clone(p.Jobs), func(j lineage.Job) bool {
		return j.State.Ended() && !j.EndTime.IsZero() && s.begin.Sub(j.EndTime) > s.cfg.FinishedJobs
	})
	return &r
}

// settle waits before a second look; false if the scrape has no time left for one.
func (s *scrape) settle() bool {
	if deadline, ok := s.ctx.Deadline(); ok && time.Until(deadline) < lookAgain {
		return false
	}
	select {
	case <-time.After(lineage.Settle):
		return true
	case <-s.ctx.Done():
		return false
	}
}

// lookAt takes a second look at the suspicious TaskManagers and at the leader's view. It returns nil if the leader's view is gone meanwhile.
func (s *scrape) lookAt(suspicious []string, first *lineage.Snapshot, chosen int) *lineage.Snapshot {
	second := *first
	second.Time = time.Now()
	urls := map[string]bool{}
	for _, id := range suspicious {
		if u := s.targets.Known(id); u != "" {
			urls[u] = true
		}
	}
	begin := time.Now()
	readings := s.readAll(slices.Sorted(maps.Keys(urls)))
	s.add(PartReporter, time.Since(begin), nil)
	reread := map[string]bool{}
	for i := range readings {
		reread[readings[i].URL] = true
	}
	second.Reporters = slices.DeleteFunc(slices.Clone(first.Reporters), func(r lineage.Reporter) bool { return reread[r.URL] })
	second.Reporters = append(second.Reporters, readings...)

	if first.ThreadsOn {
		due := map[string]bool{}
		for _, id := range suspicious {
			due[id] = true
		}
		dumps := s.takeDumps(chosen, due, first.Leader.TaskManagers)
		second.Dumps = dumps
	}
	// After the TaskManagers, so that the leader has had time to tell of what they run.
	probe := s.jobManagers[chosen].Probe(s.ctx)
	if !probe.Leads() {
		return nil
	}
	second.Leader = s.view(chosen, s.recent(probe))
	return &second
}

// view completes a probe to the leader's view.
func (s *scrape) view(jobManager int, probe *flink.Probe) *lineage.LeaderView {
	v, parts := s.jobManagers[jobManager].View(s.ctx, probe)
	for name, p := range parts {
		s.add(name, p.Took, p.Err)
	}
	return v
}

// add adds to how a part of the scrape went.
func (s *scrape) add(part string, took time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.parts[part]
	s.parts[part] = flink.Part{Took: p.Took + took, Err: errors.Join(p.Err, err)}
}

// dueDumps are the TaskManagers whose thread dump has to be taken in this scrape.
func (s *scrape) dueDumps(p *flink.Probe) map[string]bool {
	due := map[string]bool{}
	changed := s.memory.StartTimeChanged(&lineage.LeaderView{Jobs: p.Jobs})
	for _, tm := range p.TaskManagers {
		d, ok := s.dumps[tm.ID]
		due[tm.ID] = !ok || changed || s.due[tm.ID] || s.begin.Sub(d.Time) >= s.cfg.Threads.Interval
	}
	return due
}

// takeDumps takes the thread dumps that are due and returns one for each registered TaskManager, the last one for those not due.
func (s *scrape) takeDumps(jobManager int, due map[string]bool, registered []lineage.TaskManager) []lineage.ThreadDump {
	if !s.cfg.Threads.Enabled {
		return nil
	}
	begin := time.Now()
	dumps := make([]lineage.ThreadDump, len(registered))
	slots := make(chan struct{}, dumpConcurrency)
	var wg sync.WaitGroup
	for i := range registered {
		id := registered[i].ID
		if last, ok := s.dumps[id]; ok && !due[id] {
			last.Fresh = last.Time.After(s.begin)
			dumps[i] = last
			continue
		}
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			d := lineage.ThreadDump{TaskManager: id, Time: time.Now(), Fresh: true}
			d.Threads, d.Err = s.jobManagers[jobManager].Threads(s.ctx, id)
			dumps[i] = d
		})
	}
	wg.Wait()
	for i := range dumps {
		if dumps[i].Err == nil {
			s.dumps[dumps[i].TaskManager] = dumps[i]
		} else {
			delete(s.dumps, dumps[i].TaskManager)
		}
	}
	s.add(PartThreads, time.Since(begin), nil)
	return dumps
}

// readReporters reads the reporters of the registered TaskManagers, of those seen before and of those configured.
func (s *scrape) readReporters(registered []lineage.TaskManager) []lineage.Reporter {
	if !s.targets.On() {
		return nil
	}
	begin := time.Now()
	hosts := make(map[string]string, len(registered))
	for i := range registered {
		hosts[registered[i].ID] = registered[i].Host
	}
	urls, err := s.targets.URLs(s.ctx, hosts)
	readings := s.readAll(urls)
	s.targets.Learn(readings, hosts, s.begin)
	s.add(PartReporter, time.Since(begin), err)
	return readings
}

func (s *scrape) readAll(urls []string) []lineage.Reporter {
	byURL := make([][]lineage.Reporter, len(urls))
	var wg sync.WaitGroup
	for i, u := range urls {
		wg.Go(func() { byURL[i] = s.reporters.Read(s.ctx, u) })
	}
	wg.Wait()
	return slices.Concat(byURL...)
}

// tell makes the JobManagers' stories of the probes.
func (s *scrape) tell(probes []*flink.Probe) []lineage.JobManager {
	jms := make([]lineage.JobManager, len(probes))
	for i, p := range probes {
		jms[i] = p.Story(s.jobManagers[i].URL())
	}
	return jms
}

// noLeader marks the parts that only a leader's view has as failed, with what each JobManager said.
func (s *scrape) noLeader(probes []*flink.Probe) {
	var errs []error
	took := time.Duration(0)
	for i, p := range probes {
		errs = append(errs, fmt.Errorf("JobManager %s: %w", s.jobManagers[i].URL(), p.JobsErr))
		took = max(took, p.JobsTook)
	}
	for _, name := range []string{flink.PartOverview, flink.PartJobs, flink.PartVertices, flink.PartTaskManagers, flink.PartSlots} {
		s.parts[name] = flink.Part{Took: took, Err: errors.Join(errs...)}
	}
}

// coverage marks a view that could not read every known TaskManager as failed.
func (s *scrape) coverage(r *lineage.Report) {
	for part, view := range map[string]lineage.View{PartReporter: lineage.ViewReporter, PartThreads: lineage.ViewThreads} {
		on := r.Snapshot.ReportersOn
		if part == PartThreads {
			on = r.Snapshot.ThreadsOn
		}
		if !on {
			continue
		}
		p := s.parts[part]
		c, ok := r.Coverage[view]
		switch {
		case !ok:
			p.Err = errors.Join(p.Err, errors.New("which TaskManagers are registered is not known"))
		case c.Read < c.Known:
			p.Err = errors.Join(p.Err, fmt.Errorf("%d of %d TaskManagers could be read", c.Read, c.Known))
		}
		s.parts[part] = p
	}
}
