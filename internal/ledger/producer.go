package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Producer tells how many records were produced so far: what a source reads from. Its methods never block beyond ctx.
type Producer interface {
	// Produced returns the ends of those of the topics that could be read completely. Its error names the others and says why.
	Produced(ctx context.Context, topics []string) (map[string]TopicEnd, error)
}

// TopicLister is a Producer that can name its topics, so that labels of a reporter can be matched with them.
type TopicLister interface {
	// Topics returns the names of all topics.
	Topics(ctx context.Context) ([]string, error)
}

// GroupReader is a Producer that knows how far consumers say they are.
type GroupReader interface {
	// Committed returns the offsets a consumer group committed: the next record to read. Partitions without one are absent.
	Committed(ctx context.Context, group string, topics []string) (map[TopicPartition]int64, error)
}

// TopicPartition is a partition of a topic.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// TopicEnd is how far a topic has been written.
type TopicEnd struct {
	// Partitions has every partition of the topic.
	Partitions map[int32]PartitionEnd
}

// PartitionEnd is how far a partition has been written, in records since its beginning; of Kafka, in offsets.
type PartitionEnd struct {
	// End is the offset of the next record (the high watermark).
	End int64
	// Stable is up to where a reader of committed records gets (the last stable offset): at most End, less while a transaction is open.
	Stable int64
}

// Fetch asks a Producer for what the sources need: it replaces the labels of topics by names, fills in committed offsets, and returns the
// ends of all topics. What cannot be had is left out; the error says what, and the sources without it have no balance.
func Fetch(ctx context.Context, p Producer, sources []SourceObservation) (map[string]TopicEnd, error) {
	var errs []error
	var names []string
	if lister, ok := p.(TopicLister); ok && slices.ContainsFunc(sources, needsNames) {
		var err error
		if names, err = lister.Topics(ctx); err != nil {
			// Without a list no label has a name; a topic that was not looked for is not one that does not exist.
			for i := range sources {
				if needsNames(sources[i]) {
					sources[i].TopicsErr = err
				}
			}
			errs = append(errs, err)
		}
	}
	topics := map[string]bool{}
	for i := range sources {
		o := &sources[i]
		if o.TopicsErr == nil {
			o.resolve(names)
		}
		if o.TopicsErr != nil {
			continue
		}
		for _, topic := range o.Topics {
			topics[topic] = true
		}
	}
	if len(topics) == 0 {
		return nil, errors.Join(errs...)
	}
	produced, err := p.Produced(ctx, slices.Sorted(maps.Keys(topics)))
	errs = append(errs, err)
	if reader, ok := p.(GroupReader); ok && len(produced) > 0 {
		errs = append(errs, fetchCommitted(ctx, reader, sources))
	}
	return produced, errors.Join(errs...)
}

// fetchCommitted asks for each group once.
func fetchCommitted(ctx context.Context, reader GroupReader, sources []SourceObservation) error {
	topics := map[string][]string{}
	for i := range sources {
		if o := &sources[i]; o.Group != "" && o.TopicsErr == nil {
			topics[o.Group] = append(topics[o.Group], o.Topics...)
		}
	}
	var errs []error
	for _, group := range slices.Sorted(maps.Keys(topics)) {
		slices.Sort(topics[group])
		committed, err := reader.Committed(ctx, group, slices.Compact(topics[group]))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for i := range sources {
			o := &sources[i]
			if o.Group != group || o.TopicsErr != nil {
				continue
			}
			o.Committed = map[TopicPartition]int64{}
			for tp, offset := range committed {
				if slices.Contains(o.Topics, tp.Topic) {
					o.Committed[tp] = offset
				}
			}
		}
	}
	return errors.Join(errs...)
}

// ErrTopicsUnknown is why a source has no balance of which nothing says what it reads.
var ErrTopicsUnknown = errors.New("the source does not name its topics: say them with --kafka.source=JOB/VERTEX=TOPIC[,TOPIC]")

func quoted(names []string) string { return fmt.Sprintf("%q", strings.Join(names, ", ")) }
