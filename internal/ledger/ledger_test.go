package ledger

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/flink-lineage/flink-lineage-exporter/internal/lineage"
)

var (
	epoch   = time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC)
	started = epoch.Add(-time.Hour)
)

// scrape is one scrape of a source with the topic "orders". Its zero value changes nothing.
type scrape struct {
	// at is the time in seconds.
	at int
	// out are the records out of each execution so far.
	out []float64
	// attempt and graph name the executions' attempts.
	attempt, graph int
	// end is the end of each partition.
	end []int64
	// position is the offset of the last record read of each partition; nil if the source does not tell.
	position []float64
	// commits are the committed offsets of each partition; nil if there is no group.
	commits []int64
	change  func(*SourceObservation)
	noKafka bool
}

func (s *scrape) observation() SourceObservation {
	o := SourceObservation{
		JobID: "j", JobName: "orders", VertexID: "v", VertexName: "Source: Kafka", JobStart: started, Led: true, Topics: []string{"orders"},
	}
	for i, out := range s.out {
		e := Execution{
			ExecutionKey: ExecutionKey{"tm", lineage.AttemptID(fmt.Sprintf("%032x_%032x_%d_%d", s.graph, 1, i, s.attempt))},
			Reporter:     fmt.Sprintf("http://tm-%d:9249", i), RecordsOut: out,
		}
		for p, offset := range s.position {
			if p%len(s.out) == i {
				e.Partitions = append(e.Partitions, lineage.PartitionProgress{Topic: "orders", Partition: p, Offset: offset})
			}
		}
		o.Executions = append(o.Executions, e)
	}
	if s.commits != nil {
		o.Committed = map[TopicPartition]int64{}
		for p, offset := range s.commits {
			if offset >= 0 {
				o.Committed[TopicPartition{"orders", int32(p)}] = offset
			}
		}
	}
	if s.change != nil {
		s.change(&o)
	}
	return o
}

func (s *scrape) produced() map[string]TopicEnd {
	if s.noKafka {
		return nil
	}
	t := TopicEnd{Partitions: map[int32]PartitionEnd{}}
	for p, end := range s.end {
		t.Partitions[int32(p)] = PartitionEnd{End: end, Stable: end}
	}
	return map[string]TopicEnd{"orders": t, "returns": t}
}

func (l *Ledger) observeOne(t *testing.T, s scrape) Balance {
	t.Helper()
	balances := l.Observe(epoch.Add(time.Duration(s.at)*time.Second), []SourceObservation{s.observation()}, s.produced())
	if len(balances) != 1 {
		t.Fatalf("%d balances of one source", len(balances))
	}
	return balances[0]
}

// steadily makes scrapes every 30 seconds from one time to another, in which values grow by these rates per second.
func steadily(from, to int, base scrape, out, end, position float64) []scrape {
	var scrapes []scrape
	for at := from; at <= to; at += 30 {
		s := base
		s.at = at
		dt := float64(at - from)
		s.out, s.end, s.position, s.commits = nil, nil, nil, nil
		for _, x := range base.out {
			s.out = append(s.out, x+out*dt/float64(len(base.out)))
		}
		for _, x := range base.end {
			s.end = append(s.end, x+int64(end*dt/float64(len(base.end))))
		}
		for _, x := range base.position {
			s.position = append(s.position, x+position*dt/float64(len(base.position)))
		}
		for _, x := range base.commits {
			s.commits = append(s.commits, x+int64(position*dt/float64(len(base.commits))))
		}
		scrapes = append(scrapes, s)
	}
	return scrapes
}

