package reporter

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/flink-lineage/flink-lineage-exporter/internal/lineage"
	"github.com/flink-lineage/flink-lineage-exporter/internal/recording"
	"github.com/flink-lineage/flink-lineage-exporter/recordings"
)

const (
	graph  = "47db7d4f0b6f4bb5a7a2d3dd5e0f9b11"
	vertex = "cbc357ccb763df2852fee8c4fc7d55f2"
	job    = "00000000217e81b80000000000000000"
	recIn  = "flink_taskmanager_job_task_numRecordsIn"
)

// id is the attempt id of a subtask's first attempt.
func id(subtask int) string { return fmt.Sprintf("%s_%s_%d_0", graph, vertex, subtask) }

// series is a line of a subtask's series as Flink writes it, with labels replaced; an empty replacement leaves the label out.
func series(name string, subtask int, value string, replaced ...string) string {
	labels := []string{
		"job_id", job, "task_id", vertex, "task_attempt_id", id(subtask), "host", "localhost", "operator_id", vertex, "task_name", "Source__a",
		"task_attempt_num", "0", "job_name", "j", "tm_id", "tm_1", "subtask_index", fmt.Sprint(subtask),
	}
	var b strings.Builder
	b.WriteString(name + "{")
	for i := 0; i < len(labels); i += 2 {
		v := labels[i+1]
		if j := slices.Index(replaced, labels[i]); j >= 0 {
			v = replaced[j+1]
			if v == "" {
				continue
			}
		}
		b.WriteString(labels[i] + `="` + v + `",`)
	}
	return b.String() + "} " + value + "\n"
}

// TestSources: since Flink 1.19 a source of FLIP-27 takes in what it reads; other tasks with records out are none.
func TestSources(t *testing.T) {
	const recErrors = "flink_taskmanager_job_task_operator_numRecordsInErrors"
	out := series("flink_taskmanager_job_task_operator_numRecordsOut", 0, "5")
	head := series(recErrors, 0, "0")
	later := series(recErrors, 0, "0", "operator_id", "ab")
	in := func(value string) string { return series(recIn, 0, value) }
	for _, tc := range []struct {
		name, text string
		source     bool
		records    float64
	}{
		{"nothing taken in", in("0") + out, true, 5},
		{"a task that takes in", in("7") + out, false, 7},
		{"a source of FLIP-27 since 1.19", in("7") + out + head, true, 5},
		{"in another order", head + out + in("7"), true, 5},
		{"a source of FLIP-27 before its first record", in("0") + head, false, 0},
		{"an operator further down the chain", in("7") + out + later, false, 7},
	} {
		readings, err := Read(strings.NewReader(tc.text))
		if err != nil {
			t.Fatal(err)
		}
		e := readings[0].Executions[0]
		if (e.Source != nil) != tc.source || e.RecordsIn != tc.records {
			t.Errorf("%s: source %+v, %v records, want source %t, %v records", tc.name, e.Source, e.RecordsIn, tc.source, tc.records)
		}
	}
}

