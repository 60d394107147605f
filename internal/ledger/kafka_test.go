package ledger

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/flink-lineage/flink-lineage-exporter/internal/config"
)

// listen serves connections with f until the test ends.
func listen(t *testing.T, f func(net.Conn)) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				f(conn)
			}()
		}
	}()
	return l.Addr().String()
}

// calls are all that go to the brokers.
var calls = map[string]func(context.Context, *Kafka) error{
	"Produced": func(ctx context.Context, k *Kafka) error {
		_, err := k.Produced(ctx, []string{"orders"})
		return err
	},
	"Topics": func(ctx context.Context, k *Kafka) error {
		_, err := k.Topics(ctx)
		return err
	},
	"Committed": func(ctx context.Context, k *Kafka) error {
		_, err := k.Committed(ctx, "group", []string{"orders"})
		return err
	},
}

func TestKafkaIsNeverWaitedForBeyondTheContext(t *testing.T) {
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			silent := listen(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }) // accepts and never answers
			k, err := NewKafka(&config.Kafka{Brokers: []string{silent}}, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			begin := time.Now()
			err = call(ctx, k)
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("took %s", took)
			}
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), silent) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestKafkaFailsWithinItsTimeout(t *testing.T) {
	refusing := listen(t, func(net.Conn) {})
	dead := freeAddress(t)
	garbage := listen(t, func(conn net.Conn) {
		_, _ = io.WriteString(conn, strings.Repeat("HTTP/1.1 400 Bad Request\r\n\r\n", 100))
	})
	silent := listen(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	for name, address := range map[string]string{"closes at once": refusing, "nobody listens": dead, "not Kafka": garbage, "silent": silent} {
		for call, f := range calls {
			t.Run(name+" "+call, func(t *testing.T) {
				k, err := NewKafka(&config.Kafka{Brokers: []string{address}}, time.Second)
				if err != nil {
					t.Fatal(err)
				}
				defer k.Close()
				begin := time.Now()
				if err := f(t.Context(), k); err == nil || !strings.Contains(err.Error(), "kafka "+address) {
					t.Errorf("error %v does not name the brokers", err)
				}
				if took := time.Since(begin); took > 10*time.Second {
					t.Errorf("took %s", took)
				}
			})
		}
	}
}

func TestKafkaAsksForNothing(t *testing.T) {
	k, err := NewKafka(&config.Kafka{Brokers: []string{freeAddress(t)}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if all, err := k.Produced(t.Context(), nil); all != nil || err != nil {
		t.Errorf("%v, %v", all, err)
	}
}

func TestNewKafkaRefusesAnUnknownMechanism(t *testing.T) {
	if _, err := NewKafka(&config.Kafka{Brokers: []string{"localhost:9092"}, SASL: config.SASL{Mechanism: "gssapi"}}, 0); err == nil {
		t.Error("no error")
	}
}

func TestTopicEnd(t *testing.T) {
	broken := errors.New("broken")
	listing := func(offsets ...int64) map[int32]kadm.ListedOffset {
		l := map[int32]kadm.ListedOffset{}
		for p, offset := range offsets {
			l[int32(p)] = kadm.ListedOffset{Partition: int32(p), Offset: offset}
		}
		return l
	}
	failing := func(partition int32) map[int32]kadm.ListedOffset {
		return map[int32]kadm.ListedOffset{0: {Offset: 1}, partition: {Partition: partition, Offset: -1, Err: broken}}
	}
	tests := map[string]struct {
		ends, stable map[int32]kadm.ListedOffset
		failure      error
		want         string
	}{
		"complete":                    {listing(5, 7), listing(5, 6), nil, ""},
		"not listed":                  {nil, nil, nil, "not every partition"},
		"not listed because":          {nil, nil, broken, "broken"},
		"fewer stable":                {listing(5, 7), listing(5), nil, "not every partition"},
		"other partitions":            {listing(5), map[int32]kadm.ListedOffset{1: {Partition: 1}}, nil, "partition 0: not listed"},
		"one partition fails":         {failing(1), failing(1), nil, "partition 1: broken"},
		"one partition fails, stable": {listing(1, 1), failing(1), nil, "partition 1: broken"},
		"the topic fails":             {failing(-1), failing(-1), nil, "broken"},
		"no offset":                   {listing(5, -1), listing(5, -1), nil, "partition 1: no end"},
		"a broker failed":             {listing(5), listing(5), broken, "broken"},
	}
	for name, test := range tests {
		end, err := topicEnd(test.ends, test.stable, test.failure)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
		if want := (PartitionEnd{7, 6}); err == nil && end.Partitions[1] != want {
			t.Errorf("%s: %+v", name, end)
		}
	}
}