func then(parts ...[]scrape) []scrape {
	var all []scrape
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func TestBalance(t *testing.T) {
	beam := scrape{out: []float64{0, 0}, end: []int64{1000, 1000, 1000, 1000}}
	flink := beam
	flink.position = []float64{999, 999, 999, 999}
	group := beam
	group.commits = []int64{1000, 1000, 1000, 1000}
	with := func(s scrape, change func(*scrape)) scrape {
		change(&s)
		return s
	}
	change := func(s scrape, f func(*SourceObservation)) scrape { return with(s, func(s *scrape) { s.change = f }) }
	tests := []struct {
		name    string
		scrapes []scrape
		why     Why
		ratio   float64
		basis   Basis
		void    Void
	}{
		{"healthy source without positions", steadily(0, 300, beam, 10, 10, 0), "", 1, BasisProduced, VoidFirst},
		{"healthy after half a window", steadily(0, 150, beam, 10, 10, 0), "", 1, BasisProduced, VoidFirst},
		{"less than half a window", steadily(0, 120, beam, 10, 10, 0), WhyWindow, 0, BasisProduced, VoidFirst},
		{"a Flink that counts twice, and once is not asked for its version", then(
			steadily(0, 570, change(beam, func(o *SourceObservation) { o.FlinkVersion = "1.17.0" }), 20, 10, 0),
			steadily(600, 600, scrape{out: []float64{5700, 5700}, end: []int64{2425, 2425, 2425, 2425}}, 20, 10, 0),
		), WhyMiscounted, 0, "", VoidFirst},
		{"the release after it", steadily(0, 300, change(beam, func(o *SourceObservation) { o.FlinkVersion = "1.17.1" }), 10, 10, 0), "", 1, BasisProduced, VoidFirst},
		{"first scrape", steadily(0, 0, beam, 10, 10, 0), WhyWindow, 0, BasisProduced, VoidFirst},
		{"Beam reads twice, two windows", steadily(0, 600, beam, 20, 10, 0), "", 2, BasisProduced, VoidFirst},
		{"Beam reads twice, but one window could be a backlog", steadily(0, 570, beam, 20, 10, 0), WhyBacklog, 0, BasisProduced, VoidFirst},
		{"half of the records are filtered", steadily(0, 300, beam, 5, 10, 0), "", 0.5, BasisProduced, VoidFirst},
		{"idle topic", steadily(0, 600, beam, 0, 0, 0), WhyRecords, 0, BasisProduced, VoidFirst},
		{"too few records", steadily(0, 600, beam, 0.05, 0.05, 0), WhyRecords, 0, BasisProduced, VoidFirst},
		{"backlog of unknown size read within a window", then(
			steadily(0, 240, beam, 40, 10, 0),
			steadily(270, 900, scrape{out: []float64{4950, 4950}, end: []int64{1675, 1675, 1675, 1675}}, 10, 10, 0),
		), "", 1, BasisProduced, VoidFirst},
		{"backlog of unknown size, while it lasts", steadily(0, 480, beam, 40, 10, 0), WhyBacklog, 0, BasisProduced, VoidFirst},
		{"stands still, then reads what piled up, for longer than a window", then(
			steadily(0, 1200, beam, 0, 10, 0),
			steadily(1230, 2400, scrape{out: []float64{150, 150}, end: []int64{4075, 4075, 4075, 4075}}, 15, 10, 0),
		), "", 1, BasisProduced, VoidFirst},
		{"stands still, then reads what piled up twice", then(
			steadily(0, 60, beam, 0, 10, 0),
			steadily(90, 1200, scrape{out: []float64{150, 150}, end: []int64{1225, 1225, 1225, 1225}}, 20, 10, 0),
		), "", 2, BasisProduced, VoidFirst},

		{"healthy source with positions", steadily(0, 300, flink, 10, 10, 10), "", 1, BasisPositions, VoidFirst},
		{"read twice: known after half a window", steadily(0, 150, flink, 20, 10, 10), "", 2, BasisPositions, VoidFirst},
		{"catches up with a known backlog", steadily(0, 300, with(flink, func(s *scrape) { s.position = []float64{0, 10, 20, 30} }), 40, 10, 40), "", 1, BasisPositions, VoidFirst},
		{"catches up with a known backlog, everything twice", steadily(0, 300, with(flink, func(s *scrape) { s.position = []float64{0, 10, 20, 30} }), 80, 10, 40), "", 2, BasisPositions, VoidFirst},
		{"reads twice, but falls behind", steadily(0, 300, flink, 10, 10, 5), "", 2, BasisPositions, VoidFirst},
		{"nothing produced, but a backlog read", steadily(0, 300, with(flink, func(s *scrape) { s.position = []float64{0, 0, 0, 0} }), 10, 0, 10), "", 1, BasisPositions, VoidFirst},
		{"a partition of which nothing was ever read", steadily(0, 300, with(flink, func(s *scrape) {
			s.position = []float64{999, 999, -1000000, 999}
		}), 7.5, 7.5, 10), "", 1, BasisPositions, VoidFirst},
		{"first record of a partition: what came before does not tell", then(
			steadily(0, 300, with(flink, func(s *scrape) { s.position[3] = -1 }), 0, 0, 0),
			steadily(330, 450, with(flink, func(s *scrape) { s.position = []float64{999, 999, 999, 5} }), 10, 10, 10),
		), "", 1, BasisProduced, VoidFirst},

		{"healthy by committed offsets", steadily(0, 300, group, 10, 10, 10), "", 1, BasisCommitted, VoidFirst},
		{"read twice by committed offsets", steadily(0, 150, group, 20, 10, 10), "", 2, BasisCommitted, VoidFirst},
		{"catches up by committed offsets", steadily(0, 300, with(group, func(s *scrape) { s.commits = []int64{0, 0, 0, 0} }), 40, 10, 40), "", 1, BasisCommitted, VoidFirst},
		{"a group that never commits tells nothing", steadily(0, 600, group, 20, 10, 0), "", 2, BasisProduced, VoidFirst},
		{"a group without offsets", steadily(0, 300, with(group, func(s *scrape) { s.commits = []int64{-1, -1, -1, -1} }), 10, 10, 0), "", 1, BasisProduced, VoidFirst},
		{"a partition read, but not committed yet", steadily(0, 300, with(group, func(s *scrape) { s.commits = []int64{1000, 1000, 1000, -1000000} }), 10, 10, 7.5), "", 1, BasisProduced, VoidFirst},

		{"restart of the tasks", then(
			steadily(0, 300, beam, 10, 10, 0),
			steadily(330, 450, scrape{attempt: 1, out: []float64{0, 0}, end: []int64{1825, 1825, 1825, 1825}}, 10, 10, 0),
		), WhyWindow, 0, BasisProduced, VoidRestart},
		{"restart, and the window is full again", then(
			steadily(0, 300, beam, 10, 10, 0),
			steadily(330, 480, scrape{attempt: 1, out: []float64{0, 0}, end: []int64{1825, 1825, 1825, 1825}}, 10, 10, 0),
		), "", 1, BasisProduced, VoidRestart},
		{"replay from a checkpoint, positions known", then(
			steadily(0, 300, flink, 10, 10, 10),
			steadily(330, 480, scrape{attempt: 1, out: []float64{0, 0}, end: []int64{1825, 1825, 1825, 1825}, position: []float64{1500, 1500, 1500, 1500}}, 18, 10, 18),
		), "", 1, BasisPositions, VoidRestart},
		{"same attempts, another start of the job", then(
			steadily(0, 300, beam, 10, 10, 0),
			steadily(330, 360, change(scrape{out: []float64{1650, 1650}, end: []int64{1825, 1825, 1825, 1825}},
				func(o *SourceObservation) { o.JobStart = started.Add(time.Hour) }), 10, 10, 0),
		), WhyWindow, 0, BasisProduced, VoidRestart},
		{"a leader that is not seen is no restart", then(
			steadily(0, 300, beam, 10, 10, 0),
			steadily(330, 360, change(scrape{out: []float64{1650, 1650}, end: []int64{1825, 1825, 1825, 1825}},
				func(o *SourceObservation) { o.JobStart, o.Led = time.Time{}, false }), 10, 10, 0),
			steadily(390, 390, scrape{out: []float64{1950, 1950}, end: []int64{1975, 1975, 1975, 1975}}, 10, 10, 0),
		), "", 1, BasisProduced, VoidFirst},
		{"a counter goes back", then(
			steadily(0, 300, beam, 10, 10, 0),
			steadily(330, 390, scrape{out: []float64{5, 1650}, end: []int64{1825, 1825, 1825, 1825}}, 10, 10, 0),
		), WhyWindow, 0, BasisProduced, VoidCounter},
		{"partitions added", then(
			steadily(0, 300, beam, 10, 10, 0),
			steadily(330, 330, scrape{out: []float64{1650, 1650}, end: []int64{1825, 1825, 1825, 1825, 0}}, 10, 10, 0),
		), WhyWindow, 0, BasisProduced, VoidTopics},
		{"other topics with as many partitions", then(
			steadily(0, 300, beam, 10, 10, 0),
			steadily(330, 330, change(scrape{out: []float64{1650, 1650}, end: []int64{1825, 1825, 1825, 1825}},
				func(o *SourceObservation) { o.Topics = []string{"returns"} }), 10, 10, 0),
		), WhyWindow, 0, BasisProduced, VoidTopics},
		{"a partition that the brokers do not list", steadily(0, 300, with(flink, func(s *scrape) {
			s.position = []float64{999, 999, 999, 999, 999}
		}), 10, 10, 10), WhyProduced, 0, "", VoidFirst},
		{"a source that stops telling its positions", then(
			steadily(0, 300, flink, 10, 10, 10),
			steadily(330, 330, scrape{out: []float64{1650, 1650}, end: []int64{1825, 1825, 1825, 1825}}, 10, 10, 0),
		), WhyWindow, 0, BasisProduced, VoidTopics},
		{"stands still for a window, reads half of what piled up in the next, and more than that in the third", then(
			steadily(0, 300, beam, 0, 10, 0),
			steadily(330, 600, scrape{out: []float64{225, 225}, end: []int64{1825, 1825, 1825, 1825}}, 15, 10, 0),
			steadily(630, 900, scrape{out: []float64{2700, 2700}, end: []int64{2575, 2575, 2575, 2575}}, 30, 10, 0),
		), WhyBacklog, 0, BasisProduced, VoidFirst},
		{"a window with next to no records before one with many", then(
			steadily(0, 300, beam, 0.01, 0.01, 0),
			steadily(330, 630, scrape{out: []float64{2, 2}, end: []int64{1001, 1001, 1001, 1001}}, 20, 10, 0),
		), WhyBacklog, 0, BasisProduced, VoidFirst},
		{"topic created anew", then(
			steadily(0, 300, beam, 10, 10, 0),
			steadily(330, 330, scrape{out: []float64{1650, 1650}, end: []int64{10, 1825, 1825, 1825}}, 10, 10, 0),
		), WhyWindow, 0, BasisProduced, VoidRecreated},
		{"position goes back without a restart", then(
			steadily(0, 300, flink, 10, 10, 10),
			steadily(330, 330, scrape{out: []float64{1650, 1650}, end: []int64{1825, 1825, 1825, 1825}, position: []float64{5, 1824, 1824, 1824}}, 10, 10, 10),
		), WhyWindow, 0, BasisProduced, VoidPosition},
		{"commits go back without a restart: two readers in turns", then(
			steadily(0, 300, group, 20, 10, 10),
			steadily(330, 330, scrape{out: []float64{3300, 3300}, end: []int64{1825, 1825, 1825, 1825}, commits: []int64{1825, 1820, 1825, 1825}}, 10, 10, 10),
		), "", 2, BasisCommitted, VoidFirst},
		{"nothing to see for longer than a window", then(
			steadily(0, 300, beam, 10, 10, 0),
			steadily(630, 630, scrape{out: []float64{3150, 3150}, end: []int64{2575, 2575, 2575, 2575}}, 10, 10, 0),
		), WhyWindow, 0, BasisProduced, VoidGap},
		{"the clock goes back", then(
			steadily(0, 300, beam, 10, 10, 0),
			steadily(10, 10, scrape{out: []float64{1650, 1650}, end: []int64{1825, 1825, 1825, 1825}}, 10, 10, 0),
		), WhyWindow, 0, BasisProduced, VoidClock},
		{"an old execution goes on beside its successor", then(
			steadily(0, 300, flink, 10, 10, 10),
			steadily(330, 600, scrape{graph: 7, out: []float64{0, 0}, end: []int64{1825, 1825, 1825, 1825}, position: []float64{1824, 1824, 1824, 1824},
				change: func(o *SourceObservation) {
					o.JobStart = started.Add(time.Hour)
					for _, e := range o.Executions[:2] {
						e.Attempt = "old" + e.Attempt
						o.Executions = append(o.Executions, e)
					}
				}}, 10, 10, 10),
		), "", 2, BasisPositions, VoidRestart},

		{"brokers do not answer now", then(
			steadily(0, 300, beam, 10, 10, 0),
			[]scrape{{at: 330, out: []float64{1650, 1650}, noKafka: true}},
		), WhyProduced, 0, "", VoidFirst},
		{"brokers answered again", then(
			steadily(0, 300, beam, 10, 10, 0),
			[]scrape{{at: 330, out: []float64{1650, 1650}, noKafka: true}, {at: 360, out: []float64{1800, 1800}, end: []int64{1900, 1900, 1900, 1900}}},
		), "", 1, BasisProduced, VoidFirst},
		{"brokers answered only after records came out", then(
			[]scrape{{out: []float64{0, 0}, noKafka: true}},
			steadily(30, 300, scrape{out: []float64{5000, 5000}, end: []int64{1000}}, 10, 10, 0),
		), "", 1, BasisProduced, VoidFirst},
		{"topics are not known", []scrape{change(beam, func(o *SourceObservation) { o.Topics, o.TopicsErr = nil, ErrTopicsUnknown })}, WhyTopics, 0, "", VoidFirst},
		{"the leader has an execution that nobody shows", then(
			steadily(0, 300, beam, 10, 10, 0),
			[]scrape{change(scrape{at: 330, out: []float64{1650}, end: []int64{1825, 1825, 1825, 1825}}, func(o *SourceObservation) { o.Missing = 1 })},
		), WhyExecutions, 0, "", VoidFirst},
		{"a reporter does not answer for a while", then(
			steadily(0, 300, beam, 10, 10, 0),
			[]scrape{change(scrape{at: 330, out: []float64{1650}, end: []int64{1825, 1825, 1825, 1825}},
				func(o *SourceObservation) { o.Unread = []string{"http://tm-1:9249"} })},
		), WhyExecutions, 0, "", VoidFirst},
		{"and answers again", then(
			steadily(0, 300, beam, 10, 10, 0),
			[]scrape{
				change(scrape{at: 330, out: []float64{1650}, end: []int64{1825, 1825, 1825, 1825}},
					func(o *SourceObservation) { o.Unread = []string{"http://tm-1:9249"} }),
				{at: 360, out: []float64{1800, 1800}, end: []int64{1900, 1900, 1900, 1900}},
			},
		), "", 1, BasisProduced, VoidFirst},
		{"a reporter that never answers has nothing to do with it", steadily(0, 300, change(beam, func(o *SourceObservation) {
			o.Unread = []string{"http://other:9249"}
		}), 10, 10, 0), "", 1, BasisProduced, VoidFirst},
		{"a reporter that never answers again is given up after a window", then(
			steadily(0, 300, beam, 10, 10, 0),
			steadily(330, 780, change(scrape{out: []float64{1650}, end: []int64{1825}}, func(o *SourceObservation) {
				o.Unread = []string{"http://tm-1:9249"}
			}), 10, 10, 0),
		), "", 1, BasisProduced, VoidRestart},
		{"read committed: the open transaction does not count", steadily(0, 300, change(beam, func(o *SourceObservation) { o.ReadCommitted = true }), 10, 10, 0), "", 1, BasisProduced, VoidFirst},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := New(5 * time.Minute)
			var b Balance
			for _, s := range test.scrapes {
				b = l.observeOne(t, s)
			}
			if b.Valid != (test.why == "") || b.Why != test.why {
				t.Errorf("valid %t because %q, want %q", b.Valid, b.Why, test.why)
			}
			if math.Abs(b.Ratio-test.ratio) > 0.01 {
				t.Errorf("ratio %g, want %g", b.Ratio, test.ratio)
			}
			if b.Basis != test.basis || b.Void != test.void {
				t.Errorf("basis %q, void %q, want %q, %q", b.Basis, b.Void, test.basis, test.void)
			}
			if t.Failed() {
				t.Logf("%+v", b)
			}
		})
	}
}

