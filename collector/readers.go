package collector

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flink-lineage/flink-lineage-exporter/internal/lineage"
)

var (
	sourceReaders = declare(Metric{
		Name: "source_readers", Type: prometheus.GaugeValue, Labels: append(with(vertexLabels, "tm_id"), "state"),
		Collector: Lineage, Stability: Stable,
		Help: "Source readers found on the TaskManager: live ones of executions that run, leaked ones of earlier executions, whose records go " +
			"nowhere. Empty job or vertex labels: they could be of several.",
		Source: "/taskmanagers/:taskmanagerid/thread-dump (Beam KafkaIO, FLIP-27 sources, FlinkKafkaConsumer), reporter (KafkaSource)",
	})
	duplicateReaders = declare(Metric{
		Name: "duplicate_readers", Type: prometheus.GaugeValue, Labels: with(vertexLabels, "tm_id"), Collector: Lineage, Stability: Stable,
		Help: "Live source readers beyond one for each split: every record of such a split is read twice. Absent when it cannot be told how many " +
			"there should be, and for sources other than Beam's KafkaIO and Flink's KafkaSource.",
		Source: "/taskmanagers/:taskmanagerid/thread-dump, reporter (splits and partitions of each source)",
	})
)

func (e *exposition) readers(r *lineage.Report) {
	leaked := map[string]int{}
	for i := range r.TaskManagers {
		// Known only where there was a dump.
		if r.TaskManagers[i].OrphanThreads != nil {
			leaked[r.TaskManagers[i].ID] = r.TaskManagers[i].OrphanThreads[lineage.KafkaFetcherThread]
		}
	}
	type spot struct {
		job                                 lineage.JobRef
		vertexID, vertexName, taskManagerID string
	}
	live, gone, duplicates, told := map[spot]int{}, map[spot]int{}, map[spot]int{}, map[spot]bool{}
	for i := range r.Readers {
		x := &r.Readers[i]
		s := spot{x.Job, x.VertexID, x.VertexName, x.TaskManager}
		live[s] += x.Live
		gone[s] += x.Leaked
		if x.Told && (x.Duplicates == 0 || x.Confirmed) {
			told[s] = true
			duplicates[s] += x.Duplicates
		}
		if x.Beam {
			leaked[x.TaskManager] += x.Leaked
		}
	}
	for s, n := range live {
		labels := []string{s.job.ID, s.job.Name, s.vertexID, s.vertexName, s.taskManagerID}
		e.add(sourceReaders, float64(n), append(labels[:5:5], "live")...)
		e.add(sourceReaders, float64(gone[s]), append(labels[:5:5], "leaked")...)
		if told[s] {
			e.add(duplicateReaders, float64(duplicates[s]), labels...)
		}
	}
	for id, n := range leaked {
		e.add(orphanThreads, float64(n), id, "source_reader")
	}
}
