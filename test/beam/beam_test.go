package beam

import (
	"context"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Real systems run only when asked for.
const labEnv = "FLINK_LAB"

// TestDouble plays the incident this package is for, and what it must not be confused with.
func TestDouble(t *testing.T) {
	if os.Getenv(labEnv) != "1" {
		t.Skipf("runs Kafka, PostgreSQL and Flink: set %s=1", labEnv)
	}
	for _, test := range []struct {
		name     string
		pipeline Pipeline
		flink    string
		perID    float64 // after the failover
	}{
		{"beam", Beam, "1.17.2", 2},
		{"fixed", BeamFixed, "1.17.2", 1},
		{"kafkasource", KafkaSource, "1.17.2", 1},
		{"kafkasource on 2", KafkaSource, "2.3.0", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
			defer cancel()
			r, err := Start(ctx, Options{Pipeline: test.pipeline, Flink: test.flink, Log: t.Output()})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := r.Stop(); err != nil {
					t.Error(err)
				}
			}()
			if rows := r.mustCount(ctx, t); rows.PerID() != 1 {
				t.Errorf("before the failover: %s, want one row an id", rows)
			}
			if err := r.Failover(ctx); err != nil {
				t.Fatal(err)
			}
			r.mustCount(ctx, t) // until the runner has assigned again, rows are single
			if rows := r.mustCount(ctx, t); rows.PerID() != test.perID {
				t.Errorf("after the failover: %s, want %v rows an id", rows, test.perID)
			}
			offsets, err := r.EndOffsets(ctx)
			if err != nil {
				t.Fatal(err)
			}
			var sum int64
			for _, offset := range offsets["orders"] {
				sum += offset
			}
			if sum != 150 {
				t.Errorf("end offsets %v add up to %d, want the 150 records produced", offsets, sum)
			}
		})
	}
}

// mustCount produces 50 records in ten seconds and counts their rows when each has been there for as long as a second reader could need.
func (r *Run) mustCount(ctx context.Context, t *testing.T) Rows {
	t.Helper()
	p, err := r.Produce(ctx, Production{Count: 50})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.WaitRows(ctx, p.Begin, p.End); err != nil {
		t.Fatal(err)
	}
	if err := r.Cluster.WaitCheckpoint(ctx); err != nil { // the sink's batches are flushed at a checkpoint at the latest
		t.Fatal(err)
	}
	rows, err := r.RowsPerID(ctx, p.Begin, p.End)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func TestExtract(t *testing.T) {
	sums := map[string]string{}
	for _, module := range []string{"broker", "pipeline", "fixed", "kafkasource", "hdfs"} {
		dir := t.TempDir()
		first, err := extract(module, dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, "pom.xml")); err != nil {
			t.Error(err)
		}
		again, err := extract(module, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		sum := hex.EncodeToString(first.Sum(nil))
		if other := hex.EncodeToString(again.Sum(nil)); other != sum {
			t.Errorf("%s: hashes %s and %s of the same sources", module, sum, other)
		}
		for name, taken := range sums {
			if taken == sum {
				t.Errorf("%s and %s have one hash", module, name)
			}
		}
		sums[module] = sum
	}
	if _, err := extract("nothing", t.TempDir()); err == nil {
		t.Error("a module that is not there has no error")
	}
}

func TestConnectorProperties(t *testing.T) {
	for flink, want := range map[string][]string{
		"1.17.2": {"flink.version=1.17.2", "connector.version=3.0.2-1.17", "legacy=true"},
		"2.3.0":  {"flink.version=2.3.0", "connector.version=5.0.0-2.2"},
	} {
		if got, err := connectorProperties(flink); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v, want %v", flink, got, err, want)
		}
	}
	if _, err := connectorProperties("1.15.4"); err == nil || !strings.Contains(err.Error(), "1.15.4") {
		t.Errorf("no connector for 1.15.4: error %v does not say so", err)
	}
}