// TestTraps: what a text says, however it is written.
func TestTraps(t *testing.T) {
	good := series(recIn, 0, "7.0")
	for _, tc := range []struct {
		name, text   string
		executions   int
		unidentified int
		records      float64
	}{
		{"as Flink writes it", good, 1, 0, 7},
		{"no trailing comma", strings.Replace(good, ",}", "}", 1), 1, 0, 7},
		{"timestamp", strings.Replace(good, " 7.0\n", " 7.0 1700000000000\n", 1), 1, 0, 7},
		{"blanks", "  " + strings.NewReplacer(`{`, " { ", `="`, ` = "`, `",`, `" , `, "} ", " }\t").Replace(good), 1, 0, 7},
		{"CRLF", strings.ReplaceAll("# HELP x\n\n"+good, "\n", "\r\n"), 1, 0, 7},
		{"comments", "# HELP " + good + "# TYPE x gauge\n#\n" + good, 1, 0, 7},
		{"escapes", series(recIn, 0, "7", "job_name", `a\"b\\c\nd}`, "host", `x\",tm_id=\"y`), 1, 0, 7},
		{"NaN", series(recIn, 0, "NaN"), 1, 0, 0},
		{"+Inf", series(recIn, 0, "+Inf"), 1, 0, 0},
		{"negative", series(recIn, 0, "-1"), 1, 0, 0},
		{"exponent", series(recIn, 0, "1.5E7"), 1, 0, 1.5e7},
		{"several series of one execution", good + series("flink_taskmanager_job_task_x", 0, "1"), 1, 0, 7},
		{"source", series(recIn, 0, "0") + series("flink_taskmanager_job_task_operator_numRecordsOut", 0, "9"), 1, 0, 9},
		{"operator within the chain", series(recIn, 0, "0") + series("flink_taskmanager_job_task_operator_numRecordsOut", 0, "9", "operator_id", "x"), 1, 0, 0},
		{"1.15: random id", series(recIn, 0, "7", "task_attempt_id", graph, "task_attempt_num", "3"), 1, 0, 7},
		{"1.15 without attempt number", series(recIn, 0, "7", "task_attempt_id", graph, "task_attempt_num", ""), 0, 1, 0},
		{"id of another vertex", series(recIn, 0, "7", "task_id", graph), 0, 1, 0},
		{"id of another subtask", series(recIn, 0, "7", "subtask_index", "1"), 0, 1, 0},
		{"no attempt id", series(recIn, 0, "7", "task_attempt_id", ""), 0, 1, 0},
		{"empty attempt id", strings.Replace(good, id(0), "", 1), 0, 1, 0},
		{"no job id", series(recIn, 0, "7", "job_id", ""), 0, 1, 0},
		{"no vertex id", series(recIn, 0, "7", "task_id", ""), 0, 1, 0},
		{"no subtask", series(recIn, 0, "7", "subtask_index", ""), 0, 1, 0},
		{"negative subtask", series(recIn, 0, "7", "task_attempt_id", graph, "subtask_index", "-1"), 0, 1, 0},
		{"no task", `flink_taskmanager_Status_JVM_Threads_Count{host="h",tm_id="tm_1",} 60.0` + "\n", 0, 0, 0},
		{"Beam split without a number", series("flink_taskmanager_job_task_operator_source_splits_elements_read", 0, "1"), 1, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Read(strings.NewReader(tc.text))
			if err != nil || len(got) != 1 {
				t.Fatalf("%d TaskManagers, %v", len(got), err)
			}
			r := got[0]
			if r.TaskManager != "tm_1" || len(r.Executions) != tc.executions || r.Unidentified != tc.unidentified {
				t.Fatalf("got %+v", r)
			}
			if tc.executions == 1 && r.Executions[0].RecordsIn != tc.records {
				t.Errorf("records %v, want %v", r.Executions[0].RecordsIn, tc.records)
			}
		})
	}
}

