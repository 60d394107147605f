package ledger

import (
	"cmp"
	"slices"
	"time"
)

const (
	// DefaultWindow is the time over which the ledger balances unless told otherwise.
	DefaultWindow = 5 * time.Minute
	// MinRecords is how many records must have been read or produced within the window for a ratio to mean anything: the reporters and the
	// brokers are asked up to seconds apart, and a handful of records in between would look like a tenth of all.
	MinRecords = 20
	// tolerance is how far above 1 a ratio may be by such differences alone.
	tolerance = 0.1
	// minCommits is how often a group's offsets must have moved within the window to say how far the source read: they move with each
	// checkpoint only, so that less would make the error larger than a third.
	minCommits = 3
	// samplesPerWindow bounds memory, however often the exporter is scraped.
	samplesPerWindow = 60
	// maxSources and maxGone bound what is remembered: sources, and ended executions of each.
	maxSources = 10_000
	maxGone    = 4096
	// miscounting is the one release of Flink whose sources of FLIP-27 count twice what they send to the next operator of their chain
	// (FLINK-31752; seen on 1.17.0, and not on 1.17.2).
	miscounting = "1.17.0"
	// forgetAfter is how long a source that is no longer seen is remembered, so that its total goes on where it was.
	forgetAfter = 24 * time.Hour
)

// Ledger is the small memory of what came out of sources and what was produced, over a window. It does no I/O. It is not safe for
// concurrent use.
type Ledger struct {
	window  time.Duration
	sources map[sourceKey]*account
}

// New returns an empty Ledger; a window of 0 is DefaultWindow. The ledger has to be shown something at least twice in a window.
func New(window time.Duration) *Ledger {
	return &Ledger{window: cmp.Or(window, DefaultWindow), sources: map[sourceKey]*account{}}
}

// Balance is what the ledger says of a source.
type Balance struct {
	JobID, JobName       string
	VertexID, VertexName string
	// Topic is the topics it reads, sorted and joined by commas; empty if they are not known.
	Topic string
	// RecordsTotal is the records out of the source over all executions the ledger ever saw, orphans and ended ones included. It never
	// decreases. It lacks what an execution sent after it was last seen.
	RecordsTotal float64
	// Valid is whether Ratio means something; Why says why not.
	Valid bool
	Why   Why
	// Ratio is RecordsOut by what was there to read, Produced + Backlog: 1 is healthy, 2 is everything twice. Where the backlog is not known
	// it is the lower one of the last two windows.
	Ratio float64
	// RecordsOut is the records out of the source within Span.
	RecordsOut float64
	// Produced is the records produced within Span to the partitions the source reads.
	Produced float64
	// Backlog is the records read within Span beyond those produced, from what was there before; negative if a backlog builds up.
	Backlog float64
	// Basis says where Backlog is from.
	Basis Basis
	// Span is the time compared: about the window, at least half of it.
	Span time.Duration
	// Since is when the comparison began anew, and Void why.
	Since time.Time
	Void  Void
}

// Why says why there is no ratio.
type Why string

// Reasons for having no ratio.
const (
	// WhyTopics: it is not known what the source reads.
	WhyTopics Why = "topics_unknown"
	// WhyProduced: it is not known what was produced, for example because the brokers did not answer.
	WhyProduced Why = "produced_unknown"
	// WhyExecutions: some executions of the source could not be read.
	WhyExecutions Why = "executions_unread"
	// WhyMiscounted: this version of Flink counts some records out of sources twice, so that RecordsTotal means nothing either.
	WhyMiscounted Why = "flink_miscounts"
	// WhyWindow: less than half a window has passed since the comparison began (anew).
	WhyWindow Why = "window_not_full"
	// WhyRecords: fewer than MinRecords were produced or read: too few to tell.
	WhyRecords Why = "too_few_records"
	// WhyBacklog: more came out than was produced, but how much there was to catch up with is not known, and it has not lasted for two windows.
	WhyBacklog Why = "may_be_catching_up"
)

// Basis says how it is known how far the source read.
type Basis string

// Bases, the best first.
const (
	// BasisPositions: the source tells its positions.
	BasisPositions Basis = "positions"
	// BasisCommitted: its consumer group's committed offsets, exact to one checkpoint at each end of the window.
	BasisCommitted Basis = "committed"
	// BasisProduced: it is not known; Backlog is what was seen to build up since the comparison began.
	BasisProduced Basis = "produced"
)

// Void says what made the comparison begin anew.
type Void string

// What makes a comparison begin anew.
const (
	// VoidFirst: the source was not known before.
	VoidFirst Void = "first_seen"
	// VoidRestart: the job's start time or the set of executions changed; what they replay from a checkpoint is legitimate.
	VoidRestart Void = "restart"
	// VoidCounter: a counter of records went back.
	VoidCounter Void = "counter_reset"
	// VoidTopics: what the source reads changed: other topics, or partitions added or removed.
	VoidTopics Void = "partitions_changed"
	// VoidRecreated: the end of a partition went back: the topic was deleted and created again, or lost records.
	VoidRecreated Void = "end_went_back"
	// VoidPosition: the source's position went back without a restart.
	VoidPosition Void = "position_went_back"
	// VoidGap: nothing could be compared for longer than the window.
	VoidGap Void = "gap"
	// VoidClock: the clock went back.
	VoidClock Void = "clock_went_back"
)

// Observe takes in what a scrape saw and returns a balance for each source in it, in the order of job and vertex id. produced has the ends of
// the sources' topics; nil if they could not be had, in which case no balance is valid, and nothing is lost: the comparison goes on when it
// can. now is when the scrape was made.
func (l *Ledger) Observe(now time.Time, sources []SourceObservation, produced map[string]TopicEnd) []Balance {
	balances := make([]Balance, 0, len(sources))
	done := map[sourceKey]bool{}
	for i := range sources {
		o := &sources[i]
		k := sourceKey{o.JobID, o.VertexID}
		if done[k] {
			continue
		}
		done[k] = true
		a := l.sources[k]
		if a == nil {
			a = newAccount()
			l.sources[k] = a
		}
		balances = append(balances, a.observe(now, l.window, o, produced))
	}
	l.forget(now)
	slices.SortFunc(balances, func(a, b Balance) int {
		return cmp.Or(cmp.Compare(a.JobID, b.JobID), cmp.Compare(a.VertexID, b.VertexID))
	})
	return balances
}

// forget drops what has not been seen for long, and what was seen longest ago if there is too much.
func (l *Ledger) forget(now time.Time) {
	for k, a := range l.sources {
		if now.Sub(a.seen) > forgetAfter {
			delete(l.sources, k)
		}
	}
	if len(l.sources) <= maxSources {
		return
	}
	keys := make([]sourceKey, 0, len(l.sources))
	for k := range l.sources {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b sourceKey) int {
		return cmp.Or(l.sources[a].seen.Compare(l.sources[b].seen), cmp.Compare(a.job, b.job), cmp.Compare(a.vertex, b.vertex))
	})
	for _, k := range keys[:len(keys)-maxSources] {
		delete(l.sources, k)
	}
}
