package cluster_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flink-lineage/flink-lineage-exporter/collector"
	"github.com/flink-lineage/flink-lineage-exporter/internal/cluster"
	"github.com/flink-lineage/flink-lineage-exporter/internal/config"
	"github.com/flink-lineage/flink-lineage-exporter/internal/flink/flinktest"
)

// expose scrapes c and returns each series with its value.
func expose(t *testing.T, c *cluster.Cluster) map[string]float64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	result, err := c.Scrape(ctx)
	if err != nil {
		t.Fatal(err)
	}
	enabled := map[string]bool{}
	for _, name := range collector.Names {
		enabled[name] = true
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector.New(result, collector.Options{Enabled: enabled, MaxAttemptSeries: 1000}))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			name := strings.TrimPrefix(f.GetName(), "flink_lineage_") + "{"
			for _, l := range m.Label {
				if l.GetName() != "jobmanager" {
					name += l.GetName() + "=" + l.GetValue() + ","
				}
			}
			series[name+"}"] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return series
}

// lost is what is to be lost when an endpoint fails.
type lost struct {
	// failed are the collectors whose success is 0, absent the prefixes of series that are absent, verdict the one on the job, if any.
	failed, absent []string
	verdict        string
}

const verdictUnknown = "unknown"

var losses = map[string]lost{
	"/overview": {[]string{"cluster"}, []string{"cluster_info", "slots{"}, "ok"},
	"/jobs/overview": {
		[]string{"attempts", "cluster", "jobs", "lineage", "reporter", "slots", "taskmanagers", "threads", "vertices"},
		[]string{
			"cluster_info", "slots{", "job_state", "job_start", "job_failovers", "job_restored", "job_tasks", "vertex_tasks", "task_attempt",
			"taskmanagers", "taskmanager_slots", "taskmanager_last", "taskmanager_unaccounted", "duplicate_", "orphan_", "view_coverage_ratio",
			"surplus_jobs", "job_starved",
		}, verdictUnknown,
	},
	"/jobs/:jobid": {
		[]string{"attempts", "lineage", "vertices"}, []string{"vertex_tasks", "task_attempt{", "orphan_executions"}, verdictUnknown,
	},
	"/jobs/:jobid/vertices/:vertexid": {
		[]string{"attempts", "lineage", "vertices"}, []string{"task_attempt{", "orphan_executions"}, verdictUnknown,
	},
	"/taskmanagers": {
		[]string{"lineage", "reporter", "slots", "taskmanagers", "threads"},
		[]string{"taskmanagers{", "taskmanager_slots", "taskmanager_last", "taskmanager_unaccounted", "duplicate_subtasks", "view_coverage_ratio"},
		verdictUnknown,
	},
	"/taskmanagers/:taskmanagerid": {[]string{"slots"}, nil, "ok"},
	"/taskmanagers/:taskmanagerid/thread-dump": {
		[]string{"threads"}, []string{"taskmanager_thread_dump", "orphan_threads", "duplicate_subtasks{job_id=00000000217e81b80000000000000000,job_name=beam-pipeline,view=threads"}, "ok",
	},
}

// mayDiffer are the series whose value is not what it is with all endpoints well.
var mayDiffer = []string{
	"scrape_collector_", "job_verdict{", "view_coverage_ratio{view=threads", "jobmanager_electing", "up{", "jobmanager_up{",
	"taskmanager_thread_dump_timestamp", "taskmanager_tasks{job_id=,",
}

func hasPrefix(s string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s, p) })
}

