package collector

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flink-lineage/flink-lineage-exporter/internal/lineage"
)

var (
	taskManagers = declare(Metric{
		Name: "taskmanagers", Type: prometheus.GaugeValue, Labels: []string{"state"}, Collector: TaskManagers, Stability: Stable,
		Help:   "TaskManagers: registered at the leader, and unregistered although their reporter answers with tasks.",
		Source: "/taskmanagers, reporter",
	})
	taskManagerSlots = declare(Metric{
		Name: "taskmanager_slots", Type: prometheus.GaugeValue, Labels: []string{"tm_id", "state"}, Collector: TaskManagers, Stability: Stable,
		Help:   "Slots of the TaskManager: total, and free of them as the leader counts.",
		Source: "/taskmanagers",
	})
	lastHeartbeat = declare(Metric{
		Name: "taskmanager_last_heartbeat_timestamp_seconds", Type: prometheus.GaugeValue, Labels: []string{"tm_id"},
		Collector: TaskManagers, Stability: Stable,
		Help:   "When the leader last had a heartbeat of the TaskManager. Absent before the first.",
		Source: "/taskmanagers (timeSinceLastHeartbeat, which is an instant)",
	})
	taskManagerTasks = declare(Metric{
		Name: "taskmanager_tasks", Type: prometheus.GaugeValue, Labels: append([]string{"tm_id"}, with(jobLabels, "view")...),
		Collector: TaskManagers, Stability: Stable,
		Help: "Executions of the job's tasks on the TaskManager as each view sees them: what the leader expects, what the reporter has series " +
			"of, what threads the last dump had. Empty job labels: none at all, or threads that could be of several jobs.",
		Source: "/jobs/:jobid/vertices/:vertexid, reporter, /taskmanagers/:taskmanagerid/thread-dump",
	})
	dumpTime = declare(Metric{
		Name: "taskmanager_thread_dump_timestamp_seconds", Type: prometheus.GaugeValue, Labels: []string{"tm_id"},
		Collector: TaskManagers, Stability: Experimental,
		Help:   "When the thread dump was taken that the threads view rests on; at most --threads.interval ago.",
		Source: "/taskmanagers/:taskmanagerid/thread-dump",
	})
	unaccountedSlots = declare(Metric{
		Name: "taskmanager_unaccounted_slots", Type: prometheus.GaugeValue, Labels: []string{"tm_id"}, Collector: Slots, Stability: Experimental,
		Help: "Slots in use on the TaskManager that no job the leader knows explains. Up to Flink 1.17 a lower bound: slots in use beyond the " +
			"executions expected there, 0 while some job waits for slots.",
		Source: "/taskmanagers/:taskmanagerid",
	})
)

func collectTaskManagers(e *exposition, r *lineage.Report) {
	known := r.Snapshot.Leader != nil && r.Snapshot.Leader.TaskManagers != nil
	registered, unregistered := 0, 0
	for i := range r.TaskManagers {
		tm := &r.TaskManagers[i]
		for view, byJob := range tm.Executions {
			for job, n := range byJob {
				e.add(taskManagerTasks, float64(n), tm.ID, job.ID, job.Name, string(view))
			}
			if len(byJob) == 0 {
				e.add(taskManagerTasks, 0, tm.ID, "", "", string(view))
			}
		}
		e.timestamp(dumpTime, tm.DumpTime, tm.ID)
		if !tm.Registered {
			unregistered++
			continue
		}
		registered++
		e.add(taskManagerSlots, float64(tm.Leader.SlotsTotal), tm.ID, "total")
		e.add(taskManagerSlots, float64(tm.Leader.SlotsFree), tm.ID, "free")
		e.timestamp(lastHeartbeat, tm.Leader.LastHeartbeat, tm.ID)
	}
	if known {
		e.add(taskManagers, float64(registered), "registered")
		e.add(taskManagers, float64(unregistered), "unregistered")
	}
}

func collectSlots(e *exposition, r *lineage.Report) {
	for i := range r.TaskManagers {
		if tm := &r.TaskManagers[i]; tm.UnaccountedSlots >= 0 {
			e.add(unaccountedSlots, float64(tm.UnaccountedSlots), tm.ID)
		}
	}
}
