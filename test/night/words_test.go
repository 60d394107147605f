package main

import (
	"errors"
	"testing"

	"github.com/flink-lineage/flink-lineage-exporter/test/lab"
	"github.com/flink-lineage/flink-lineage-exporter/test/scrape"
)

const doubled = `flink_lineage_up 1
flink_lineage_job_verdict{job_id="j",verdict="ok"} 0
flink_lineage_job_verdict{job_id="j",verdict="duplicate"} 1
flink_lineage_job_execution_graphs{job_id="j"} 1
flink_lineage_duplicate_subtasks{job_id="j",view="reporter"} 0
flink_lineage_source_readers{job_id="j",state="live"} 12
flink_lineage_duplicate_readers{job_id="j",tm_id="a"} 6
flink_lineage_source_amplification_ratio{job_id="j"} 2.004
flink_lineage_taskmanager_restart_advised{job_id="j",tm_id="a",reason="duplicate_reader"} 1
`

const orphaned = `flink_lineage_job_verdict{job_id="j",verdict="duplicate"} 1
flink_lineage_job_execution_graphs{job_id="j"} 2
flink_lineage_duplicate_subtasks{job_id="j",view="reporter"} 6
flink_lineage_duplicate_subtasks{job_id="j",view="threads"} 6
flink_lineage_orphan_executions{job_id="j",tm_id="a",view="reporter",reason="stale_execution_graph"} 6
flink_lineage_taskmanager_restart_advised{job_id="j",tm_id="a",reason="stale_execution_graph"} 1
`

func TestWords(t *testing.T) {
	s, err := scrape.Parse(doubled)
	if err != nil {
		t.Fatal(err)
	}
	want := exporterWords{Up: "1", Electing: "–", Verdict: "duplicate", Graphs: "1", ByReporter: "0", ByThreads: "–", Orphans: "none", Readers: "12", Duplicates: "6",
		Restart: "its TaskManager: duplicate_reader", Ratio: "2.00"}
	if got := wordsOf(s); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if s, err = scrape.Parse(orphaned); err != nil {
		t.Fatal(err)
	}
	if got := wordsOf(s); got.Orphans != "6 by reporter" || got.Graphs != "2" {
		t.Errorf("with orphans: %+v", got)
	}
	if s, err = scrape.Parse("flink_lineage_up 0\n"); err != nil {
		t.Fatal(err)
	}
	if got := wordsOf(s); got.Up != "0" || got.Verdict != "–" || got.Restart != "–" || got.Duplicates != "–" {
		t.Errorf("without a job: %+v", got)
	}
}

// What is right to say in one act is wrong in the other.
func TestDouble(t *testing.T) {
	beam, err := scrape.Parse(doubled)
	if err != nil {
		t.Fatal(err)
	}
	zombies, err := scrape.Parse(orphaned)
	if err != nil {
		t.Fatal(err)
	}
	var b beamWorld
	var z zombieWorld
	if !b.double(beam, "a") || b.double(beam, "b") || b.double(zombies, "a") || b.well(beam) {
		t.Error("act beam")
	}
	if !z.double(zombies, "a") || z.double(zombies, "b") || z.double(beam, "a") || z.well(zombies) {
		t.Error("act zombie")
	}
}

func TestWell(t *testing.T) {
	s, err := scrape.Parse("flink_lineage_job_verdict{job_id=\"j\",verdict=\"ok\"} 1\n")
	if err != nil {
		t.Fatal(err)
	}
	if (&beamWorld{}).well(s) || (&zombieWorld{}).well(s) {
		t.Error("all is well without a look at readers or executions")
	}
}

func TestNoAnswer(t *testing.T) {
	if got := noAnswer(&lab.StatusError{URL: "http://127.0.0.1:1/jobs", Code: 503}); got != "HTTP 503" {
		t.Errorf("status: %q", got)
	}
	if got := noAnswer(errors.New("dial tcp 127.0.0.1:1: connection refused")); got != "no answer" {
		t.Errorf("no connection: %q", got)
	}
}

func TestCheckpointName(t *testing.T) {
	got, err := checkpointName("hdfs://127.0.0.1:9000/checkpoints/0000/chk-7")
	if err != nil || got != "chk-7 in HDFS" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, bad := range []string{"file:/tmp/chk-7", "chk-7", "://"} {
		if _, err := checkpointName(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestParse(t *testing.T) {
	s, err := parse(nil)
	if err != nil || len(s.kinds) != 2 || len(s.acts) != 2 || s.kinds[0].ha != lab.Kubernetes {
		t.Errorf("default: %+v, %v", s, err)
	}
	s, err = parse([]string{"--short"})
	if err != nil || len(s.kinds) != 1 || s.kinds[0].ha != lab.ZooKeeper || len(s.acts) != 2 {
		t.Errorf("short: %+v, %v", s, err)
	}
	for _, bad := range [][]string{{"--ha", "etcd"}, {"--acts", "x"}, {"--short", "--out", "x"}, {"--tell"}, {"--nothing"}} {
		if _, err := parse(bad); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
}