// TestFailures: when an endpoint fails, in whichever way, the series that rest on it are absent, its collectors say so, and every other
// series has the value it has otherwise.
func TestFailures(t *testing.T) {
	rec := flinktest.Load(t, "2.3.0-healthy")
	reporters := replay(t, rec).ReporterURLs()
	whole := expose(t, watch(t, []string{flinktest.Serve(t, rec.JobManagers[0]).URL}, reporters))
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	t.Cleanup(func() {
		other.Close()
		if elsewhere.Load() > 0 {
			t.Error("a redirect was followed")
		}
	})
	faults := []flinktest.Fault{
		flinktest.Flink("404", 404, "Not found."), flinktest.Flink("500", 500, "Internal server error."),
		flinktest.Flink("503", 503, flinktest.Election), flinktest.Hang, flinktest.HalfClosed, flinktest.Truncated,
		flinktest.Answer("null", 200, "application/json", "null"), flinktest.Answer("missing fields", 200, "application/json", "{}"),
		flinktest.Answer("wrong types", 200, "application/json", `{"jobs":7,"vertices":"x","subtasks":{},"taskmanagers":[7],"allocatedSlots":true,`+
			`"threadInfos":{},"slots-total":"4","jid":1,"flink-version":1}`),
		flinktest.Answer("HTML login page", 200, "text/html", flinktest.Login), flinktest.Redirect(other.URL), flinktest.Padded(64 << 20),
		flinktest.Endless,
	}
	for endpoint, want := range losses {
		for _, f := range faults {
			if big := f.Name == flinktest.Endless.Name || f.Name == "oversized body"; big && endpoint != "/overview" && !strings.HasSuffix(endpoint, "dump") {
				continue // the limit is the client's and tested there for each endpoint; here with its real size
			}
			if f.Name == "404" && (endpoint == "/jobs/:jobid" || strings.HasSuffix(endpoint, ":vertexid")) {
				want.failed = nil // gone in between, which is no failure
			}
			t.Run(endpoint+" "+f.Name, func(t *testing.T) {
				s := flinktest.Serve(t, rec.JobManagers[0])
				c := watch(t, []string{s.URL}, reporters, func(c *config.Cluster) {
					c.Threads.Interval = 0
					if f.Name == flinktest.Hang.Name {
						c.Timeout = 2 * time.Second
					}
				})
				expose(t, c) // all is well before
				s.Fail(endpoint, f)
				got := expose(t, c)
				check(t, endpoint, want, whole, got)
			})
			want = losses[endpoint]
		}
	}
}

func check(t *testing.T, endpoint string, want lost, whole, got map[string]float64) {
	t.Helper()
	for name, value := range got {
		if hasPrefix(name, want.absent) {
			t.Errorf("%s %v is served", name, value)
		}
		if v, ok := whole[name]; !hasPrefix(name, mayDiffer) && (!ok || v != value) {
			t.Errorf("%s is %v, and %v (%t) with all endpoints well", name, value, v, ok)
		}
	}
	for name := range whole {
		if _, ok := got[name]; !ok && !hasPrefix(name, want.absent) && !absentTasks(endpoint, name) && !hasPrefix(name, []string{"taskmanager_unaccounted"}) {
			t.Errorf("%s is absent", name)
		}
		collector, ok := strings.CutPrefix(name, "scrape_collector_success{collector=")
		if !ok {
			continue
		}
		collector = strings.TrimSuffix(collector, ",}")
		if success := got[name]; (success == 0) != slices.Contains(want.failed, collector) {
			t.Errorf("success of %s is %v", collector, success)
		}
	}
	for _, v := range []string{"ok", "duplicate", "orphan", verdictUnknown} {
		name := "job_verdict{job_id=00000000217e81b80000000000000000,job_name=beam-pipeline,verdict=" + v + ",}"
		if value, ok := got[name]; ok != (want.verdict != "") || (value == 1) != (v == want.verdict) {
			t.Errorf("verdict %s is %v", v, value)
		}
	}
	leads := 1.0
	if endpoint == "/jobs/overview" {
		leads = 0
	}
	if got["up{}"] != leads {
		t.Errorf("up is %v", got["up{}"])
	}
}

// absentTasks is whether a series of executions by view or by job cannot be served for want of the endpoint.
func absentTasks(endpoint, name string) bool {
	tasks := strings.HasPrefix(name, "taskmanager_tasks{")
	switch {
	case strings.HasPrefix(endpoint, "/jobs/:jobid"):
		return tasks && strings.Contains(name, "view=jobmanager") || strings.HasPrefix(name, "duplicate_subtasks") ||
			strings.HasPrefix(name, "taskmanager_tasks{job_id=0") && strings.Contains(name, "view=threads") || hasPrefix(name, []string{"job_starved", "orphan_threads"})
	case endpoint == "/taskmanagers":
		return tasks || strings.HasPrefix(name, "orphan_threads") || strings.HasPrefix(name, "taskmanager_thread_dump") || strings.HasPrefix(name, "job_starved")
	case strings.HasSuffix(endpoint, "thread-dump"):
		return tasks && strings.Contains(name, "view=threads")
	case endpoint == "/jobs/overview":
		return tasks || hasPrefix(name, []string{"taskmanager_thread_dump", "jobmanager_"})
	}
	return false
}
