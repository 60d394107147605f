package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// played makes a result with its four steps.
func played(a *act, k kind) *result {
	r := &result{Act: a, HA: k, Unknown: 1.25, Leads: 18.5, Restored: 21, Seen: 24.75, SeenNumber: 3, LastOld: 20.5, FirstNew: 21.5, RestoredBy: "chk-7 in HDFS"}
	for i, name := range []string{"healthy", "no leader", "restored", "TaskManager restarted"} {
		r.Steps = append(r.Steps, step{Name: name, After: float64(i * 10), REST: "RUNNING", Sink: fmt.Sprintf("%d rows of 160 records", 160+i),
			Exporter: exporterWords{Up: "1", Verdict: "ok", Restart: "none", Ratio: "–", Graphs: "1", ByReporter: "0", ByThreads: "0", Orphans: "–",
				Electing: "0", Readers: "6", Duplicates: "0"}})
	}
	return r
}

func all() []*result {
	var results []*result
	for _, k := range []kind{kinds["kubernetes"], kinds["zookeeper"]} {
		results = append(results, played(beamAct, k), played(zombieAct, k))
	}
	return results
}

func TestTell(t *testing.T) {
	text, err := tell(all(), 2)
	if err != nil {
		t.Fatal(err)
	}
	story := string(text)
	for _, want := range []string{"160 rows of 160 records", "24.8 s", "chk-7 in HDFS", "### Kubernetes", "### ZooKeeper", "nothing written for 1.0 s", "PostgreSQL |", "files written |"} {
		if !strings.Contains(story, want) {
			t.Errorf("%q is missing", want)
		}
	}
	for _, bad := range []string{"{{", "}}", "<no value>", "%!", "/tmp/", "127.0.0.1"} {
		if strings.Contains(story, bad) {
			t.Errorf("%q is in it", bad)
		}
	}
	// every row of a table has as many cells as the one above it
	var above int
	for i, line := range strings.Split(story, "\n") {
		cells := strings.Count(line, "|")
		if strings.HasPrefix(line, "|") && above > 0 && cells != above {
			t.Errorf("line %d has %d bars, the one above %d: %s", i+1, cells, above, line)
		}
		if above = 0; strings.HasPrefix(line, "|") {
			above = cells
		}
	}
	if m := regexp.MustCompile(`\n\n\n+`).FindString(story); m != "" {
		t.Error("empty lines follow each other")
	}
}

func TestTellWantsAll(t *testing.T) {
	if _, err := tell(all()[1:], 2); err == nil {
		t.Error("an act is missing, and there is no error")
	}
	results := all()
	results[2].Steps = results[2].Steps[:3]
	if _, err := tell(results, 2); err == nil || !strings.Contains(err.Error(), "zookeeper") {
		t.Errorf("a step is missing: error %v does not say where", err)
	}
}

func TestOverlapWords(t *testing.T) {
	for v, want := range map[float64]string{-1.5: "nothing written for 1.5 s", 2: "both for 2.0 s"} {
		if got := overlapWords(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}
