package recording

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/flink-lineage/flink-lineage-exporter/internal/lineage"
)

// decoded returns an answer, or nil.
func decoded(t *testing.T, jm JobManager, path string) map[string]any {
	t.Helper()
	var v map[string]any
	if resp, ok := jm.Responses[path]; ok && resp.Status == 200 {
		if err := json.Unmarshal(resp.Body, &v); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	return v
}

// list returns the objects of a list.
func list(v any) []map[string]any {
	elements, _ := v.([]any)
	var out []map[string]any
	for _, e := range elements {
		if m, ok := e.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// fact is one statement of one view; the same statement of a recording and of its anonymized copy have the same place in facts.
type fact struct {
	view string
	// names are what anonymizing may replace, rest what it must keep.
	names map[string]string
	rest  string
}

var (
	lockOwner    = regexp.MustCompile(` owned by "[^"]*"`)
	taskThread   = regexp.MustCompile(`(?s)^(|.* for |Legacy Source Thread - )((?:Source: )?[^:]*?(?: -> .*)?) (\(\d+/\d+\)#\d+)(?: \((.*)\)\.)?$`)
	taskSeries   = "flink_taskmanager_job_task_numRecordsIn{"
	hasAddress   = regexp.MustCompile(`\d+\.\d+`)
	labelPattern = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"`)
)

// facts lists what the views say, in an order that does not depend on names.
func facts(t *testing.T, r *Recording) []fact {
	t.Helper()
	var out []fact
	for _, jm := range r.JobManagers {
		for _, job := range list(decoded(t, jm, "/jobs/overview")["jobs"]) {
			jid := fmt.Sprint(job["jid"])
			out = append(out, fact{"jobs", map[string]string{"job": jid, "job name": fmt.Sprint(job["name"])}, fmt.Sprint(job["state"], job["start-time"], job["tasks"])})
			for _, vertex := range list(decoded(t, jm, "/jobs/"+jid)["vertices"]) {
				id := fmt.Sprint(vertex["id"])
				out = append(out, fact{"vertices", map[string]string{"job": jid, "vertex": id, "vertex name": fmt.Sprint(vertex["name"])}, fmt.Sprint(vertex["tasks"])})
				for _, subtask := range list(decoded(t, jm, "/jobs/"+jid+"/vertices/"+id)["subtasks"]) {
					out = append(out, fact{"subtasks", map[string]string{"vertex": id, "tm": fmt.Sprint(subtask["taskmanager-id"])},
						fmt.Sprint(subtask["subtask"], subtask["attempt"], subtask["status"], subtask["start-time"], subtask["status-duration"])})
				}
			}
		}
		for _, tm := range list(decoded(t, jm, "/taskmanagers")["taskmanagers"]) {
			id := fmt.Sprint(tm["id"])
			out = append(out, fact{"taskmanagers", map[string]string{"tm": id}, fmt.Sprint(tm["slotsNumber"], tm["freeSlots"], tm["assignedTasks"], tm["timeSinceLastHeartbeat"])})
			for _, thread := range list(decoded(t, jm, "/taskmanagers/"+id+"/thread-dump")["threadInfos"]) {
				name, stack := fmt.Sprint(thread["threadName"]), fmt.Sprint(thread["stringifiedThreadInfo"])
				first, frames, _ := strings.Cut(stack, "\n")
				names := map[string]string{"tm": id}
				rest := name
				if m := taskThread.FindStringSubmatch(name); m != nil {
					names["vertex name"] = m[2]
					names["attempt"] = m[4]
					rest = m[1] + m[3]
				} else if hasAddress.MatchString(name) {
					rest = ""
				}
				if !strings.HasPrefix(first, `"`+name+`" Id=`) {
					t.Errorf("thread %q begins with %q", name, first)
				}
				// The owner of a lock is another thread, whose name has its own fact.
				kept := lockOwner.ReplaceAllString(strings.TrimPrefix(first, `"`+name+`"`), " owned by another")
				for frame := range strings.SplitSeq(frames, "\n") {
					if strings.Contains(frame, "org.apache.") {
						kept += frame
					}
				}
				out = append(out, fact{"threads", names, rest + kept})
			}
		}
	}
	for _, tm := range r.TaskManagers {
		for line := range strings.SplitSeq(tm.Metrics, "\n") {
			if !strings.HasPrefix(line, taskSeries) {
				continue
			}
			labels := map[string]string{}
			for _, m := range labelPattern.FindAllStringSubmatch(line, -1) {
				labels[m[1]] = m[2]
			}
			out = append(out, fact{"reporter", map[string]string{
				"job": labels["job_id"], "job label": labels["job_name"], "vertex": labels["task_id"], "vertex label": labels["task_name"],
				"tm label": labels["tm_id"], "attempt": labels["task_attempt_id"],
			}, labels["subtask_index"] + " " + labels["task_attempt_num"] + line[strings.Index(line, "}"):]})
		}
	}
	return out
}

func TestAnonymizeRecordings(t *testing.T) {
	forEachRecording(t, func(t *testing.T, r *Recording) {
		after := r.clone()
		Anonymize(after)
		if err := after.validate(); err != nil {
			t.Fatal(err)
		}
		before := facts(t, r)
		checkJoins(t, before, facts(t, after))
		checkGone(t, r, before, after)
	})
}

func TestAnonymizeIsReproducible(t *testing.T) {
	all, err := loaded()
	if err != nil {
		t.Fatal(err)
	}
	one := all["2.3.0-healthy.json.gz"].clone()
	two := one.clone()
	Anonymize(one)
	Anonymize(two)
	if !reflect.DeepEqual(one, two) {
		t.Error("anonymizing twice gives two recordings")
	}
}

// checkJoins checks that what says the same of the same thing before still does.
func checkJoins(t *testing.T, before, after []fact) {
	t.Helper()
	if len(before) != len(after) || len(before) == 0 {
		t.Fatalf("%d facts, %d afterwards", len(before), len(after))
	}
	forth, back := map[string]string{}, map[string]string{}
	for i, b := range before {
		a := after[i]
		if b.view != a.view || b.rest != a.rest {
			t.Errorf("%s: %q\nafterwards %q", b.view, b.rest, a.rest)
		}
		for kind, name := range b.names {
			got := a.names[kind]
			if f, ok := forth[kind+name]; ok && f != got {
				t.Errorf("%s: %s %q became %q and %q", b.view, kind, name, f, got)
			}
			if o, ok := back[kind+got]; ok && o != name {
				t.Errorf("%s: %s %q and %q became %q", b.view, kind, o, name, got)
			}
			forth[kind+name], back[kind+got] = got, name
			if name != "" && name != "(unassigned)" && name == got && strings.Trim(name, "0") != "" {
				t.Errorf("%s: %s %q stayed", b.view, kind, name)
			}
		}
		if b.view == "reporter" {
			id := strings.Split(a.names["attempt"], "_")
			if parts := strings.Split(b.names["attempt"], "_"); len(parts) != len(id) || len(id) == 4 && (id[1] != a.names["vertex"] || id[2] != parts[2] || id[3] != parts[3]) {
				t.Errorf("attempt id %v became %v of vertex %s", parts, id, a.names["vertex"])
			}
		}
	}
	for kindName, got := range forth {
		for _, kind := range []string{"tm", "job name", "vertex name"} {
			name, ok := strings.CutPrefix(kindName, kind)
			label, has := forth[strings.TrimSuffix(kind, " name")+" label"+lineage.Sanitize(name)]
			if ok && has && label != lineage.Sanitize(got) {
				t.Errorf("%s %q became %q, but %q in labels", kind, name, got, label)
			}
		}
		if name, ok := strings.CutPrefix(kindName, "vertex name"); ok {
			if strings.Count(name, " -> ") != strings.Count(got, " -> ") || strings.HasPrefix(name, "Source: ") != strings.HasPrefix(got, "Source: ") ||
				strings.Count(name, "Sink: ") != strings.Count(got, "Sink: ") {
				t.Errorf("vertex %q became %q", name, got)
			}
		}
	}
}

// originals lists what must be gone.
func originals(t *testing.T, r *Recording, facts []fact) []string {
	t.Helper()
	found := map[string]bool{"127.0.0.1": true, "127_0_0_1": true, "localhost": true, "/opt/lab": true, "lab.Zombie": true, "Stubborn": true, "ZombieJob": true}
	for _, f := range facts {
		for kind, name := range f.names {
			if name != "" && name != "(unassigned)" && strings.Trim(name, "0") != "" {
				found[name] = true
			}
			if kind == "vertex name" {
				for operator := range strings.SplitSeq(name, " -> ") {
					operator = strings.TrimPrefix(strings.TrimPrefix(operator, "Source: "), "Sink: ")
					if len(operator) >= 5 {
						found[operator] = true
						found[lineage.Sanitize(operator)] = true
					}
				}
			}
		}
	}
	paths := regexp.MustCompile(`(?:file:|")(/[^\s"]+/[^\s"]+)`)
	for _, jm := range r.JobManagers {
		for path, resp := range jm.Responses {
			if path == "/jobmanager/config" || path == "/jobmanager/environment" || strings.HasSuffix(path, "/checkpoints") {
				for _, m := range paths.FindAllStringSubmatch(string(resp.Body), -1) {
					found[strings.TrimLeft(m[1], "/")] = true
				}
			}
			if strings.HasSuffix(path, "/config") && strings.HasPrefix(path, "/jobs/") && resp.Status == 200 {
				config, _ := decoded(t, jm, path)["execution-config"].(map[string]any)
				user, _ := config["user-config"].(map[string]any)
				for _, key := range []string{"bootstrapServerList", "group", "jdbcUrl", "table", "topic"} {
					// A group called flink is not told from Flink's own words, and tells nobody.
					if value, ok := user[key].(string); ok && value != "flink" {
						found[value] = true
						// Its sanitised form is in the names of metrics.
						found["_"+lineage.Sanitize(value)+"_"] = true
					}
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// checkGone searches the anonymized recording for what may tell whose it was.
func checkGone(t *testing.T, r *Recording, facts []fact, after *Recording) {
	t.Helper()
	plain, err := r.marshal()
	if err != nil {
		t.Fatal(err)
	}
	text, err := after.marshal()
	if err != nil {
		t.Fatal(err)
	}
	for _, original := range originals(t, r, facts) {
		quoted, err := encode(original)
		if err != nil {
			t.Fatal(err)
		}
		if i := wordIndex(string(text), strings.Trim(string(quoted), `"`)); i >= 0 {
			t.Errorf("%q is still there: ...%s...", original, text[max(0, i-60):min(len(text), i+100)])
		}
	}
	if len(text) < len(plain)/3 {
		t.Errorf("%d of %d bytes are left", len(text), len(plain))
	}
}

// wordIndex is where s has the word, and not as part of a longer one: a vertex called Write is not in WriterThread.
func wordIndex(s, word string) int {
	letter := func(i int) bool {
		return i >= 0 && i < len(s) && (s[i] >= 'a' && s[i] <= 'z' || s[i] >= 'A' && s[i] <= 'Z')
	}
	for from := 0; ; {
		i := strings.Index(s[from:], word)
		if i < 0 {
			return -1
		}
		if i += from; !letter(i-1) && !letter(i+len(word)) {
			return i
		}
		from = i + len(word)
	}
}