func TestReadCommittedTakesTheStableOffset(t *testing.T) {
	for committed, want := range map[bool]float64{true: 2, false: 1} {
		l := New(time.Minute)
		var b Balance
		for i := range 5 {
			s := scrape{at: 30 * i, out: []float64{float64(600 * i)}, position: nil, end: []int64{0}}
			o := s.observation()
			o.ReadCommitted = committed
			end := map[string]TopicEnd{"orders": {Partitions: map[int32]PartitionEnd{0: {End: int64(600 * i), Stable: int64(300 * i)}}}}
			b = l.Observe(epoch.Add(time.Duration(s.at)*time.Second), []SourceObservation{o}, end)[0]
		}
		if !b.Valid || b.Ratio != want {
			t.Errorf("read committed %t: %+v, want ratio %g", committed, b, want)
		}
	}
}

func TestLowerOfTwoWindows(t *testing.T) {
	for _, test := range []struct{ before, last, want float64 }{{3, 1.5, 1.5}, {1.5, 3, 1.5}, {2, 1, 1}, {1, 2, 0}, {0.5, 3, 0}} {
		l := New(5 * time.Minute)
		var b Balance
		for at, out := 0, 0.0; at <= 600; at += 30 {
			b = l.observeOne(t, scrape{at: at, out: []float64{out}, end: []int64{int64(10 * at)}})
			if at < 300 {
				out += 300 * test.before
			} else {
				out += 300 * test.last
			}
		}
		switch {
		case test.before < 1:
			// What was left unread in the first window is a backlog that was seen to build up.
			if b.Valid || b.Why != WhyBacklog || b.Backlog != 1500 {
				t.Errorf("%+v: %+v", test, b)
			}
		case b.Valid != (test.want > 0) || b.Ratio != test.want:
			t.Errorf("%+v: %+v", test, b)
		}
	}
}

