package collector

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flink-lineage/flink-lineage-exporter/internal/lineage"
)

var (
	clusterInfo = declare(Metric{
		Name: "cluster_info", Type: prometheus.GaugeValue, Labels: []string{"flink_version", "flink_commit"},
		Collector: Cluster, Stability: Stable,
		Help:   "Version of Flink, as the leader tells it; always 1.",
		Source: "/overview",
	})
	slots = declare(Metric{
		Name: "slots", Type: prometheus.GaugeValue, Labels: []string{"state"}, Collector: Cluster, Stability: Stable,
		Help:   "Slots of the cluster: total, and free of them.",
		Source: "/overview",
	})
)

func collectCluster(e *exposition, r *lineage.Report) {
	if r.Snapshot.Leader == nil || r.Snapshot.Leader.Overview == nil {
		return
	}
	o := r.Snapshot.Leader.Overview
	e.add(clusterInfo, 1, o.FlinkVersion, o.FlinkCommit)
	e.add(slots, float64(o.SlotsTotal), "total")
	e.add(slots, float64(o.SlotsFree), "free")
}
