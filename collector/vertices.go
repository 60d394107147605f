package collector

import (
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flink-lineage/flink-lineage-exporter/internal/lineage"
)

var (
	vertexTasks = declare(Metric{
		Name: "vertex_tasks", Type: prometheus.GaugeValue, Labels: with(vertexLabels, "state"), Collector: Vertices, Stability: Stable,
		Help:   "Tasks of the vertex by state.",
		Source: "/jobs/:jobid",
	})
	taskStateSince = declare(Metric{
		Name: "job_task_state_since_timestamp_seconds", Type: prometheus.GaugeValue, Labels: with(jobLabels, "state"),
		Collector: Vertices, Stability: Experimental,
		Help: "When the task that is longest in this state entered it; only for states a task should soon leave, and only while one is in it. " +
			"Before Flink 1.16 the first scrape that saw it so.",
		Source: "/jobs/:jobid/vertices/:vertexid",
	})
	taskAttempt = declare(Metric{
		Name: "task_attempt", Type: prometheus.GaugeValue, Labels: append([]string{"tm_id"}, with(vertexLabels, "subtask")...),
		Collector: Attempts, Stability: Stable,
		Help:   "Attempt number of the subtask's execution on this TaskManager. At most --collector.attempts.max-series series.",
		Source: "/jobs/:jobid/vertices/:vertexid",
	})
	taskAttemptDropped = declare(Metric{
		Name: "task_attempt_series_dropped", Type: prometheus.GaugeValue, Collector: Attempts, Stability: Stable,
		Help:   "Series of task_attempt left out because there would be more than --collector.attempts.max-series.",
		Source: "exporter",
	})
)

func collectVertices(e *exposition, r *lineage.Report) {
	for i := range r.Jobs {
		j := &r.Jobs[i]
		if j.Leader == nil {
			continue
		}
		for k := range j.Leader.Vertices {
			v := &j.Leader.Vertices[k]
			e.tasks(vertexTasks, v.Tasks, j.ID, j.Name, v.ID, v.Name)
		}
		for _, s := range lineage.TransitionalStates {
			e.timestamp(taskStateSince, j.StateSince[s], j.ID, j.Name, strings.ToLower(string(s)))
		}
	}
}

func collectAttempts(e *exposition, r *lineage.Report) {
	if r.Snapshot.Leader == nil {
		return
	}
	exposed, dropped := 0, 0
	for i := range r.Jobs {
		j := &r.Jobs[i]
		if j.Leader == nil {
			continue
		}
		for k := range j.Leader.Vertices {
			v := &j.Leader.Vertices[k]
			for _, x := range attempts(v) {
				if exposed == e.options.MaxAttemptSeries {
					dropped++
					continue
				}
				exposed++
				e.add(taskAttempt, float64(x.Attempt), x.TaskManager, j.ID, j.Name, v.ID, v.Name, strconv.Itoa(x.Subtask))
			}
		}
	}
	e.add(taskAttemptDropped, float64(dropped))
}

// attempts are the vertex' executions on TaskManagers, by subtask. Of two of one subtask on one TaskManager, which speculative execution
// does not make, the younger is kept: they would be one series.
func attempts(v *lineage.Vertex) []lineage.Execution {
	deployed := slices.DeleteFunc(slices.Clone(v.Executions), func(x lineage.Execution) bool {
		return !x.State.Deployed() || x.TaskManager == ""
	})
	slices.SortFunc(deployed, func(a, b lineage.Execution) int {
		if c := a.Subtask - b.Subtask; c != 0 {
			return c
		}
		if c := strings.Compare(a.TaskManager, b.TaskManager); c != 0 {
			return c
		}
		return b.Attempt - a.Attempt
	})
	return slices.CompactFunc(deployed, func(a, b lineage.Execution) bool {
		return a.Subtask == b.Subtask && a.TaskManager == b.TaskManager
	})
}