func TestProducedBetween(t *testing.T) {
	at := func(ms int64) time.Time { return time.UnixMilli(ms) }
	r := &Run{ids: ids{times: []time.Time{at(1000), at(1000), at(2000), at(3000)}}}
	for _, test := range []struct {
		since, until time.Time
		want         int
	}{
		{at(0), at(9000), 4},
		{at(1000), at(3000), 3},
		{at(1001), at(3001), 2},
		{at(1000).Add(time.Microsecond), at(3000).Add(time.Microsecond), 2}, // as the database counts, whose times have milliseconds
		{at(3001), at(9000), 0},
		{at(3000), at(1000), 0},
	} {
		if got := r.Produced(test.since, test.until); got != test.want {
			t.Errorf("[%v, %v): %d records, want %d", test.since, test.until, got, test.want)
		}
	}
}

func TestProduceWantsABound(t *testing.T) {
	if _, err := new(Run).Produce(t.Context(), Production{}); err == nil {
		t.Error("produces without an end")
	}
}

func TestScanRow(t *testing.T) {
	var a, b int
	if err := scanRow("12|-3", &a, &b); err != nil || a != 12 || b != -3 {
		t.Errorf("got %d, %d, %v", a, b, err)
	}
	for _, bad := range []string{"", "1", "1|2|3", "1|x"} {
		if err := scanRow(bad, &a, &b); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestParseWriter(t *testing.T) {
	got, err := parseWriter("1700000000001|1700000000900|7|Source: Read/x (1/6)#0@1a2b3c4d")
	want := Writer{Name: "Source: Read/x (1/6)#0@1a2b3c4d", First: time.UnixMilli(1700000000001), Last: time.UnixMilli(1700000000900), Rows: 7}
	if err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, bad := range []string{"", "name", "1|2|name", "1|2|x|name"} {
		if _, err := parseWriter(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestRowsPerID(t *testing.T) {
	if got := (Rows{}).PerID(); got != 0 {
		t.Errorf("no rows: %v rows an id", got)
	}
	if got := (Rows{IDs: 4, Rows: 6}).PerID(); got != 1.5 {
		t.Errorf("%v rows an id, want 1.5", got)
	}
}

func TestActivity(t *testing.T) {
	const stack = `"KafkaConsumerPoll-thread" Id=91 TIMED_WAITING on java.util.concurrent.SynchronousQueue$TransferQueue@1
	at java.base@17/jdk.internal.misc.Unsafe.park(Native Method)
	-  waiting on java.util.concurrent.SynchronousQueue$TransferQueue@1
	at java.base@17/java.util.concurrent.SynchronousQueue.offer(SynchronousQueue.java:892)
	at app//org.apache.beam.sdk.io.kafka.KafkaUnboundedReader.consumerPollLoop(KafkaUnboundedReader.java:560)
	at java.base@17/java.lang.Thread.run(Thread.java:840)
`
	const want = "TIMED_WAITING Unsafe.park < SynchronousQueue.offer < KafkaUnboundedReader.consumerPollLoop"
	if got := Activity(stack); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := Activity(""); got != "? " {
		t.Errorf("no stack: %q", got)
	}
	counts := SummarizeThreads([]Thread{{"KafkaConsumerPoll-thread", stack}, {"KafkaConsumerPoll-thread", stack}, {"main", stack}})
	if len(counts) != 1 || counts["KafkaConsumerPoll-thread | "+want] != 2 {
		t.Errorf("counted %v", counts)
	}
}

func TestReadersInOrder(t *testing.T) {
	thread := func(name, id, at string) Thread {
		return Thread{name, `"` + name + `" Id=` + id + " WAITING\n\tat java.base@17/java.util.concurrent." + at + "(X.java:1)\n"}
	}
	got := ReadersInOrder([]Thread{
		thread("KafkaConsumerPoll-thread", "140", "SynchronousQueue.offer"),
		thread("FlinkSource-Executor-Thread-0", "101", "X.y"),
		thread("main", "1", "X.y"),
		thread("KafkaConsumerPoll-thread", "99", "X.y"),
		{"KafkaConsumerPoll-thread", "no header"},
	})
	if want := "99:poll 101:E 140:offer"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func FuzzParseWriter(f *testing.F) {
	f.Add("1|2|3|thread (1/2)#0@ab")
	f.Add("1|2|3|")
	f.Fuzz(func(t *testing.T, line string) {
		if w, err := parseWriter(line); err == nil && !strings.HasSuffix(line, "|"+w.Name) {
			t.Errorf("%q: name %q", line, w.Name)
		}
	})
}
