package ledger

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/flink-lineage/flink-lineage-exporter/internal/lineage"
)

// pipeline is a model of a topic and the executions that read it, with the truth about every record.
type pipeline struct {
	*rand.Rand
	now        time.Time
	ends, read []int64   // by partition
	out        []float64 // by execution
	copies     int64     // how often each record is sent
	graph      int
}

func newPipeline(seed uint64, copies int64) *pipeline {
	r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // must be repeatable
	p := &pipeline{Rand: r, now: epoch, copies: copies, ends: make([]int64, 1+r.IntN(12)), out: make([]float64, 1+r.IntN(6))}
	p.read = make([]int64, len(p.ends))
	for i := range p.ends {
		p.ends[i] = 1 + r.Int64N(10000)
		p.read[i] = p.ends[i]
	}
	return p
}

// step lets time pass: up to produce records are produced to each partition, and up to consume are read, as far as there are.
func (p *pipeline) step(d time.Duration, produce, consume int64) {
	p.now = p.now.Add(d)
	for i := range p.ends {
		p.ends[i] += p.Int64N(produce + 1)
		n := max(0, min(p.ends[i]-p.read[i], consume))
		p.read[i] += n
		p.out[i%len(p.out)] += float64(n * p.copies)
	}
}

func (p *pipeline) restart(replay int64) {
	p.graph++
	clear(p.out)
	for i := range p.read {
		p.read[i] = max(1, p.read[i]-replay)
	}
}

func (p *pipeline) observation(positions bool) SourceObservation {
	o := SourceObservation{JobID: "j", VertexID: "v", Led: true, JobStart: started, Topics: []string{"orders"}}
	for i, out := range p.out {
		o.Executions = append(o.Executions, Execution{
			ExecutionKey: ExecutionKey{"tm", lineage.AttemptID(fmt.Sprintf("%d_%d", p.graph, i))}, RecordsOut: out,
		})
	}
	for i := range p.read {
		if e := &o.Executions[i%len(p.out)]; positions {
			e.Partitions = append(e.Partitions, lineage.PartitionProgress{Topic: "orders", Partition: i, Offset: float64(p.read[i] - 1)})
		}
	}
	return o
}

func (p *pipeline) produced() map[string]TopicEnd {
	t := TopicEnd{Partitions: map[int32]PartitionEnd{}}
	for i, end := range p.ends {
		t.Partitions[int32(i)] = PartitionEnd{End: end, Stable: end}
	}
	return map[string]TopicEnd{"orders": t}
}

func (p *pipeline) scrape(l *Ledger, positions bool) Balance {
	return l.Observe(p.now, []SourceObservation{p.observation(positions)}, p.produced())[0]
}

const seeds = 25

// With positions the ratio is the truth whatever is produced, caught up with, replayed or restarted.
func TestRatioIsTheTruthWithPositions(t *testing.T) {
	for seed := range uint64(seeds) {
		copies := 1 + int64(seed%3)
		p, l := newPipeline(seed, copies), New(5*time.Minute)
		valid := 0
		for range 200 {
			p.step(time.Duration(1+p.IntN(60))*time.Second, p.Int64N(200), p.Int64N(300))
			if p.IntN(40) == 0 {
				p.restart(p.Int64N(2000))
			}
			b := p.scrape(l, true)
			if !b.Valid {
				continue
			}
			if b.Basis == BasisProduced {
				if copies == 1 && b.Ratio > 1+tolerance {
					t.Fatalf("seed %d: %+v", seed, b)
				}
				continue
			}
			valid++
			if b.Ratio != float64(copies) {
				t.Fatalf("seed %d: %+v, every record is sent %d times", seed, b, copies)
			}
		}
		if valid == 0 {
			t.Errorf("seed %d: no balance", seed)
		}
	}
}

// Without positions a backlog that is read within a window after a restart, and one that builds up later, is never taken for double work.
func TestNeverCriesWolfWithoutPositions(t *testing.T) {
	for seed := range uint64(seeds) {
		p, l := newPipeline(seed, 1), New(5*time.Minute)
		valid := 0
		for range 8 {
			p.restart(p.Int64N(1000)) // at 100 records read every 10 s, caught up with in less than three minutes
			for range 30 + p.IntN(60) {
				p.step(10*time.Second, 30, 100)
				if b := p.scrape(l, false); b.Valid {
					valid++
					if b.Ratio > 1+tolerance {
						t.Fatalf("seed %d: %+v", seed, b)
					}
				}
			}
			for range p.IntN(60) {
				p.step(10*time.Second, 30, p.Int64N(20)) // slower than records are produced, and faster afterwards
				if b := p.scrape(l, false); b.Valid && b.Ratio > 1+tolerance {
					t.Fatalf("seed %d: %+v", seed, b)
				}
			}
		}
		if valid == 0 {
			t.Errorf("seed %d: no balance", seed)
		}
	}
}

// Beam's double readers show no positions: found two windows after the restart, for as long as they go on, and gone with the next restart.
func TestFindsDoubleWorkWithoutPositions(t *testing.T) {
	for seed := range uint64(seeds) {
		p, l := newPipeline(seed, 2), New(5*time.Minute)
		for i := range 200 {
			p.step(10*time.Second, 30, 1000)
			b := p.scrape(l, false)
			if i >= 60 && (!b.Valid || b.Ratio != 2) {
				t.Fatalf("seed %d: scrape %d: %+v", seed, i, b)
			}
		}
		p.restart(500)
		p.copies = 1
		for i := range 100 {
			p.step(10*time.Second, 30, 1000)
			b := p.scrape(l, false)
			if b.Valid && b.Ratio > 1+tolerance || i >= 60 && !b.Valid {
				t.Fatalf("seed %d: scrape %d after the restart: %+v", seed, i, b)
			}
		}
	}
}

