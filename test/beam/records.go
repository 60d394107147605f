package beam

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Production says what to produce. Count or For bounds it.
type Production struct {
	Topic string        // "" for the first one
	Rate  int           // records per second, 5
	Count int           // records, 0 for no such bound
	For   time.Duration // 0 for no such bound

	Partitions int // to the first so many partitions only, 0 for all
}

// Produced is what a production wrote: one record for each id of First to Last, none if Last is before First.
type Produced struct {
	First, Last int64
	Begin, End  time.Time // of the first and after the last record
}

// ids gives out the ids of a Run, 1, 2, 3, ..., and knows when each record was produced.
type ids struct {
	mu    sync.Mutex
	times []time.Time // of id i at i-1, ascending; the zero time for a record that failed
}

// Produce produces until a bound is met or ctx is done, which is no error. The value of a record is its id, its partition is the id modulo
// the number of partitions, and its timestamp the moment at which it was made.
func (r *Run) Produce(ctx context.Context, p Production) (Produced, error) {
	if p.Count == 0 && p.For == 0 {
		return Produced{}, errors.New("produce: neither a number nor a time bounds it")
	}
	if p.Topic == "" {
		p.Topic = r.options.Topics[0]
	}
	if p.Rate == 0 {
		p.Rate = 5
	}
	if p.Partitions == 0 {
		p.Partitions = r.options.Partitions
	}
	if p.For > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.For)
		defer cancel()
	}
	tick := time.NewTicker(time.Second / time.Duration(p.Rate))
	defer tick.Stop()
	done := Produced{Begin: time.Now()}
	for n := 0; p.Count == 0 || n < p.Count; n++ {
		select {
		case <-ctx.Done():
			return done, nil
		case <-tick.C:
		}
		id, err := r.produceOne(p.Topic, p.Partitions)
		if err != nil {
			return done, fmt.Errorf("produce record %d to %s: %w", id, p.Topic, err)
		}
		if n == 0 {
			done.First = id
		}
		done.Last, done.End = id, time.Now()
	}
	return done, nil
}

// produceOne does not take the production's context: a record that is on its way when time is up still counts.
func (r *Run) produceOne(topic string, partitions int) (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	r.ids.mu.Lock()
	defer r.ids.mu.Unlock()
	now := time.Now().Truncate(time.Millisecond)
	id := int64(len(r.ids.times) + 1)
	record := &kgo.Record{
		Topic:     topic,
		Partition: int32(id % int64(partitions)),
		Key:       []byte("k" + strconv.FormatInt(id, 10)),
		Value:     strconv.AppendInt(nil, id, 10),
		Timestamp: now,
	}
	if err := r.broker.client.ProduceSync(ctx, record).FirstErr(); err != nil {
		return id, err
	}
	r.ids.times = append(r.ids.times, now)
	return id, nil
}

// Producer produces in the background.
type Producer struct {
	cancel context.CancelFunc
	done   chan struct{}
	result Produced
	err    error
}

// StartProducer produces in the background, until a bound is met or Stop.
func (r *Run) StartProducer(p Production) *Producer {
	ctx, cancel := context.WithCancel(context.Background())
	producer := &Producer{cancel: cancel, done: make(chan struct{})}
	r.producers = append(r.producers, producer)
	go func() {
		defer close(producer.done)
		producer.result, producer.err = r.Produce(ctx, p)
	}()
	return producer
}

// Stop ends the production and returns what it wrote. It may be called again.
func (p *Producer) Stop() (Produced, error) {
	p.cancel()
	<-p.done
	return p.result, p.err
}

// Produced returns how many records were produced in [since, until), all topics together.
func (r *Run) Produced(since, until time.Time) int {
	r.ids.mu.Lock()
	defer r.ids.mu.Unlock()
	at := func(t time.Time) int {
		return sort.Search(len(r.ids.times), func(i int) bool { return !r.ids.times[i].Before(ceil(t)) })
	}
	return max(0, at(until)-at(since))
}

