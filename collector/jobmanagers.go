package collector

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flink-lineage/flink-lineage-exporter/internal/lineage"
)

var (
	up = declare(Metric{
		Name: "up", Type: prometheus.GaugeValue, Collector: JobManagers, Stability: Stable,
		Help:   "Whether some JobManager answered with a leader's view. While it is 0 nothing is known of jobs.",
		Source: "/jobs/overview",
	})
	jobManagerUp = declare(Metric{
		Name: "jobmanager_up", Type: prometheus.GaugeValue, Labels: []string{"jobmanager"}, Collector: JobManagers, Stability: Stable,
		Help:   "Whether this JobManager answered, with a leader's view or without.",
		Source: "/jobs/overview, /taskmanagers",
	})
	jobManagerElecting = declare(Metric{
		Name: "jobmanager_electing", Type: prometheus.GaugeValue, Labels: []string{"jobmanager"}, Collector: JobManagers, Stability: Stable,
		Help:   "Whether this JobManager answered that no leader can be reached.",
		Source: "/jobs/overview",
	})
	jobManagerDisagreement = declare(Metric{
		Name: "jobmanager_disagreement", Type: prometheus.GaugeValue, Labels: []string{"aspect"}, Collector: JobManagers, Stability: Stable,
		Help:   "Whether two JobManagers that both gave a leader's view told different stories. Absent while fewer than two give one.",
		Source: "/jobs/overview, /taskmanagers of each JobManager",
	})
)

func collectJobManagers(e *exposition, r *lineage.Report) {
	e.add(up, boolValue(r.Snapshot.Leader != nil))
	for i := range r.Snapshot.JobManagers {
		jm := &r.Snapshot.JobManagers[i]
		e.add(jobManagerUp, boolValue(jm.Up), jm.URL)
		e.add(jobManagerElecting, boolValue(jm.Electing), jm.URL)
	}
	for _, a := range []lineage.Aspect{lineage.AspectJobs, lineage.AspectStartTime, lineage.AspectTaskManagers} {
		if differ, known := r.Disagreement[a]; known {
			e.add(jobManagerDisagreement, boolValue(differ), string(a))
		}
	}
}