// The order of sources, executions and partitions changes nothing.
func TestOrderChangesNothing(t *testing.T) {
	for seed := range uint64(seeds) {
		p, one, two := newPipeline(seed, 2), New(time.Minute), New(time.Minute)
		for range 30 {
			p.step(10*time.Second, 100, 150)
			sources, shuffled := []SourceObservation{}, []SourceObservation{}
			for i := range 3 {
				o, s := p.observation(i > 0), p.observation(i > 0)
				o.VertexID, s.VertexID = fmt.Sprint(i), fmt.Sprint(i)
				p.Shuffle(len(s.Executions), func(a, b int) { s.Executions[a], s.Executions[b] = s.Executions[b], s.Executions[a] })
				for _, e := range s.Executions {
					p.Shuffle(len(e.Partitions), func(a, b int) { e.Partitions[a], e.Partitions[b] = e.Partitions[b], e.Partitions[a] })
				}
				sources, shuffled = append(sources, o), append(shuffled, s)
			}
			p.Shuffle(len(shuffled), func(a, b int) { shuffled[a], shuffled[b] = shuffled[b], shuffled[a] })
			want, got := one.Observe(p.now, sources, p.produced()), two.Observe(p.now, shuffled, p.produced())
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d: %+v, want %+v", seed, got, want)
			}
		}
	}
}

// More scrapes in between change nothing.
func TestSplittingAWindowChangesNothing(t *testing.T) {
	for seed := range uint64(seeds) {
		p, few, many := newPipeline(seed, 1+int64(seed%2)), New(5*time.Minute), New(5*time.Minute)
		for i := range 100 {
			for range p.IntN(5) {
				p.step(6*time.Second, 20, 60) // at least the distance at which samples are kept
				p.scrape(many, true)
			}
			p.now = epoch.Add(time.Duration(i+1) * 30 * time.Second)
			p.step(0, 50, 80)
			want, got := p.scrape(few, true), p.scrape(many, true)
			want.Since, got.Since = time.Time{}, time.Time{}
			// A scrape in between can be the first.
			if i > 10 && !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d: scrape %d: %+v, want %+v", seed, i, got, want)
			}
		}
	}
}

// Doubling what comes out doubles the ratio and nothing else.
func TestDoublingDoubles(t *testing.T) {
	for seed := range uint64(seeds) {
		p, single, double := newPipeline(seed, 1), New(5*time.Minute), New(5*time.Minute)
		for range 50 {
			p.step(30*time.Second, p.Int64N(100), p.Int64N(150))
			o, twice := p.observation(true), p.observation(true)
			for i := range twice.Executions {
				twice.Executions[i].RecordsOut *= 2
			}
			want := single.Observe(p.now, []SourceObservation{o}, p.produced())[0]
			got := double.Observe(p.now, []SourceObservation{twice}, p.produced())[0]
			if want.Basis != BasisPositions {
				continue
			}
			want.Ratio, want.RecordsOut, want.RecordsTotal = 2*want.Ratio, 2*want.RecordsOut, 2*want.RecordsTotal
			if got != want {
				t.Fatalf("seed %d: %+v, want %+v", seed, got, want)
			}
		}
	}
}

// The total never decreases, whatever happens, and the ledger survives nonsense.
func FuzzLedger(f *testing.F) {
	f.Add(uint64(1), []byte{1, 2, 3, 4, 5, 6, 7, 8})
	f.Add(uint64(2), []byte{0, 250, 0, 3, 200, 1, 1, 1, 90, 90})
	f.Fuzz(func(t *testing.T, seed uint64, steps []byte) {
		p, l := newPipeline(seed, 1), New(time.Minute)
		total := 0.0
		for _, s := range steps[:min(len(steps), 200)] {
			switch s % 8 {
			case 0:
				p.restart(int64(s))
			case 1:
				p.now = p.now.Add(-time.Duration(s) * time.Second)
			case 2:
				p.ends[int(s)%len(p.ends)] /= 2
			case 3:
				p.ends, p.read = append(p.ends, 0), append(p.read, 0)
			case 4:
				p.out[0] /= 2
			default:
				p.step(time.Duration(s)*time.Second, int64(s), int64(s))
			}
			o := p.observation(s%3 == 0)
			if s%5 == 0 {
				o.Executions = o.Executions[1:]
				o.Missing = int(s % 2)
			}
			if s%7 == 0 {
				o.Committed = map[TopicPartition]int64{{"orders", 0}: int64(s)}
			}
			b := l.Observe(p.now, []SourceObservation{o}, p.produced())[0]
			if b.RecordsTotal < total || b.RecordsTotal-b.RecordsTotal != 0 {
				t.Fatalf("total %g after %g", b.RecordsTotal, total)
			}
			total = b.RecordsTotal
			if b.Valid != (b.Why == "") || b.Valid && (b.Ratio < 0 || b.Ratio-b.Ratio != 0 || b.Span < 30*time.Second) || !b.Valid && b.Ratio != 0 {
				t.Fatalf("%+v", b)
			}
		}
	})
}
