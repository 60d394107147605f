package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flink-lineage/flink-lineage-exporter/internal/config"
)

const (
	// defaultTimeout bounds a call to brokers that do not answer.
	defaultTimeout = 5 * time.Second
	// topicsMaxAge is how old a list of all topics may be: on a large cluster it is long, and topics seldom come and go.
	topicsMaxAge = time.Minute
)

// Kafka is a Producer: the topics of a Kafka cluster. It is safe for concurrent use. It connects when first asked, again when a connection
// was lost, and never creates a topic.
type Kafka struct {
	brokers string
	timeout time.Duration
	client  *kgo.Client
	admin   *kadm.Client

	mu       sync.Mutex
	topics   []string
	topicsAt time.Time
}

var (
	_ Producer    = (*Kafka)(nil)
	_ TopicLister = (*Kafka)(nil)
	_ GroupReader = (*Kafka)(nil)
)

// NewKafka returns a client for the brokers of a valid configuration. It does not connect to them yet. A call to brokers that do not answer
// ends after timeout, or with its context if that is earlier; 0 is 5 seconds.
func NewKafka(cfg *config.Kafka, timeout time.Duration) (*Kafka, error) {
	timeout = cmp.Or(timeout, defaultTimeout)
	opts := []kgo.Opt{
		kgo.SeedBrokers(cfg.Brokers...),
		kgo.ClientID("flink-lineage-exporter"),
		kgo.Dialer(dialer(cfg.TLS, timeout)),
		// A scrape does not wait: it fails soon, says why, and the next one tries again.
		kgo.RequestRetries(2),
		kgo.RetryTimeout(timeout),
		kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }),
		kgo.RequestTimeoutOverhead(timeout),
		kgo.MetadataMinAge(time.Second),
	}
	mechanism, err := saslMechanism(&cfg.SASL)
	if err != nil {
		return nil, err
	}
	if mechanism != nil {
		opts = append(opts, kgo.SASL(mechanism))
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("kafka client: %w", err)
	}
	return &Kafka{brokers: strings.Join(cfg.Brokers, ","), timeout: timeout, client: client, admin: kadm.NewClient(client)}, nil
}

// Close drops the connections; calls under way fail.
func (k *Kafka) Close() { k.client.Close() }

// Produced returns the end offsets of topics: control records of transactions, aborted and compacted records are among what they count.
func (k *Kafka) Produced(ctx context.Context, topics []string) (map[string]TopicEnd, error) {
	if len(topics) == 0 {
		return nil, nil // without names, all topics would be asked for
	}
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	// In this order a stable offset is never beyond the end.
	stable, err := k.admin.ListCommittedOffsets(ctx, topics...)
	ends := kadm.ListedOffsets{}
	if err == nil || len(stable) > 0 {
		var endErr error
		ends, endErr = k.admin.ListEndOffsets(ctx, topics...)
		err = errors.Join(err, endErr)
	}
	var forbidden *kadm.AuthError
	switch {
	case errors.As(err, &forbidden) && len(topics) > 1:
		return k.oneByOne(ctx, topics)
	case len(ends) == 0 && err != nil:
		return nil, k.errorf(err, "list end offsets")
	}
	produced := make(map[string]TopicEnd, len(topics))
	var errs []error
	for _, topic := range topics {
		end, topicErr := topicEnd(ends[topic], stable[topic], err)
		if topicErr != nil {
			errs = append(errs, k.errorf(topicErr, "topic %q", topic))
			continue
		}
		produced[topic] = end
	}
	return produced, errors.Join(errs...)
}

// oneByOne asks for each topic on its own, where one that may not be described would spoil the answer for all.
func (k *Kafka) oneByOne(ctx context.Context, topics []string) (map[string]TopicEnd, error) {
	produced := map[string]TopicEnd{}
	var errs []error
	for _, topic := range topics {
		one, err := k.Produced(ctx, []string{topic})
		maps.Copy(produced, one)
		errs = append(errs, err)
	}
	return produced, errors.Join(errs...)
}

// topicEnd puts together the listings of a topic; it fails if a partition lacks one. failure is why one may.
func topicEnd(ends, stable map[int32]kadm.ListedOffset, failure error) (TopicEnd, error) {
	t := TopicEnd{Partitions: make(map[int32]PartitionEnd, len(ends))}
	if len(ends) == 0 || len(ends) != len(stable) {
		return t, cmp.Or(failure, errors.New("not every partition was listed"))
	}
	for id, e := range ends {
		s, ok := stable[id]
		switch {
		case e.Err != nil:
			return t, partitionError(id, e.Err)
		case !ok:
			return t, partitionError(id, cmp.Or(failure, errors.New("not listed")))
		case s.Err != nil:
			return t, partitionError(id, s.Err)
		case e.Offset < 0 || s.Offset < 0:
			return t, partitionError(id, errors.New("no end offset"))
		}
		t.Partitions[id] = PartitionEnd{End: e.Offset, Stable: s.Offset}
	}
	// Shards that failed leave their partitions out.
	if failure != nil {
		return t, failure
	}
	return t, nil
}

func partitionError(id int32, err error) error {
	if id < 0 { // kadm's number for the topic as a whole
		return err
	}
	return fmt.Errorf("partition %d: %w", id, err)
}

// Topics returns the names of all topics but Kafka's internal ones, sorted, as they were at most a minute ago.
func (k *Kafka) Topics(ctx context.Context) ([]string, error) {
	k.mu.Lock()
	topics, at := k.topics, k.topicsAt
	k.mu.Unlock()
	if topics != nil && time.Since(at) < topicsMaxAge {
		return slices.Clone(topics), nil
	}
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	listed, err := k.admin.ListTopics(ctx)
	if err != nil {
		return nil, k.errorf(err, "list topics")
	}
	topics = listed.Names()
	slices.Sort(topics)
	k.mu.Lock()
	k.topics, k.topicsAt = topics, time.Now()
	k.mu.Unlock()
	return slices.Clone(topics), nil
}

// Committed returns the offsets a consumer group committed for topics.
func (k *Kafka) Committed(ctx context.Context, group string, topics []string) (map[TopicPartition]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	offsets, err := k.admin.FetchOffsets(ctx, group)
	if err == nil {
		err = offsets.Error()
	}
	if errors.Is(err, kerr.GroupIDNotFound) {
		return map[TopicPartition]int64{}, nil // it has committed nothing yet
	}
	if err != nil {
		return nil, k.errorf(err, "offsets committed by group %q", group)
	}
	committed := map[TopicPartition]int64{}
	offsets.Each(func(o kadm.OffsetResponse) {
		if o.At >= 0 && slices.Contains(topics, o.Topic) {
			committed[TopicPartition{o.Topic, o.Partition}] = o.At
		}
	})
	return committed, nil
}

// errorf says which brokers and what.
func (k *Kafka) errorf(err error, format string, args ...any) error {
	return fmt.Errorf("kafka %s: %s: %w", k.brokers, fmt.Sprintf(format, args...), err)
}
