package ledger

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// account is what the ledger keeps of one source.
type account struct {
	jobName, vertexName, topic string
	flinkVersion               string
	jobStart                   time.Time
	seen                       time.Time
	counts                     counts

	// The comparison at hand, which begins anew when something makes what came before void.
	since   time.Time
	void    Void
	running map[ExecutionKey]bool
	base    float64 // counts.total at the first sample
	ends    map[TopicPartition]int64
	// read is how far the source is in each partition, by basis; a partition of which that is not known yet is absent.
	read  map[TopicPartition]int64
	basis Basis
	// complete is since when read has every partition of which something was read.
	complete time.Time
	now      sample
	samples  []sample
}

// sample has sums since the comparison began.
type sample struct {
	at time.Time
	// out is records out of the source, produced those produced, and read how far the source moved.
	out, produced, read float64
	// moves counts the samples in which read changed.
	moves int
	// surplus is the highest out - produced so far: what is below it now is a backlog that was seen to build up.
	surplus float64
}

func newAccount() *account {
	return &account{void: VoidFirst, counts: counts{executions: map[ExecutionKey]*counted{}}}
}

// begin begins the comparison anew.
func (a *account) begin(now time.Time, why Void) {
	a.since, a.void = now, why
	a.ends, a.read, a.basis = nil, nil, ""
	a.samples = a.samples[:0]
}

// observe takes in one scrape and draws the balance.
func (a *account) observe(now time.Time, window time.Duration, o *SourceObservation, produced map[string]TopicEnd) Balance {
	if a.jobName == "" || o.Led {
		a.jobName, a.vertexName = o.JobName, o.VertexName
	}
	if o.TopicsErr == nil && len(o.Topics) > 0 {
		a.topic = o.topicLabel()
	}
	a.flinkVersion = cmp.Or(o.FlinkVersion, a.flinkVersion)
	unread := a.unread(now, window, o)
	back := a.counts.observe(now, o.Executions)
	known := !a.seen.IsZero()
	clock := known && now.Before(a.seen)
	a.seen = now
	b := Balance{JobID: o.JobID, JobName: a.jobName, VertexID: o.VertexID, VertexName: a.vertexName, Topic: a.topic, RecordsTotal: a.counts.total}

	switch {
	case !known:
		a.begin(now, VoidFirst)
	case clock:
		a.begin(now, VoidClock)
	case back:
		a.begin(now, VoidCounter)
	case !o.JobStart.IsZero() && !a.jobStart.IsZero() && !o.JobStart.Equal(a.jobStart):
		a.begin(now, VoidRestart)
	}
	if !o.JobStart.IsZero() {
		a.jobStart = o.JobStart
	}
	if a.flinkVersion == miscounting {
		return a.invalid(b, WhyMiscounted)
	}
	if unread || o.Missing > 0 || len(o.Executions) == 0 {
		return a.invalid(b, WhyExecutions)
	}
	running := make(map[ExecutionKey]bool, len(o.Executions))
	for i := range o.Executions {
		running[o.Executions[i].ExecutionKey] = true
	}
	if a.running != nil && !maps.Equal(a.running, running) {
		a.begin(now, VoidRestart)
	}
	a.running = running
	switch {
	case o.TopicsErr != nil || len(o.Topics) == 0:
		return a.invalid(b, WhyTopics)
	case !a.sample(now, window, o, produced):
		return a.invalid(b, WhyProduced)
	}
	return a.draw(b, window)
}

// unread is whether an execution of the comparison may be behind a reporter that did not answer. One that has not been seen for a window is
// gone: its TaskManager may never answer again.
func (a *account) unread(now time.Time, window time.Duration, o *SourceObservation) bool {
	shown := map[ExecutionKey]bool{}
	for i := range o.Executions {
		shown[o.Executions[i].ExecutionKey] = true
	}
	for k := range a.running {
		last := a.counts.executions[k]
		if !shown[k] && last != nil && now.Sub(last.seen) <= window && slices.Contains(o.Unread, last.reporter) {
			return true
		}
	}
	return false
}

func (a *account) invalid(b Balance, why Why) Balance {
	b.Why, b.Since, b.Void = why, a.since, a.void
	return b
}

