package ledger

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	promconfig "github.com/prometheus/common/config"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/flink-lineage/flink-lineage-exporter/internal/config"
	"github.com/flink-lineage/flink-lineage-exporter/internal/lineage"
)

func connect(t *testing.T, cfg config.Kafka) *Kafka {
	t.Helper()
	k, err := NewKafka(&cfg, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

func produced(t *testing.T, k *Kafka, topic string) TopicEnd {
	t.Helper()
	all, err := k.Produced(t.Context(), []string{topic})
	if err != nil {
		t.Fatal(err)
	}
	return all[topic]
}

// TestKafka is one test because a broker takes seconds to start.
func TestKafka(t *testing.T) {
	b := newBroker(t)
	k := connect(t, config.Kafka{Brokers: []string{b.plaintext}})

	t.Run("ends of twelve partitions", func(t *testing.T) {
		b.create(t, "twelve", 12)
		for p := range int32(12) {
			b.produce(t, "twelve", p, int(p)+1)
		}
		end := produced(t, k, "twelve")
		if len(end.Partitions) != 12 {
			t.Fatalf("%d partitions", len(end.Partitions))
		}
		for p, e := range end.Partitions {
			if want := int64(p) + 1; e != (PartitionEnd{want, want}) {
				t.Errorf("partition %d: %+v, want %d", p, e, want)
			}
		}
	})

	t.Run("topics", func(t *testing.T) {
		b.create(t, "shop.orders", 1)
		fresh := connect(t, config.Kafka{Brokers: []string{b.plaintext}})
		names, err := fresh.Topics(t.Context())
		if err != nil || !slices.Contains(names, "shop.orders") || slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "__") }) {
			t.Errorf("%q, %v", names, err)
		}
		if name, err := TopicOf("shop_orders", names); name != "shop.orders" || err != nil {
			t.Errorf("%q, %v", name, err)
		}
	})

	t.Run("a topic that does not exist is an error and is not created", func(t *testing.T) {
		all, err := k.Produced(t.Context(), []string{"nowhere", "twelve"})
		if err == nil || !strings.Contains(err.Error(), `topic "nowhere"`) || len(all) != 1 || len(all["twelve"].Partitions) != 12 {
			t.Errorf("%v, %v", all, err)
		}
		names, err := b.admin.ListTopics(t.Context())
		if err != nil || names.Has("nowhere") {
			t.Errorf("topics %q, %v", names.Names(), err)
		}
	})

	t.Run("partitions added, topic deleted and created again", func(t *testing.T) {
		b.create(t, "changing", 1)
		b.produce(t, "changing", 0, 9)
		if end := produced(t, k, "changing"); len(end.Partitions) != 1 || end.Partitions[0].End != 9 {
			t.Errorf("%+v", end)
		}
		if _, err := b.admin.CreatePartitions(t.Context(), 2, "changing"); err != nil {
			t.Fatal(err)
		}
		eventually(t, 20*time.Second, "the added partitions", func(ctx context.Context) error {
			all, err := k.Produced(ctx, []string{"changing"})
			if err == nil && len(all["changing"].Partitions) != 3 {
				err = context.Canceled
			}
			return err
		})
		if _, err := b.admin.DeleteTopic(t.Context(), "changing"); err != nil {
			t.Fatal(err)
		}
		eventually(t, 20*time.Second, "the new topic", func(ctx context.Context) error {
			_, err := b.admin.CreateTopic(ctx, 1, 1, nil, "changing")
			return err
		})
		eventually(t, 20*time.Second, "its end", func(ctx context.Context) error {
			all, err := k.Produced(ctx, []string{"changing"})
			if err == nil && (len(all["changing"].Partitions) != 1 || all["changing"].Partitions[0].End != 0) {
				err = context.Canceled
			}
			return err
		})
	})

	t.Run("transactions", func(t *testing.T) {
		b.create(t, "transactions", 1)
		client, err := kgo.NewClient(kgo.SeedBrokers(b.plaintext), kgo.TransactionalID("ledger"), kgo.DefaultProduceTopic("transactions"))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		transaction := func(n int, end kgo.TransactionEndTry) {
			t.Helper()
			if err := client.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			for range n {
				if err := client.ProduceSync(t.Context(), kgo.StringRecord("v")).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			// While it is open, readers of committed records stop where it began.
			if e := produced(t, k, "transactions").Partitions[0]; e.End-e.Stable != int64(n) {
				t.Errorf("open transaction of %d records: %+v", n, e)
			}
			if err := client.EndTransaction(t.Context(), end); err != nil {
				t.Fatal(err)
			}
		}
		transaction(10, kgo.TryCommit)
		transaction(5, kgo.TryAbort)
		// Twelve offsets a reader of committed records never sees: each end of a transaction, and the aborted records.
		eventually(t, 10*time.Second, "the markers", func(ctx context.Context) error {
			all, err := k.Produced(ctx, []string{"transactions"})
			if want := (PartitionEnd{17, 17}); err == nil && all["transactions"].Partitions[0] != want {
				err = context.Canceled
			}
			return err
		})
	})

	t.Run("committed offsets", func(t *testing.T) {
		// The first group of all makes the broker create the topic it keeps offsets in.
		eventually(t, 30*time.Second, "the coordinator", func(ctx context.Context) error {
			committed, err := k.Committed(ctx, "none", []string{"twelve"})
			if len(committed) != 0 {
				t.Errorf("a group that does not exist: %v", committed)
			}
			return err
		})
		offsets := kadm.Offsets{}
		offsets.AddOffset("twelve", 3, 2, -1)
		offsets.AddOffset("shop.orders", 0, 0, -1)
		if err := b.admin.CommitAllOffsets(t.Context(), "beam", offsets); err != nil {
			t.Fatal(err)
		}
		committed, err := k.Committed(t.Context(), "beam", []string{"twelve"})
		if err != nil || len(committed) != 1 || committed[TopicPartition{"twelve", 3}] != 2 {
			t.Errorf("%v, %v", committed, err)
		}
	})

	t.Run("balance of a source that reads twice", func(t *testing.T) {
		b.create(t, "shop-payments", 3)
		l := New(0)
		var balance Balance
		for i := range 8 {
			execution := Execution{ExecutionKey: ExecutionKey{"tm", "a"}, RecordsOut: float64(2 * 3 * 20 * (i + 1))}
			for p := range 3 {
				b.produce(t, "shop-payments", int32(p), 20)
				execution.Partitions = append(execution.Partitions, lineage.PartitionProgress{Topic: "shop_payments", Partition: p, Offset: float64(20*(i+1) - 1)})
			}
			source := []SourceObservation{{JobID: "j", VertexID: "v", Executions: []Execution{execution}}}
			ends, err := Fetch(t.Context(), connect(t, config.Kafka{Brokers: []string{b.plaintext}}), source)
			if err != nil {
				t.Fatal(err)
			}
			balance = l.Observe(epoch.Add(time.Duration(i)*30*time.Second), source, ends)[0]
		}
		if !balance.Valid || balance.Ratio != 2 || balance.Basis != BasisPositions || balance.Topic != "shop-payments" || balance.Produced != 7*60 {
			t.Errorf("%+v", balance)
		}
	})

	t.Run("SASL", func(t *testing.T) { testSASL(t, b) })
	t.Run("TLS", func(t *testing.T) {
		if _, err := connect(t, config.Kafka{Brokers: []string{b.tls}, TLS: &promconfig.TLSConfig{CAFile: b.caFile}}).Topics(t.Context()); err != nil {
			t.Error(err)
		}
		_, err := connect(t, config.Kafka{Brokers: []string{b.tls}, TLS: &promconfig.TLSConfig{}}).Topics(t.Context())
		if err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("an unknown authority is trusted, or not named: %v", err)
		}
		if _, err := connect(t, config.Kafka{Brokers: []string{b.tls}}).Topics(t.Context()); err == nil {
			t.Error("no TLS at a TLS listener")
		}
	})

	t.Run("the broker dies and comes back", func(t *testing.T) {
		b.kill(t)
		begin := time.Now()
		if all, err := k.Produced(t.Context(), []string{"twelve"}); err == nil || all != nil {
			t.Errorf("%v, %v from a dead broker", all, err)
		} else if took := time.Since(begin); took > 15*time.Second {
			t.Errorf("took %s", took)
		}
		b.start(t)
		eventually(t, 30*time.Second, "the client to connect again", func(ctx context.Context) error {
			_, err := k.Produced(ctx, []string{"twelve"})
			return err
		})
		if end := produced(t, k, "twelve"); end.Partitions[11].End != 12 {
			t.Errorf("%+v", end)
		}
	})

	t.Run("closed", func(t *testing.T) {
		k.Close()
		if _, err := k.Produced(t.Context(), []string{"twelve"}); err == nil {
			t.Error("no error after Close")
		}
	})
}