// TestValues: labels arrive as they were before they were escaped, and as text.
func TestValues(t *testing.T) {
	got, err := Read(strings.NewReader(series(recIn, 0, "7", "job_name", `a\"b\\c\nd`, "task_name", "x\xff\xfey")))
	if err != nil {
		t.Fatal(err)
	}
	e := got[0].Executions[0]
	if e.JobName != "a\"b\\c\nd" || e.VertexName != "x\uFFFDy" || e.JobID != job || e.VertexID != vertex || string(e.AttemptID) != id(0) {
		t.Errorf("got %+v", e)
	}
	got, err = Read(strings.NewReader(series(recIn, 2, "7", "task_attempt_id", graph, "task_attempt_num", "3")))
	if err != nil || got[0].Executions[0].Attempt != 3 || got[0].Executions[0].Subtask != 2 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestNoTaskManager: what is none of a TaskManager's reporter shows none, rather than one with nothing on it.
func TestNoTaskManager(t *testing.T) {
	for name, text := range map[string]string{
		"empty":                "",
		"a JobManager":         `flink_jobmanager_numRunningJobs{host="localhost",} 1.0` + "\n",
		"another exporter":     "# HELP up x\nup 1\n",
		"tm_id excluded":       series(recIn, 0, "7", "tm_id", ""),
		"tm_id empty":          strings.Replace(series(recIn, 0, "7"), `"tm_1"`, `""`, 1),
		"series without label": recIn + " 7\n",
	} {
		if got, err := Read(strings.NewReader(text)); err != nil || len(got) != 0 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// TestSeveral: one address may show several TaskManagers, such as a proxy that gathers them.
func TestSeveral(t *testing.T) {
	got, err := Read(strings.NewReader(series(recIn, 0, "7") + series(recIn, 1, "7", "tm_id", "tm_2") + series(recIn, 2, "7")))
	if err != nil || len(got) != 2 || len(got[0].Executions) != 2 || len(got[1].Executions) != 1 || got[1].TaskManager != "tm_2" {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestMalformed: what cannot be understood is an error for the whole, since a part would look like fewer executions.
func TestMalformed(t *testing.T) {
	good := series(recIn, 0, "7")
	for name, text := range map[string]string{
		"cut off within a line":                   good + good[:60],
		"cut off before the end of the last line": strings.TrimSuffix(good, "\n"),
		"HTML":              "<!DOCTYPE html>\n<html></html>\n",
		"HTML, indented":    "\n  <html></html>\n",
		"gzip":              "\x1f\x8b\x08\x00\x00\n",
		"JSON":              "{\"status\":\"success\"}\n",
		"no closing brace":  strings.Replace(good, ",}", "", 1),
		"no closing quote":  `flink_taskmanager_x{tm_id="a} 1` + "\n",
		"escape at the end": `flink_taskmanager_x{tm_id="a\` + "\n",
		"no quotes":         "flink_taskmanager_x{tm_id=a} 1\n",
		"no comma":          `flink_taskmanager_x{tm_id="a" host="b"} 1` + "\n",
		"no value":          `flink_taskmanager_x{tm_id="a"}` + "\n",
		"no number":         `flink_taskmanager_x{tm_id="a"} one` + "\n",
		"only a name":       "flink_taskmanager_x\n",
		"a very long line":  series(recIn, 0, "7", "job_name", strings.Repeat("x", maxLine)),
	} {
		if got, err := Read(strings.NewReader(text)); err == nil || got != nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := Read(strings.NewReader(good[:60])); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut off: %v", err)
	}
	if got, err := Read(strings.NewReader(series(recIn, 0, "7", "job_name", strings.Repeat("x", maxLine/2)))); err != nil || len(got) != 1 {
		t.Errorf("a long line: %v", err)
	}
}

// TestBounds: no exposition makes the exporter hold more than so much.
func TestBounds(t *testing.T) {
	executions := generate(maxExecutions+1, func(i int) string { return series(recIn, i, "1") })
	if _, err := Read(executions); err == nil || !strings.Contains(err.Error(), "executions") {
		t.Errorf("too many executions: %v", err)
	}
	tms := generate(maxTaskManagers+1, func(i int) string { return fmt.Sprintf("flink_taskmanager_x{tm_id=\"tm_%d\"} 1\n", i) })
	if _, err := Read(tms); err == nil || !strings.Contains(err.Error(), "TaskManagers") {
		t.Errorf("too many TaskManagers: %v", err)
	}
}

// generator reads n lines that are made as they are read.
type generator struct {
	n, i int
	line func(int) string
	rest string
	peak uint64
}

func generate(n int, line func(int) string) *generator { return &generator{n: n, line: line} }

func (g *generator) Read(p []byte) (int, error) {
	if g.rest == "" {
		if g.i == g.n {
			return 0, io.EOF
		}
		if g.i%10_000 == 0 && g.peak > 0 {
			runtime.GC()
			g.peak = max(g.peak, heap())
		}
		g.rest = g.line(g.i)
		g.i++
	}
	n := copy(p, g.rest)
	g.rest = g.rest[n:]
	return n, nil
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// busyTaskManager is an exposition of 50 MB: 100 executions with 1,000 series each.
func busyTaskManager() (g *generator, size int) {
	var lines []string
	for i := range 100 {
		lines = append(lines, series("flink_taskmanager_job_task_operator_a_metric_of_some_name", i, "12345.0", "job_name", strings.Repeat("n", 120)))
	}
	g = generate(100_000, func(i int) string { return lines[i%100] })
	return g, 100_000 * len(lines[0])
}

// TestMemory: reading 50 MB does not take 50 MB.
func TestMemory(t *testing.T) {
	g, size := busyTaskManager()
	if size < 50_000_000 {
		t.Fatalf("only %d bytes", size)
	}
	runtime.GC()
	before := heap()
	g.peak = before
	got, err := Read(g)
	if err != nil || len(got) != 1 || len(got[0].Executions) != 100 {
		t.Fatalf("%d, %v", len(got), err)
	}
	if used := g.peak - before; used > 2<<20 {
		t.Errorf("%d bytes were in use", used)
	}
}

func BenchmarkRead50MB(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		g, size := busyTaskManager()
		b.SetBytes(int64(size))
		if _, err := Read(g); err != nil {
			b.Fatal(err)
		}
	}
}

// oracle reads an exposition with Prometheus' own parser: the executions by TaskManager, as text.
func oracle(text []byte) (map[string]bool, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for name, f := range families {
		if !strings.HasPrefix(name, string(prefixTask)) {
			continue
		}
		for _, m := range f.Metric {
			l := map[string]string{}
			for _, p := range m.Label {
				l[p.GetName()] = strings.ToValidUTF8(p.GetValue(), "\uFFFD")
			}
			if l["tm_id"] != "" && l["job_id"] != "" && l["task_id"] != "" && l["subtask_index"] != "" && l["task_attempt_id"] != "" {
				found[strings.Join([]string{l["tm_id"], l["job_id"], l["task_id"], l["subtask_index"], l["task_attempt_id"]}, " ")] = true
			}
		}
	}
	return found, nil
}

// shown are the executions of readings in the oracle's form.
func shown(readings []Reading) map[string]bool {
	found := map[string]bool{}
	for _, r := range readings {
		for _, e := range r.Executions {
			found[strings.Join([]string{r.TaskManager, e.JobID, e.VertexID, fmt.Sprint(e.Subtask), string(e.AttemptID)}, " ")] = true
		}
	}
	return found
}

// TestRecordings: every recorded exposition shows what Prometheus' own parser finds in it.
func TestRecordings(t *testing.T) {
	names, err := fs.Glob(recordings.FS, "*.json.gz")
	if err != nil || len(names) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	all := 0
	for _, name := range names {
		rec, err := recording.LoadFS(recordings.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, tm := range rec.TaskManagers {
			if tm.Status != 200 {
				continue
			}
			want, err := oracle([]byte(tm.Metrics))
			if err != nil {
				t.Fatal(err)
			}
			got, err := Read(strings.NewReader(tm.Metrics))
			if err != nil || len(got) != 1 {
				t.Errorf("%s: %d TaskManagers, %v", name, len(got), err)
				continue
			}
			if !maps.Equal(shown(got), want) || got[0].Unidentified != 0 {
				t.Errorf("%s: got %v, want %v, unidentified %d", name, shown(got), want, got[0].Unidentified)
			}
			all += len(want)
		}
	}
	if all < 50 {
		t.Errorf("only %d executions in all recordings", all)
	}
}

// FuzzRead: whatever the text, what is read agrees with Prometheus' own parser where both accept it.
func FuzzRead(f *testing.F) {
	f.Add([]byte(series(recIn, 0, "7") + series(recIn, 1, "NaN", "job_name", `a\"b\\c\nd`)))
	f.Add([]byte(series(recIn, 0, "7", "task_attempt_id", graph)))
	f.Add([]byte(series("flink_taskmanager_job_task_operator_source_splits_0_elements_read", 0, "1")))
	f.Add([]byte("flink_taskmanager_x { tm_id = \"a\" , } 1 1700000000000\n"))
	f.Add([]byte("# HELP a b\n# TYPE a gauge\na 1\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := Read(bytes.NewReader(text))
		if err != nil {
			if got != nil {
				t.Fatal("a result beside the error")
			}
			return
		}
		unidentified := 0
		for _, r := range got {
			unidentified += r.Unidentified
			for _, e := range r.Executions {
				if e.Subtask < 0 || e.Attempt < 0 || e.JobID == "" || e.VertexID == "" || e.AttemptID == "" || math.IsNaN(e.RecordsIn) ||
					math.IsInf(e.RecordsIn, 0) || e.RecordsIn < 0 {
					t.Fatalf("%+v", e)
				}
				if k, ok := lineage.AttemptID(e.AttemptID).Parse(); ok && (k.Vertex != e.VertexID || k.Subtask != e.Subtask) {
					t.Fatalf("%+v", e)
				}
			}
		}
		want, err := oracle(text)
		if err != nil || unidentified > 0 {
			return
		}
		seen := shown(got)
		for x := range want {
			// A number may be written in more ways than one.
			if !seen[x] && !strings.Contains(x, " +") && !strings.Contains(x, " 0") && !strings.ContainsRune(x, '\uFFFD') {
				t.Fatalf("missed %q: %v", x, seen)
			}
		}
	})
}