func TestRecordsTotal(t *testing.T) {
	l := New(0)
	gone := func(o *SourceObservation) { o.Executions = o.Executions[:1] }
	for _, step := range []struct {
		name string
		scrape
		want float64
	}{
		{"as found", scrape{out: []float64{100, 50}}, 150},
		{"more", scrape{at: 1, out: []float64{110, 50}}, 160},
		{"one is not seen", scrape{at: 2, out: []float64{120, 0}, change: gone}, 170},
		{"and comes back", scrape{at: 3, out: []float64{120, 70}}, 190},
		{"restart", scrape{at: 4, attempt: 1, out: []float64{5, 0}}, 195},
		{"a counter is reset", scrape{at: 5, attempt: 1, out: []float64{2, 1}}, 198},
		{"not known whose start", scrape{at: 6, attempt: 1, out: []float64{3, 1}, change: func(o *SourceObservation) { o.TopicsErr = errors.New("ambiguous") }}, 199},
		{"orphans", scrape{at: 7, attempt: 1, out: []float64{3, 1}, change: func(o *SourceObservation) {
			o.Executions = append(o.Executions, Execution{ExecutionKey: ExecutionKey{"tm", "orphan"}, RecordsOut: 10})
		}}, 209},
		{"the same attempt on two TaskManagers", scrape{at: 8, attempt: 1, out: []float64{3, 1}, change: func(o *SourceObservation) {
			o.Executions = append(o.Executions, Execution{ExecutionKey: ExecutionKey{"other", "orphan"}, RecordsOut: 10})
		}}, 219},
	} {
		step.noKafka = true
		if b := l.observeOne(t, step.scrape); b.RecordsTotal != step.want {
			t.Errorf("%s: %g, want %g", step.name, b.RecordsTotal, step.want)
		}
	}
}