func testSASL(t *testing.T, b *broker) {
	for mechanism, kind := range map[string]kadm.ScramMechanism{"scram-sha-256": kadm.ScramSha256, "scram-sha-512": kadm.ScramSha512} {
		upsert := kadm.UpsertSCRAM{User: "exporter", Mechanism: kind, Iterations: 4096, Password: "right"}
		altered, err := b.admin.AlterUserSCRAMs(t.Context(), nil, []kadm.UpsertSCRAM{upsert})
		if err != nil || altered["exporter"].Err != nil {
			t.Fatalf("%s: %v, %+v", mechanism, err, altered)
		}
	}
	file := filepath.Join(t.TempDir(), "password")
	write := func(password string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, mechanism := range []string{"plain", "scram-sha-256", "scram-sha-512"} {
		t.Run(mechanism, func(t *testing.T) {
			write("wrong-one")
			k := connect(t, config.Kafka{Brokers: []string{b.sasl}, SASL: config.SASL{Mechanism: mechanism, Username: "exporter", PasswordFile: file}})
			_, err := k.Produced(t.Context(), []string{"twelve"})
			if err == nil || !strings.Contains(err.Error(), "SASL_AUTHENTICATION_FAILED") || strings.Contains(err.Error(), "wrong-one") {
				t.Errorf("wrong password: %v", err)
			}
			// The password is read again at each connection.
			write("right")
			eventually(t, 20*time.Second, "the right password to be taken", func(ctx context.Context) error {
				_, err := k.Produced(ctx, []string{"twelve"})
				return err
			})
		})
	}
	t.Run("a topic that may not be described", func(t *testing.T) {
		b.create(t, "secret", 1)
		acl := kadm.NewACLs().Topics("secret").ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpDescribe).Deny("User:exporter").DenyHosts()
		if _, err := b.admin.CreateACLs(t.Context(), acl); err != nil {
			t.Fatal(err)
		}
		k := connect(t, config.Kafka{Brokers: []string{b.sasl}, SASL: config.SASL{Mechanism: "plain", Username: "exporter", PasswordFile: file}})
		eventually(t, 20*time.Second, "the topic to be forbidden", func(ctx context.Context) error {
			if _, err := k.Produced(ctx, []string{"secret"}); err == nil {
				return errors.New("allowed")
			}
			return nil
		})
		all, err := k.Produced(t.Context(), []string{"secret", "twelve"})
		if err == nil || !strings.Contains(err.Error(), "TOPIC_AUTHORIZATION_FAILED") || len(all) != 1 || len(all["twelve"].Partitions) != 12 {
			t.Errorf("%v, %v", all, err)
		}
	})
	t.Run("no credentials", func(t *testing.T) {
		if _, err := connect(t, config.Kafka{Brokers: []string{b.sasl}}).Topics(t.Context()); err == nil {
			t.Error("no credentials are taken")
		}
	})
	t.Run("no file", func(t *testing.T) {
		k := connect(t, config.Kafka{Brokers: []string{b.sasl}, SASL: config.SASL{Mechanism: "plain", Username: "exporter", PasswordFile: file + ".none"}})
		if _, err := k.Topics(t.Context()); err == nil || !strings.Contains(err.Error(), file+".none") {
			t.Errorf("the error does not name the file: %v", err)
		}
	})
}
