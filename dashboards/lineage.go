package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// lineage is the dashboard for whoever is called: is anything running twice, where, since when, and what to restart.
func lineage() *dashboard.DashboardBuilder {
	d := base("flink-lineage", "Flink lineage", "Is anything running twice, where, since when, and which TaskManager is to be restarted?",
		jobVariable(), taskManagerVariable())

	d.WithRow(dashboard.NewRowBuilder("Is anything running twice?"))
	d.WithPanel(tile("Is anything running twice?",
		"Yes if any job's verdict is duplicate: some subtask runs twice, or some split is read twice. \"Cannot tell\" if some job could not be "+
			"looked at, which is not the same as no.",
		"none", 6, from(1, bad),
		now(`max(flink_lineage_job_verdict{JOB, verdict="duplicate"}) == 1
or 2 * (max(flink_lineage_job_verdict{JOB, verdict="unknown"}) == 1)
or 0 * max(flink_lineage_job_verdict{JOB, verdict="ok"})`),
		text("0", "No", fine), text("1", "YES, twice", bad), text("2", "Cannot tell", grey)))
	d.WithPanel(tile("Subtasks running twice",
		"Subtasks that more executions run than should run side by side; the larger count where the views differ.",
		"none", 3, from(1, bad), now(`sum(max without (view) (flink_lineage_duplicate_subtasks{JOB}))`)))
	d.WithPanel(tile("Readers too many",
		"Live source readers more than splits. The executions look perfect where this happens.",
		"none", 3, from(1, bad), now(`sum(flink_lineage_duplicate_readers{BOTH})`)))
	d.WithPanel(tile("Orphan executions",
		"Executions that go on although the JobManager does not expect them where they are.",
		"none", 3, from(1, caution), now(`sum(max without (view) (sum without (reason) (flink_lineage_orphan_executions{BOTH})))
or 0 * max(flink_lineage_up{CLUSTER} == 1)`)))
	d.WithPanel(tile("Running twice for",
		"Time since the first scrape that found the duplicate that has lasted longest.",
		"s", 3, from(0, bad), now(`time() - min(flink_lineage_duplicate_since_timestamp_seconds{JOB})`)).NoValue("–"))
	d.WithPanel(tile("Jobs starved",
		"Jobs that wait for slots which their own old executions hold.",
		"none", 3, from(1, bad), now(`sum(flink_lineage_job_starved{JOB})`)))
	d.WithPanel(tile("Failovers",
		"Times that a JobManager took a job over, in the time shown.",
		"none", 3, from(1, caution), now(`round(sum(increase(flink_lineage_job_failovers_total{JOB}[$__range])))`)))

	d.WithPanel(list("Restart these TaskManagers", "What ends the double work. Restarting another one changes nothing. The runbook says how.", 12,
		[]column{
			{field: "instance", title: "Cluster"},
			{field: "job_name", title: "Job"},
			{field: "tm_id", title: "TaskManager", link: "restart-taskmanager.md"},
			{field: "reason", title: "Reason"},
			{field: "Value"},
		},
		rows("A", `max by (instance, job_name, tm_id, reason) (flink_lineage_taskmanager_restart_advised{BOTH})`)))
	d.WithPanel(list("Duplicates by job", "Jobs with subtasks that run twice, by view, and since when.", 12,
		[]column{
			{field: "instance", title: "Cluster"},
			{field: "job_name", title: "Job"},
			{field: "job_id", title: "Job id"},
			{field: "Value #A", title: "By reporter"},
			{field: "Value #B", title: "By threads"},
			{field: "Value #C", title: "Since", unit: "dateTimeAsIso", link: "FlinkLineageDuplicateExecution.md"},
		},
		rows("A", `max by (instance, job_name, job_id) (flink_lineage_duplicate_subtasks{JOB, view="reporter"}) > 0`),
		rows("B", `max by (instance, job_name, job_id) (flink_lineage_duplicate_subtasks{JOB, view="threads"}) > 0`),
		rows("C", `1000 * min by (instance, job_name, job_id) (flink_lineage_duplicate_since_timestamp_seconds{JOB})`)))
	d.WithPanel(list("Executions that should not be there", "Orphan executions by TaskManager, as each view sees them, with the reason.", 12,
		[]column{
			{field: "instance", title: "Cluster"},
			{field: "job_name", title: "Job"},
			{field: "tm_id", title: "TaskManager"},
			{field: "view", title: "View"},
			{field: "reason", title: "Reason", link: "FlinkLineageOrphanExecution.md"},
			{field: "Value", title: "Executions"},
		},
		rows("A", `sum by (instance, job_name, tm_id, view, reason) (flink_lineage_orphan_executions{BOTH})`)))
	d.WithPanel(list("Sources with readers too many", "Source vertices with live readers more than splits.", 12,
		[]column{
			{field: "instance", title: "Cluster"},
			{field: "job_name", title: "Job"},
			{field: "vertex_name", title: "Source"},
			{field: "tm_id", title: "TaskManager"},
			{field: "Value", title: "Readers too many", link: "FlinkLineageDuplicateReader.md"},
		},
		rows("A", `max by (instance, job_name, vertex_name, tm_id) (flink_lineage_duplicate_readers{BOTH}) > 0`)))

	d.WithRow(dashboard.NewRowBuilder("Jobs"))
	d.WithPanel(states("Verdicts", "What was found of each job, over time. A gap is a time without a scrape.", 12,
		overTime(`max by (instance, job_name) (flink_lineage_job_verdict{JOB, verdict="unknown"})
+ 2 * max by (instance, job_name) (flink_lineage_job_verdict{JOB, verdict="orphan"})
+ 3 * max by (instance, job_name) (flink_lineage_job_verdict{JOB, verdict="duplicate"})`, "{{instance}} {{job_name}}"),
		text("0", "ok", fine), text("1", "unknown", grey), text("2", "orphan", caution), text("3", "duplicate", bad)))
	d.WithPanel(states("Execution graphs alive", "One is healthy. Two are two executions of one job; for seconds also while the adaptive "+
		"scheduler rescales. Since Flink 1.16.", 12,
		overTime(`max by (instance, job_name) (flink_lineage_job_execution_graphs{JOB})`, "{{instance}} {{job_name}}"),
		text("1", "one", fine), text("2", "two", bad), text("3", "three", bad)))
	d.WithPanel(lines("Subtasks running twice, by view", "As the TaskManagers' reporters and as thread dumps show it. No line: the view could "+
		"not look.", "none", 12,
		overTime(`sum by (instance, job_name, view) (flink_lineage_duplicate_subtasks{JOB})`, "{{instance}} {{job_name}} by {{view}}")))
	d.WithPanel(lines("Tasks by state", "Tasks of the jobs as the leader counts them, by state.", "none", 12,
		overTime(`sum by (instance, job_name, state) (flink_lineage_job_tasks{JOB}) > 0`, "{{instance}} {{job_name}} {{state}}")).
		Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal)).FillOpacity(40))
	d.WithPanel(lines("Records out of the source by records produced", "The ledger: about 1 is healthy, about 2 is everything twice. A backlog "+
		"that is worked off is taken into account.", "none", 12,
		overTime(`max by (instance, job_name, vertex_name, topic) (flink_lineage_source_amplification_ratio{JOB})`, "{{instance}} {{job_name}} {{topic}}")))
	d.WithPanel(lines("Source readers", "Readers of sources: live ones, and leaked ones that outlived their task and poll nothing.", "none", 12,
		overTime(`sum by (instance, job_name, vertex_name, state) (flink_lineage_source_readers{BOTH})`, "{{instance}} {{job_name}} {{vertex_name}} {{state}}")))
	d.WithPanel(lines("Records taken in by orphan executions", "What the executions that should not be there process: these are the doubles.",
		"cps", 12,
		overTime(`sum by (instance, job_name, tm_id) (rate(flink_lineage_orphan_records_total{BOTH}[$__rate_interval]))`, "{{instance}} {{job_name}} at {{tm_id}}")))
	d.WithPanel(lines("Failovers of jobs", "Times that a JobManager took the job over, within five minutes.", "none", 12,
		overTime(`round(sum by (instance, job_name) (increase(flink_lineage_job_failovers_total{JOB}[5m])))`, "{{instance}} {{job_name}}")))

	d.WithRow(dashboard.NewRowBuilder("TaskManagers"))
	d.WithPanel(list("Executions by view", "Executions on each TaskManager: what the leader expects beside what the reporter and the last thread dump "+
		"show. Where they differ, something is too many or missing.", 12,
		[]column{
			{field: "instance", title: "Cluster"},
			{field: "tm_id", title: "TaskManager"},
			{field: "Value #A", title: "JobManager expects"},
			{field: "Value #B", title: "Reporter shows"},
			{field: "Value #C", title: "Threads show"},
		},
		rows("A", `sum by (instance, tm_id) (flink_lineage_taskmanager_tasks{TASKMANAGER, view="jobmanager"})`),
		rows("B", `sum by (instance, tm_id) (flink_lineage_taskmanager_tasks{TASKMANAGER, view="reporter"})`),
		rows("C", `sum by (instance, tm_id) (flink_lineage_taskmanager_tasks{TASKMANAGER, view="threads"})`)))
	d.WithPanel(lines("Executions by view over time", "Lines of one TaskManager that part are executions that only one view has.", "none", 12,
		overTime(`sum by (instance, tm_id, view) (flink_lineage_taskmanager_tasks{TASKMANAGER})`, "{{instance}} {{tm_id}} by {{view}}")))
	d.WithPanel(list("Attempts", "Attempt number of each subtask and where it runs, as the leader says. Numbers begin at 0 again after a failover.", 24,
		[]column{
			{field: "instance", title: "Cluster"},
			{field: "job_name", title: "Job"},
			{field: "vertex_name", title: "Vertex"},
			{field: "subtask", title: "Subtask"},
			{field: "tm_id", title: "TaskManager"},
			{field: "Value", title: "Attempt"},
		},
		rows("A", `max by (instance, job_name, vertex_name, subtask, tm_id) (flink_lineage_task_attempt{BOTH})`)).Height(10))
	return d
}
