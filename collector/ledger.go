package collector

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flink-lineage/flink-lineage-exporter/internal/ledger"
)

var (
	sourceRecords = declare(Metric{
		Name: "source_records_total", Type: prometheus.CounterValue, Labels: vertexLabels, Collector: Ledger, Stability: Stable,
		Help: "Records out of this source vertex over all its executions that this exporter saw, orphans and ended ones included. It lacks what an " +
			"execution sent after the last scrape that saw it. Absent on Flink 1.17.0, which counts twice.",
		Source: "reporter (numRecordsOut of the source operator)",
	})
	sourceAmplification = declare(Metric{
		Name: "source_amplification_ratio", Type: prometheus.GaugeValue, Labels: with(vertexLabels, "topic"),
		Collector: Ledger, Stability: Experimental,
		Help: "Records out of the source by records produced to its topics and taken off the backlog, over --kafka.window: 1 is healthy, 2 is " +
			"everything twice. Absent while that cannot be told, such as after a restart and with too few records. See docs/ledger.md.",
		Source: "reporter, end offsets of --kafka.brokers",
	})
)

func collectLedger(e *exposition, balances []ledger.Balance) {
	for i := range balances {
		b := &balances[i]
		if b.Why != ledger.WhyMiscounted {
			e.add(sourceRecords, b.RecordsTotal, b.JobID, b.JobName, b.VertexID, b.VertexName)
		}
		if b.Valid {
			e.add(sourceAmplification, b.Ratio, b.JobID, b.JobName, b.VertexID, b.VertexName, b.Topic)
		}
	}
}