func TestNamesAreTheLeaders(t *testing.T) {
	l := New(0)
	reporter := func(o *SourceObservation) { o.JobName, o.VertexName, o.Led = "ord_ers", "Source:_Kafka", false }
	if b := l.observeOne(t, scrape{out: []float64{1}, change: reporter}); b.JobName != "ord_ers" {
		t.Errorf("%+v", b)
	}
	l.observeOne(t, scrape{at: 1, out: []float64{1}})
	b := l.observeOne(t, scrape{at: 2, out: []float64{1}, change: func(o *SourceObservation) { reporter(o); o.Topics, o.TopicsErr = nil, ErrTopicsUnknown }})
	if b.JobName != "orders" || b.VertexName != "Source: Kafka" || b.Topic != "orders" {
		t.Errorf("labels change with the leader: %+v", b)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	l := New(5 * time.Minute)
	for i := range 1000 { // scraped every second, with executions that last 10 s
		l.observeOne(t, scrape{at: i, graph: i / 10, out: []float64{1}, end: []int64{int64(i)}})
	}
	a := l.sources[sourceKey{"j", "v"}]
	if n := len(a.samples); n > 4*samplesPerWindow+2 {
		t.Errorf("%d samples", n)
	}
	for i := range 3 {
		l.observeOne(t, scrape{at: 3000 + i, graph: 10000 + i, out: make([]float64, maxGone), noKafka: true})
	}
	l.observeOne(t, scrape{at: 3003, out: []float64{1}, noKafka: true})
	if n := len(a.counts.executions); n > maxGone+1 {
		t.Errorf("%d executions", n)
	}
	l.observeOne(t, scrape{at: 200_000, out: []float64{1}, noKafka: true})
	if n := len(l.sources[sourceKey{"j", "v"}].counts.executions); n != 1 {
		t.Errorf("%d executions after two days", n)
	}

	var many []SourceObservation
	for i := range maxSources + 10 {
		s := scrape{out: []float64{1}}
		o := s.observation()
		o.VertexID = fmt.Sprint(i)
		many = append(many, o)
	}
	l.Observe(epoch.Add(200_001*time.Second), many, nil)
	if len(l.sources) != maxSources || l.sources[sourceKey{"j", "v"}] != nil {
		t.Errorf("%d sources", len(l.sources))
	}
	l.Observe(epoch.Add(400_000*time.Second), nil, nil)
	if len(l.sources) != 0 {
		t.Errorf("%d sources after two days without any", len(l.sources))
	}
}

func TestSamplesAreBoundedInOneLongComparison(t *testing.T) {
	l := New(5 * time.Minute)
	for i := range 1500 {
		l.observeOne(t, scrape{at: i, out: []float64{float64(10 * i)}, end: []int64{int64(10 * i)}})
	}
	a := l.sources[sourceKey{"j", "v"}]
	if n := len(a.samples); n > 4*samplesPerWindow+2 || n < 2*samplesPerWindow {
		t.Errorf("%d samples", n)
	}
}

func TestObserveTakesASourceOnceAndSorts(t *testing.T) {
	s := scrape{out: []float64{1}}
	one, two := s.observation(), s.observation()
	two.JobID = "a"
	balances := New(0).Observe(epoch, []SourceObservation{one, two, one}, nil)
	if len(balances) != 2 || balances[0].JobID != "a" || balances[1].RecordsTotal != 1 {
		t.Errorf("%+v", balances)
	}
}

func TestTopicLabel(t *testing.T) {
	o := SourceObservation{Topics: []string{"a", "b"}}
	if got := o.topicLabel(); got != strings.Join(o.Topics, ",") || got != "a,b" {
		t.Errorf("label %q", got)
	}
}
