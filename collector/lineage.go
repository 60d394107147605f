package collector

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flink-lineage/flink-lineage-exporter/internal/lineage"
)

var (
	jobVerdict = declare(Metric{
		Name: "job_verdict", Type: prometheus.GaugeValue, Labels: with(jobLabels, "verdict"), Collector: Lineage, Stability: Stable,
		Help: "Verdict on the job: 1 for the one it has, 0 for the others. duplicate: some subtask runs twice, or some split is read twice. orphan: an old execution goes on, " +
			"but no second one of its subtask processes records. unknown: it could not be looked at.",
		Source: "all views",
	})
	duplicateSubtasks = declare(Metric{
		Name: "duplicate_subtasks", Type: prometheus.GaugeValue, Labels: with(jobLabels, "view"), Collector: Lineage, Stability: Stable,
		Help:   "Subtasks of the job that run twice as this view sees it. Absent when the view could not look at every TaskManager.",
		Source: "reporter, /taskmanagers/:taskmanagerid/thread-dump",
	})
	duplicateSince = declare(Metric{
		Name: "duplicate_since_timestamp_seconds", Type: prometheus.GaugeValue, Labels: jobLabels, Collector: Lineage, Stability: Stable,
		Help:   "First scrape that found the verdict duplicate; only while it lasts.",
		Source: "remembered between scrapes",
	})
	orphanExecutions = declare(Metric{
		Name: "orphan_executions", Type: prometheus.GaugeValue, Labels: with(jobLabels, "tm_id", "view", "reason"),
		Collector: Lineage, Stability: Stable,
		Help: "Executions seen that should not be there, once seen for a second; only where there are some. Empty job labels: a thread that " +
			"could be of several jobs, or of none the leader knows.",
		Source: "reporter, /taskmanagers/:taskmanagerid/thread-dump",
	})
	orphanRecords = declare(Metric{
		Name: "orphan_records_total", Type: prometheus.CounterValue, Labels: with(jobLabels, "tm_id"), Collector: Lineage, Stability: Experimental,
		Help:   "Records taken in by the executions that should not be there, over their whole life, by their reporter's own count.",
		Source: "reporter (numRecordsIn of the task; for a source numRecordsOut of its head operator)",
	})
	executionGraphs = declare(Metric{
		Name: "job_execution_graphs", Type: prometheus.GaugeValue, Labels: jobLabels, Collector: Lineage, Stability: Stable,
		Help:   "Distinct execution graphs alive on TaskManagers: 1 is healthy, 2 is two executions. Absent if none is seen and before Flink 1.16.",
		Source: "reporter (task_attempt_id)",
	})
	jobStarved = declare(Metric{
		Name: "job_starved", Type: prometheus.GaugeValue, Labels: jobLabels, Collector: Lineage, Stability: Experimental,
		Help:   "Whether the job has tasks that wait for slots while executions that should not be there go on.",
		Source: "/jobs/overview, all views",
	})
	restartAdvised = declare(Metric{
		Name: "taskmanager_restart_advised", Type: prometheus.GaugeValue, Labels: with(jobLabels, "tm_id", "reason"),
		Collector: Lineage, Stability: Experimental,
		Help:   "TaskManager to restart to end what should not be there; always 1, only where there is one.",
		Source: "all views",
	})
	orphanThreads = declare(Metric{
		Name: "orphan_threads", Type: prometheus.GaugeValue, Labels: []string{"tm_id", "kind"}, Collector: Lineage, Stability: Stable,
		Help: "Threads that outlived their task, by kind. A canceler counts while the task it is to end is not expected any more; a source_reader " +
			"is one of Beam's KafkaIO or of the legacy FlinkKafkaConsumer; a user thread is any other that is named after a task.",
		Source: "/taskmanagers/:taskmanagerid/thread-dump",
	})
	coverage = declare(Metric{
		Name: "view_coverage_ratio", Type: prometheus.GaugeValue, Labels: []string{"view"}, Collector: Lineage, Stability: Stable,
		Help:   "TaskManagers this view could read by TaskManagers known. Absent for a view that is turned off, and while none is known.",
		Source: "all views",
	})
)

// threadKinds are the values of the label kind.
var threadKinds = map[lineage.ThreadKind]string{
	lineage.CancelerThread:     "canceler",
	lineage.LegacySourceThread: "legacy_source",
	lineage.FetcherThread:      "source_fetcher",
	lineage.UserThread:         "user",
}

func collectLineage(e *exposition, r *lineage.Report) {
	for i := range r.Jobs {
		j := &r.Jobs[i]
		set(e, jobVerdict, lineage.Verdicts, j.Verdict, j.ID, j.Name)
		for view, n := range j.DuplicateSubtasks {
			e.add(duplicateSubtasks, float64(n), j.ID, j.Name, string(view))
		}
		if j.Verdict == lineage.VerdictDuplicate {
			e.timestamp(duplicateSince, j.DuplicateSince, j.ID, j.Name)
		}
		if j.ExecutionGraphs > 0 {
			e.add(executionGraphs, float64(j.ExecutionGraphs), j.ID, j.Name)
		}
		if j.Verdict != lineage.VerdictUnknown {
			e.add(jobStarved, boolValue(j.Starved), j.ID, j.Name)
		}
		for _, x := range j.Restart {
			e.add(restartAdvised, 1, j.ID, j.Name, x.TaskManager, string(x.Reason))
		}
	}
	e.orphans(r)
	for i := range r.TaskManagers {
		tm := &r.TaskManagers[i]
		for kind, name := range threadKinds {
			if n, known := tm.OrphanThreads[kind]; known {
				e.add(orphanThreads, float64(n), tm.ID, name)
			}
		}
	}
	e.readers(r)
	for view, c := range r.Coverage {
		if c.Known > 0 {
			e.add(coverage, float64(c.Read)/float64(c.Known), string(view))
		}
	}
}

// orphans adds the confirmed orphans, summed.
func (e *exposition) orphans(r *lineage.Report) {
	type spot struct {
		job         lineage.JobRef
		taskManager string
	}
	type group struct {
		spot
		view   lineage.View
		reason lineage.Reason
	}
	count := map[group]int{}
	records := map[spot]float64{}
	for i := range r.Orphans {
		o := &r.Orphans[i]
		if !o.Confirmed {
			continue
		}
		s := spot{o.Job, o.TaskManager}
		count[group{s, o.View, o.Reason}]++
		if o.View == lineage.ViewReporter {
			records[s] += o.RecordsIn
		}
	}
	for g, n := range count {
		e.add(orphanExecutions, float64(n), g.job.ID, g.job.Name, g.taskManager, string(g.view), string(g.reason))
	}
	for s, n := range records {
		e.add(orphanRecords, n, s.job.ID, s.job.Name, s.taskManager)
	}
}