// sample adds a sample to the comparison, or begins it anew with it. It returns false if the end of some partition is not known.
func (a *account) sample(now time.Time, window time.Duration, o *SourceObservation, produced map[string]TopicEnd) bool {
	positions, basis := o.positions()
	ends, ok := o.ends(produced, positions, basis)
	if !ok {
		return false
	}
	read := positions
	if basis == BasisCommitted {
		read = o.Committed
	}
	if a.ends != nil {
		if why := a.broken(now, window, ends, read, basis); why != "" {
			a.begin(now, why)
		}
	}
	first := a.ends == nil
	if first {
		// Records that came out before the ends were known do not count.
		a.base = a.counts.total
		a.since, a.complete = now, now
		a.now = sample{}
	}
	a.now.at = now
	a.now.out = a.counts.total - a.base
	moved := false
	for tp, end := range ends {
		if !first {
			a.now.produced += float64(end - a.ends[tp])
		}
		position, ok := read[tp]
		if !ok || position < 0 {
			// Nothing was read of it yet; or if only commits tell, something was and is not committed yet.
			if basis == BasisCommitted && !first && end != a.ends[tp] {
				a.complete = now
			}
			continue
		}
		if last, ok := a.read[tp]; ok {
			a.now.read += float64(position - last)
			moved = moved || position != last
		} else if !first {
			a.complete = now // how much was read of it before is not known
		}
	}
	if moved {
		a.now.moves++
	}
	a.now.surplus = max(a.now.surplus, a.now.out-a.now.produced)
	a.ends, a.basis = ends, basis
	if a.read == nil {
		a.read = map[TopicPartition]int64{}
	}
	for tp := range ends {
		if position, ok := read[tp]; ok && position >= 0 {
			a.read[tp] = position
		}
	}
	a.keep(window)
	return true
}

// broken says why the comparison cannot go on with these ends and positions; empty if it can.
func (a *account) broken(now time.Time, window time.Duration, ends, read map[TopicPartition]int64, basis Basis) Void {
	if now.Sub(a.now.at) > window {
		return VoidGap
	}
	if len(ends) != len(a.ends) || basis != a.basis && (basis == BasisPositions || a.basis == BasisPositions) {
		return VoidTopics
	}
	for tp, end := range ends {
		last, ok := a.ends[tp]
		if !ok {
			return VoidTopics
		}
		if end < last {
			return VoidRecreated
		}
	}
	if basis != BasisPositions {
		return "" // two readers of one partition commit in turns
	}
	for tp, last := range a.read {
		if position, ok := read[tp]; ok && position < last {
			return VoidPosition
		}
	}
	return ""
}

// keep stores the newest sample unless the one before is recent, and drops those no window can begin with any more.
func (a *account) keep(window time.Duration) {
	if n := len(a.samples); n > 0 && a.now.at.Sub(a.samples[n-1].at) < window/samplesPerWindow {
		return
	}
	a.samples = append(a.samples, a.now)
	// The earlier of two windows begins up to three windows back, as samples may be almost a window apart, and its first sample one more.
	old := slices.IndexFunc(a.samples, func(s sample) bool { return a.now.at.Sub(s.at) <= 4*window })
	if old > 0 {
		a.samples = slices.Delete(a.samples, 0, old)
	}
}

// positions returns the next offset the source reads of each partition, the furthest of all its executions, -1 for one of which nothing was
// read; and on what basis it is known how far the source read.
func (o *SourceObservation) positions() (map[TopicPartition]int64, Basis) {
	positions := map[TopicPartition]int64{}
	for i := range o.Executions {
		for _, p := range o.Executions[i].Partitions {
			tp := TopicPartition{p.Topic, int32(p.Partition)} //nolint:gosec // Kafka numbers partitions with 32 bits
			next := int64(-1)
			if p.Offset >= 0 {
				next = int64(p.Offset) + 1
			}
			if known, ok := positions[tp]; !ok || next > known {
				positions[tp] = next
			}
		}
	}
	switch {
	case len(positions) > 0:
		return positions, BasisPositions
	case o.Committed != nil:
		return nil, BasisCommitted
	default:
		return nil, BasisProduced
	}
}

// ends returns the ends of the partitions the source reads: those it tells, or else all of its topics.
func (o *SourceObservation) ends(produced map[string]TopicEnd, positions map[TopicPartition]int64, basis Basis) (map[TopicPartition]int64, bool) {
	end := func(p PartitionEnd) int64 {
		if o.ReadCommitted {
			return p.Stable
		}
		return p.End
	}
	ends := map[TopicPartition]int64{}
	for _, topic := range o.Topics {
		t, ok := produced[topic]
		if !ok || len(t.Partitions) == 0 {
			return nil, false
		}
		if basis == BasisPositions {
			continue
		}
		for id, p := range t.Partitions {
			ends[TopicPartition{topic, id}] = end(p)
		}
	}
	for tp := range positions {
		p, ok := produced[tp.Topic].Partitions[tp.Partition]
		if !ok {
			return nil, false
		}
		ends[tp] = end(p)
	}
	return ends, true
}
