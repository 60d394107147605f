package main

import (
	"archive/zip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestCodeBlocks(t *testing.T) {
	got := codeBlocks("text\n\n    one\n    two\n\ntext\n    three")
	if want := []string{"one\ntwo\n", "three\n"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestRunbookHasStatementsToRun(t *testing.T) {
	text, err := os.ReadFile("../../alerts/runbook/repair-data.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"DELETE FROM orders", "CREATE UNIQUE INDEX"} {
		n := 0
		for _, block := range codeBlocks(string(text)) {
			if strings.Contains(block, word) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d blocks with %s, want 1", n, word)
		}
	}
}

func TestClassesWith(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "lib"), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, "lib", "flink-dist.jar"))
	if err != nil {
		t.Fatal(err)
	}
	jar := zip.NewWriter(f)
	for name, text := range map[string]string{
		"org/apache/flink/A.class": "x heartbeat.timeout y", "org/apache/flink/B.class": "heartbeat.timeout", "org/apache/flink/C.txt": "heartbeat.timeout",
		"org/other/D.class": "no.such.option",
	} {
		w, err := jar.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := jar.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	found, err := classesWith(dir, []string{"heartbeat.timeout", "no.such.option"})
	if err != nil {
		t.Fatal(err)
	}
	if found["heartbeat.timeout"] != 2 || found["no.such.option"] != 0 {
		t.Errorf("%v", found)
	}
	if _, err := classesWith(t.TempDir(), nil); err == nil {
		t.Error("no error for a folder without jars")
	}
}

// The probe fails only for the TaskManager that is named.
func TestProbeReadsTheSeries(t *testing.T) {
	dir := t.TempDir()
	metrics := `flink_lineage_taskmanager_restart_advised{job_id="0",job_name="j",reason="stale_attempt",tm_id="tm-1"} 1` + "\n"
	if err := os.WriteFile(filepath.Join(dir, "metrics"), []byte(metrics), 0o600); err != nil {
		t.Fatal(err)
	}
	for tm, alive := range map[string]bool{"tm-1": false, "tm-2": true, "tm-": true} {
		for exporter, answers := range map[string]bool{"file://" + dir: true, "file://" + dir + "/none": false} {
			cmd := exec.CommandContext(t.Context(), "sh", "-c", probe)
			cmd.Env = append(os.Environ(), "EXPORTER="+exporter, "TM_ID="+tm)
			if err := cmd.Run(); (err == nil) != (alive || !answers) {
				t.Errorf("exporter %s, TaskManager %s: %v", exporter, tm, err)
			}
		}
	}
}

// The document's template names only facts that the scenarios state.
func TestAdviceIsWritten(t *testing.T) {
	s := &settings{suite: suites["advice"]}
	var results []*result
	for _, x := range s.suite.scenarios {
		r := &result{version: "1.17.2", scenario: x, notes: []string{"note"}}
		results = append(results, r)
	}
	classes := map[string]int{}
	for _, o := range adviceOptions {
		classes[o] = 1
	}
	for name, value := range map[string]any{
		"Classes": classes, "Listed": 3, "Warnings": 0, "Restarted": "4 of 4", "Later": "35", "LaterDoubles": "2 of 2 subtasks",
		"Probes": []probed{{Sick: true, TCP: true, NoExporter: true}}, "Rows2": "2 rows", "Rows1": "1 row", "KeyRatio": "ratio 2.00",
		"RowsBefore": 4, "Records": 2, "RowsAfter": 2,
	} {
		results[0].fact(name, value)
	}
	path := filepath.Join(t.TempDir(), "advice.md")
	if err := writeAdvice(path, s, results[1:]); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("it was written although a scenario is missing")
	}
	if err := writeAdvice(path, s, results); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "4 of 4 subtasks") || strings.Contains(string(text), "<no value>") {
		t.Errorf("%s", text)
	}
}
