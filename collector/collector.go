package collector

import (
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flink-lineage/flink-lineage-exporter/internal/cluster"
	"github.com/flink-lineage/flink-lineage-exporter/internal/flink"
	"github.com/flink-lineage/flink-lineage-exporter/internal/lineage"
)

// The collectors: groups of metrics that can be turned off and whose success is exposed.
const (
	JobManagers  = "jobmanagers"
	Cluster      = "cluster"
	Jobs         = "jobs"
	Vertices     = "vertices"
	Attempts     = "attempts"
	TaskManagers = "taskmanagers"
	Slots        = "slots"
	Lineage      = "lineage"
	Ledger       = "ledger"
)

// Names lists the collectors.
var Names = []string{JobManagers, Cluster, Jobs, Vertices, Attempts, TaskManagers, Slots, Lineage, Ledger}

// Help says what each collector is for.
var Help = map[string]string{
	JobManagers:  "how each JobManager answers and whether they agree",
	Cluster:      "version and slots of the cluster (/overview)",
	Jobs:         "state, start time and tasks of each job (/jobs/overview)",
	Vertices:     "tasks of each vertex (/jobs/:jobid and its vertices)",
	Attempts:     "attempt number of each subtask and the TaskManager it is on",
	TaskManagers: "TaskManagers, their slots, heartbeats and executions (/taskmanagers)",
	Slots:        "slots that no job explains (/taskmanagers/:taskmanagerid)",
	Lineage:      "the verdict: duplicates, orphans and what they rest on",
	Ledger:       "records out of each source, and against records produced (--kafka.brokers)",
}

// parts says which parts of a scrape a collector's metrics rest on.
var parts = map[string][]string{
	JobManagers:  {},
	Cluster:      {flink.PartOverview},
	Jobs:         {flink.PartJobs},
	Vertices:     {flink.PartVertices},
	Attempts:     {flink.PartVertices},
	TaskManagers: {flink.PartTaskManagers},
	Slots:        {flink.PartTaskManagers, flink.PartSlots},
	Lineage:      {flink.PartJobs, flink.PartVertices, flink.PartTaskManagers},
	Ledger:       {cluster.PartLedger},
}

// Options are the operator's settings.
type Options struct {
	// Enabled has the collectors to expose.
	Enabled map[string]bool
	// MaxAttemptSeries caps task_attempt.
	MaxAttemptSeries int
}

// Collector exposes the result of one scrape. It is made anew for each scrape, so that no series can outlive what it is about.
type Collector struct {
	result  *cluster.Result
	options Options
}

// New returns a Collector of a scrape's result.
func New(result *cluster.Result, options Options) *Collector {
	return &Collector{result: result, options: options}
}

// Describe implements prometheus.Collector: every metric there can be.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range table {
		ch <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	e := &exposition{ch: ch, options: c.options, parts: c.result.Parts}
	r := c.result.Report
	for _, x := range []struct {
		name    string
		collect func(*exposition, *lineage.Report)
	}{
		{JobManagers, collectJobManagers},
		{Cluster, collectCluster},
		{Jobs, collectJobs},
		{Vertices, collectVertices},
		{Attempts, collectAttempts},
		{TaskManagers, collectTaskManagers},
		{Slots, collectSlots},
		{Lineage, collectLineage},
	} {
		if c.options.Enabled[x.name] {
			x.collect(e, r)
		}
	}
	if c.options.Enabled[Ledger] {
		collectLedger(e, c.result.Balances)
	}
	e.collectors()
}

// exposition is where the collect functions write.
type exposition struct {
	ch      chan<- prometheus.Metric
	options Options
	parts   map[string]flink.Part
}

func (e *exposition) add(m *Metric, value float64, labels ...string) {
	e.ch <- prometheus.MustNewConstMetric(m.desc, m.Type, value, labels...)
}

// set adds one series of a state set: 1 for the state it is in and 0 for the others.
func set[S ~string](e *exposition, m *Metric, states []S, current S, labels ...string) {
	for _, s := range states {
		e.add(m, boolValue(s == current), append(slices.Clone(labels), string(s))...)
	}
}

// timestamp adds an instant; none for the zero time.
func (e *exposition) timestamp(m *Metric, t time.Time, labels ...string) {
	if !t.IsZero() {
		e.add(m, float64(t.UnixMilli())/1000, labels...)
	}
}

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

var (
	collectorSuccess = declare(Metric{
		Name: "scrape_collector_success", Type: prometheus.GaugeValue, Labels: []string{"collector"},
		Help:   "Whether everything this collector rests on could be read in this scrape. What could not be read is absent.",
		Source: "exporter", Stability: Stable,
	})
	collectorDuration = declare(Metric{
		Name: "scrape_collector_duration_seconds", Type: prometheus.GaugeValue, Labels: []string{"collector"},
		Help:   "Time it took to read what this collector rests on.",
		Source: "exporter", Stability: Stable,
	})
)

// collectors adds how each collector and each view of the TaskManagers fared.
func (e *exposition) collectors() {
	rest := maps.Clone(parts)
	for _, name := range []string{cluster.PartReporter, cluster.PartThreads} {
		if _, on := e.parts[name]; on {
			rest[name] = []string{name}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rest)) {
		if enabled, known := e.options.Enabled[name]; known && !enabled {
			continue
		}
		var took time.Duration
		success := true
		for _, p := range rest[name] {
			took = max(took, e.parts[p].Took)
			success = success && e.parts[p].Err == nil
		}
		e.add(collectorSuccess, boolValue(success), name)
		e.add(collectorDuration, took.Seconds(), name)
	}
}