// ceil rounds up to the millisecond, which is what a record's timestamp has.
func ceil(t time.Time) time.Time {
	if floor := t.Truncate(time.Millisecond); !floor.Equal(t) {
		return floor.Add(time.Millisecond)
	}
	return t
}

// Rows counts what became of the records produced in some time.
type Rows struct {
	Produced int // records; 0 where rows were counted by the time of their writing
	IDs      int // of these, in the database
	Rows     int // they have there together
	Doubled  int // ids with more than one row
	Max      int // rows of one id
}

// PerID is how many rows an id has on average, 0 without any.
func (r Rows) PerID() float64 {
	if r.IDs == 0 {
		return 0
	}
	return float64(r.Rows) / float64(r.IDs)
}

func (r Rows) String() string {
	return fmt.Sprintf("%d rows of %d ids (%.2f), %d ids doubled, at most %d rows an id, %d records produced", r.Rows, r.IDs, r.PerID(), r.Doubled, r.Max, r.Produced)
}

// RowsPerID counts the rows of the records that were produced in [since, until), by the records' own timestamps.
func (r *Run) RowsPerID(ctx context.Context, since, until time.Time) (Rows, error) {
	counted := Rows{Produced: r.Produced(since, until)}
	text, err := r.postgres.query(ctx, fmt.Sprintf("select count(*), coalesce(sum(n), 0), count(*) filter (where n > 1), coalesce(max(n), 0) from "+
		"(select count(*) n from rows where id > 0 and produced >= %d and produced < %d group by id) c", ceil(since).UnixMilli(), ceil(until).UnixMilli()))
	if err != nil {
		return counted, err
	}
	return counted, scanRow(text, &counted.IDs, &counted.Rows, &counted.Doubled, &counted.Max)
}

// Written counts the rows that were written at or after since, whenever their records were produced, for a pipeline that is behind.
func (r *Run) Written(ctx context.Context, since time.Time) (Rows, error) {
	var counted Rows
	text, err := r.postgres.query(ctx, fmt.Sprintf("select count(*), coalesce(sum(n), 0), count(*) filter (where n > 1), coalesce(max(n), 0) from "+
		"(select count(*) n from rows where id > 0 and written >= to_timestamp(%d / 1000.0) group by id) c", ceil(since).UnixMilli()))
	if err != nil {
		return counted, err
	}
	return counted, scanRow(text, &counted.IDs, &counted.Rows, &counted.Doubled, &counted.Max)
}

// scanRow reads "1|2|3".
func scanRow(text string, fields ...*int) error {
	parts := strings.Split(text, "|")
	if len(parts) != len(fields) {
		return fmt.Errorf("psql answered %q, want %d numbers", text, len(fields))
	}
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil {
			return fmt.Errorf("psql answered %q: %w", text, err)
		}
		*fields[i] = n
	}
	return nil
}

// WaitRows waits until every record produced in [since, until) is in the database and returns the count.
func (r *Run) WaitRows(ctx context.Context, since, until time.Time) (Rows, error) {
	var rows Rows
	err := r.Cluster.Wait(ctx, "every record is in the database", func(ctx context.Context) (bool, error) {
		var err error
		if rows, err = r.RowsPerID(ctx, since, until); err != nil {
			return false, err
		}
		if rows.IDs < rows.Produced {
			return false, errors.New(rows.String())
		}
		return true, nil
	})
	return rows, err
}

// EndOffsets returns the end offset of each partition of each topic.
func (r *Run) EndOffsets(ctx context.Context) (map[string]map[int32]int64, error) {
	listed, err := r.broker.admin.ListEndOffsets(ctx, r.options.Topics...)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list end offsets: %w", err)
	}
	offsets := map[string]map[int32]int64{}
	for topic, partitions := range listed {
		offsets[topic] = map[int32]int64{}
		for partition, offset := range partitions {
			offsets[topic][partition] = offset.Offset
		}
	}
	return offsets, nil
}
