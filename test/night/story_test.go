package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// played makes a result with its four steps.
func played(a *act, k kind) *result {
	r := &result{Act: a.name, HA: k.name, Unknown: 1.25, Leads: 18.5, Restored: 21, Seen: 24.75, SeenNumber: 3, LastOld: 20.5, FirstNew: 21.5, RestoredBy: "chk-7 in HDFS"}
	for i, name := range []string{"healthy", "no leader", "restored", "TaskManager restarted"} {
		r.Steps = append(r.Steps, step{Name: name, After: float64(i * 10), REST: "RUNNING", Sink: fmt.Sprintf("%d rows of 160 records", 160+i),
			Exporter: exporterWords{Up: "1", Verdict: "ok", Restart: "none", Ratio: "–", Graphs: "1", ByReporter: "0", ByThreads: "0", Orphans: "–",
				Electing: "0", Readers: "6", Duplicates: "0"}})
	}
	return r
}

func all() measured {
	var results []*result
	for _, k := range []kind{kinds["kubernetes"], kinds["zookeeper"]} {
		results = append(results, played(beamAct, k), played(zombieAct, k))
	}
	return measured{2, results}
}

func TestTell(t *testing.T) {
	text, err := tell(all())
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

// The story in docs is the one of this template and these measurements.
func TestStoryIsCurrent(t *testing.T) {
	file := filepath.Join(t.TempDir(), "night.md")
	if err := writeStory(file, "night.json"); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../docs/night.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/night.md is not what the template and night.json make: run make night-tell")
	}
}

// An act played again takes the place of the earlier one.
func TestKeepMeasured(t *testing.T) {
	file := filepath.Join(t.TempDir(), "night.json")
	for _, r := range all().Results {
		if err := keepMeasured(file, r); err != nil {
			t.Fatal(err)
		}
	}
	again := played(zombieAct, kinds["kubernetes"])
	again.Leads = 99
	if err := keepMeasured(file, again); err != nil {
		t.Fatal(err)
	}
	m, err := readMeasured(file)
	if err != nil || len(m.Results) != 4 {
		t.Fatalf("%d results, %v", len(m.Results), err)
	}
	if r := m.Results[1]; r.Act != "zombie" || r.HA != "kubernetes" || r.Leads != 99 {
		t.Errorf("not replaced: %s", r)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := keepMeasured(file, again); err == nil || !strings.Contains(err.Error(), "night.json") {
		t.Errorf("a broken file: error %v does not name it", err)
	}
}

func TestTellWantsAll(t *testing.T) {
	m := all()
	m.Results = m.Results[1:]
	if _, err := tell(m); err == nil {
		t.Error("an act is missing, and there is no error")
	}
	m = all()
	m.Results[2].Steps = m.Results[2].Steps[:3]
	if _, err := tell(m); err == nil || !strings.Contains(err.Error(), "zookeeper") {
		t.Errorf("a step is missing: error %v does not say where", err)
	}
}

func TestOverlapWords(t *testing.T) {
	for v, want := range map[float64]string{-1.5: "nothing written for 1.5 s", 2: "both for 2.0 s", -0.02: "one right after the other"} {
		if got := overlapWords(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}
