package ledger

import "time"

// draw compares the newest sample with the one at the beginning of the window.
func (a *account) draw(b Balance, window time.Duration) Balance {
	b.Since, b.Void, b.Basis = a.since, a.void, BasisProduced
	from := a.at(a.now.at.Add(-window))
	if later, ok := a.knownFrom(from, window); ok {
		from, b.Basis = later, a.basis
	}
	b.Span = a.now.at.Sub(from.at)
	b.RecordsOut = a.now.out - from.out
	b.Produced = a.now.produced - from.produced
	if b.Basis == BasisProduced {
		b.Backlog = seenBacklog(from, a.now)
	} else {
		b.Backlog = a.now.read - from.read - b.Produced
	}
	switch {
	case b.Span < window/2:
		b.Why = WhyWindow
		return b
	case b.Produced+b.Backlog < MinRecords:
		b.Why = WhyRecords
		return b
	}
	b.Ratio = b.RecordsOut / (b.Produced + b.Backlog)
	if b.Basis == BasisProduced && b.Ratio > 1+tolerance {
		before, ok := a.before(from, window)
		if !ok {
			b.Ratio, b.Why = 0, WhyBacklog
			return b
		}
		b.Ratio = min(b.Ratio, before)
	}
	b.Valid = true
	return b
}

// at returns the newest sample that is not after t, or the first.
func (a *account) at(t time.Time) sample {
	found := a.samples[0]
	for _, s := range a.samples[1:] {
		if s.at.After(t) {
			break
		}
		found = s
	}
	return found
}

// knownFrom returns the first sample, not before from, since when it is known how far the source read; ok is false if it is not known for
// half a window.
func (a *account) knownFrom(from sample, window time.Duration) (s sample, ok bool) {
	if a.basis == BasisProduced {
		return from, false
	}
	for _, s := range a.samples {
		if s.at.Before(from.at) || s.at.Before(a.complete) {
			continue
		}
		enough := a.basis == BasisPositions || a.now.moves-s.moves >= minCommits
		return s, enough && a.now.at.Sub(s.at) >= window/2
	}
	return from, false
}

// before returns the ratio of the window that ends at to, if it was above 1 too. Whether a source catches up with a backlog from before the
// comparison began cannot be told from its records alone; but a backlog ends, and double work does not.
func (a *account) before(to sample, window time.Duration) (ratio float64, ok bool) {
	if a.now.at.Sub(to.at) < window {
		return 0, false
	}
	from := a.at(to.at.Add(-window))
	if to.at.Sub(from.at) < window {
		return 0, false
	}
	available := to.produced - from.produced + seenBacklog(from, to)
	if available < MinRecords {
		return 0, false
	}
	ratio = (to.out - from.out) / available
	return ratio, ratio > 1+tolerance
}

// seenBacklog is how much of the records out between two samples is from a backlog that was seen to build up before: a source that stood
// still may read faster than records are produced until it is where it was.
func seenBacklog(from, to sample) float64 {
	backlog := from.surplus - (from.out - from.produced)
	more := (to.out - from.out) - (to.produced - from.produced)
	return max(0, min(backlog, more))
}
