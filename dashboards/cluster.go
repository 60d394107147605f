package main

import "github.com/grafana/grafana-foundation-sdk/go/dashboard"

// cluster is the dashboard of JobManagers, TaskManagers and slots.
func cluster() *dashboard.DashboardBuilder {
	d := base("flink-lineage-cluster", "Flink lineage / Cluster", "JobManagers and leadership, TaskManagers, and whether the slots add up.",
		taskManagerVariable())

	d.WithRow(dashboard.NewRowBuilder("JobManagers and leadership"))
	d.WithPanel(tile("Leader", "Whether some JobManager answered with a leader's view, in every cluster selected.", "none", 4, below(1, bad),
		now(`min(flink_lineage_up{CLUSTER})`), text("0", "NONE", bad), text("1", "there", fine)))
	d.WithPanel(tile("JobManagers that answer", "With a leader's view or without.", "none", 4, from(0, fine),
		now(`sum(flink_lineage_jobmanager_up{CLUSTER})`)))
	d.WithPanel(tile("JobManagers agree", "Whether all that give a leader's view tell one story. Needs two that answer.", "none", 4, from(1, bad),
		now(`max(flink_lineage_jobmanager_disagreement{CLUSTER})`), text("0", "yes", fine), text("1", "NO", bad)).NoValue("only one"))
	d.WithPanel(tile("TaskManagers unregistered", "Run tasks, yet no leader knows them.", "none", 4, from(1, bad),
		now(`sum(flink_lineage_taskmanagers{CLUSTER, state="unregistered"})`)))
	d.WithPanel(tile("Slots free", "As the leader counts them.", "none", 4, from(0, fine),
		now(`sum(flink_lineage_slots{CLUSTER, state="free"})`)))
	d.WithPanel(tile("Slots unexplained", "In use, though no job that the leader knows explains it.", "none", 4, from(1, caution),
		now(`sum(flink_lineage_taskmanager_unaccounted_slots{TASKMANAGER})`)))

	d.WithPanel(states("JobManagers", "Whether each answered.", 12,
		overTime(`max by (instance, jobmanager) (flink_lineage_jobmanager_up{CLUSTER})
+ max by (instance, jobmanager) (flink_lineage_jobmanager_electing{CLUSTER})`, "{{instance}} {{jobmanager}}"),
		text("0", "no answer", grey), text("1", "answers", fine), text("2", "finds no leader", caution)))
	d.WithPanel(states("Disagreement", "What JobManagers that both give a leader's view disagree about.", 12,
		overTime(`max by (instance, aspect) (flink_lineage_jobmanager_disagreement{CLUSTER})`, "{{instance}} {{aspect}}"),
		text("0", "agree", fine), text("1", "disagree", bad)))
	d.WithPanel(list("Versions", "Flink's version, as the leader tells it.", 8,
		[]column{
			{field: "instance", title: "Cluster"}, {field: "flink_version", title: "Flink"}, {field: "flink_commit", title: "Commit"}, {field: "Value"},
		},
		rows("A", `max by (instance, flink_version, flink_commit) (flink_lineage_cluster_info{CLUSTER})`)))
	d.WithPanel(list("Jobs", "When the leader took each job up, and how often that happened since the exporter began.", 16,
		[]column{
			{field: "instance", title: "Cluster"},
			{field: "job_name", title: "Job"},
			{field: "job_id", title: "Job id"},
			{field: "state", title: "State"},
			{field: "Value #A"},
			{field: "Value #B", title: "Taken up", unit: "dateTimeAsIso"},
			{field: "Value #C", title: "Failovers", link: "FlinkLineageJobFailover.md"},
			{field: "Value #D", title: "Ran again after its end", link: "FlinkLineageJobRestoredAfterEnd.md"},
		},
		rows("A", `max by (instance, job_name, job_id, state) (flink_lineage_job_state{CLUSTER}) == 1`),
		rows("B", `1000 * max by (instance, job_name, job_id) (flink_lineage_job_start_timestamp_seconds{CLUSTER})`),
		rows("C", `round(sum by (instance, job_name, job_id) (increase(flink_lineage_job_failovers_total{CLUSTER}[$__range])))`),
		rows("D", `round(sum by (instance, job_name, job_id) (increase(flink_lineage_job_restored_after_end_total{CLUSTER}[$__range])))`)))
	d.WithPanel(lines("Jobs beyond the first of their name", "Jobs that run although one of the same name does.", "none", 12,
		overTime(`sum by (instance, job_name) (flink_lineage_surplus_jobs{CLUSTER})`, "{{instance}} {{job_name}}")))
	d.WithPanel(lines("Tasks that wait, by state", "Age of the state of the task that is longest in it, for states a task should soon leave.", "s", 12,
		overTime(`time() - min by (instance, job_name, state) (flink_lineage_job_task_state_since_timestamp_seconds{CLUSTER})`, "{{instance}} {{job_name}} {{state}}")))
	d.WithPanel(lines("Tasks of vertices that do not run", "By vertex and state, without those that run or have ended.", "none", 24,
		overTime(`sum by (instance, job_name, vertex_name, state) (flink_lineage_vertex_tasks{CLUSTER, state!~"running|finished|canceled|failed"}) > 0`,
			"{{instance}} {{job_name}} {{vertex_name}} {{state}}")))

	d.WithRow(dashboard.NewRowBuilder("TaskManagers"))
	d.WithPanel(lines("TaskManagers", "Registered at the leader, and unregistered although they run tasks.", "none", 12,
		overTime(`sum by (instance, state) (flink_lineage_taskmanagers{CLUSTER})`, "{{instance}} {{state}}")))
	d.WithPanel(lines("Age of the last heartbeat", "The leader drops a TaskManager after heartbeat.timeout, 50 seconds by default.", "s", 12,
		overTime(`time() - max by (instance, tm_id) (flink_lineage_taskmanager_last_heartbeat_timestamp_seconds{TASKMANAGER})`, "{{instance}} {{tm_id}}")))
	d.WithPanel(lines("Threads that outlived their task", "By kind. Cancelers count while what they are to end is still there.", "none", 24,
		overTime(`sum by (instance, tm_id, kind) (flink_lineage_orphan_threads{TASKMANAGER}) > 0`, "{{instance}} {{tm_id}} {{kind}}")))

	d.WithRow(dashboard.NewRowBuilder("Slots"))
	d.WithPanel(lines("Slots", "Of the cluster, as the leader counts.", "none", 12,
		overTime(`sum by (instance, state) (flink_lineage_slots{CLUSTER})`, "{{instance}} {{state}}")))
	d.WithPanel(list("Slots by TaskManager", "Total and free as the leader counts, and those in use that nothing explains.", 12,
		[]column{
			{field: "instance", title: "Cluster"},
			{field: "tm_id", title: "TaskManager"},
			{field: "Value #A", title: "Slots"},
			{field: "Value #B", title: "Free"},
			{field: "Value #C", title: "Unexplained", link: "FlinkLineageSlotsUnaccounted.md"},
		},
		rows("A", `max by (instance, tm_id) (flink_lineage_taskmanager_slots{TASKMANAGER, state="total"})`),
		rows("B", `max by (instance, tm_id) (flink_lineage_taskmanager_slots{TASKMANAGER, state="free"})`),
		rows("C", `max by (instance, tm_id) (flink_lineage_taskmanager_unaccounted_slots{TASKMANAGER})`)).Height(8))
	return d
}
