package collector

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flink-lineage/flink-lineage-exporter/internal/lineage"
)

var (
	jobState = declare(Metric{
		Name: "job_state", Type: prometheus.GaugeValue, Labels: with(jobLabels, "state"), Collector: Jobs, Stability: Stable,
		Help:   "State of the job: 1 for the state it is in, 0 for the others.",
		Source: "/jobs/overview",
	})
	jobStart = declare(Metric{
		Name: "job_start_timestamp_seconds", Type: prometheus.GaugeValue, Labels: jobLabels, Collector: Jobs, Stability: Stable,
		Help:   "When the leader took up the job. Changes when a JobManager takes the job over, not at an ordinary restart.",
		Source: "/jobs/overview",
	})
	jobFailovers = declare(Metric{
		Name: "job_failovers_total", Type: prometheus.CounterValue, Labels: jobLabels, Collector: Jobs, Stability: Stable,
		Help:   "Changes of the job's start time seen by this exporter: a JobManager took the job over.",
		Source: "/jobs/overview, remembered between scrapes",
	})
	jobRestoredAfterEnd = declare(Metric{
		Name: "job_restored_after_end_total", Type: prometheus.CounterValue, Labels: jobLabels, Collector: Jobs, Stability: Experimental,
		Help:   "Times this exporter saw the job run again after it had finished, failed or been canceled.",
		Source: "/jobs/overview, remembered between scrapes",
	})
	jobTasks = declare(Metric{
		Name: "job_tasks", Type: prometheus.GaugeValue, Labels: with(jobLabels, "state"), Collector: Jobs, Stability: Stable,
		Help:   "Tasks of the job by state.",
		Source: "/jobs/overview",
	})
	surplusJobs = declare(Metric{
		Name: "surplus_jobs", Type: prometheus.GaugeValue, Labels: []string{"job_name"}, Collector: Jobs, Stability: Experimental,
		Help:   "Jobs of this name that have not ended, beyond the first. Names allowed by --job.allow-same-name are left out.",
		Source: "/jobs/overview",
	})
)

func collectJobs(e *exposition, r *lineage.Report) {
	for i := range r.Jobs {
		j := &r.Jobs[i]
		if j.Leader == nil {
			continue
		}
		set(e, jobState, lineage.JobStates, j.Leader.State, j.ID, j.Name)
		e.timestamp(jobStart, j.Leader.StartTime, j.ID, j.Name)
		e.add(jobFailovers, float64(j.Failovers), j.ID, j.Name)
		e.add(jobRestoredAfterEnd, float64(j.RestoredAfterEnd), j.ID, j.Name)
		e.tasks(jobTasks, j.Leader.Tasks, j.ID, j.Name)
	}
	for name, n := range r.SurplusJobs {
		e.add(surplusJobs, float64(n), name)
	}
}

// tasks adds the number of tasks in each state, zero included.
func (e *exposition) tasks(m *Metric, tasks map[lineage.ExecutionState]int, labels ...string) {
	for _, s := range lineage.ExecutionStates {
		e.add(m, float64(tasks[s]), append(slices.Clip(labels), strings.ToLower(string(s)))...)
	}
}
