package main

import "github.com/grafana/grafana-foundation-sdk/go/dashboard"

// exporter is the dashboard of the exporter itself: what it sees, how long that takes, and what it asks Flink.
func exporter() *dashboard.DashboardBuilder {
	d := base("flink-lineage-exporter", "Flink lineage / Exporter", "Whether the exporter sees everything, and what looking costs.")

	d.WithRow(dashboard.NewRowBuilder("Does it see everything?"))
	d.WithPanel(tile("Targets up", "Targets of the exporter that Prometheus can scrape, by all it has.", "percentunit", 6, below(1, caution),
		now(`avg(up{CLUSTER})`)))
	d.WithPanel(tile("Coverage by reporters", "TaskManagers whose Prometheus reporter could be read, by TaskManagers known.", "percentunit", 6,
		below(1, caution), now(`min(flink_lineage_view_coverage_ratio{CLUSTER, view="reporter"})`)).NoValue("view is off"))
	d.WithPanel(tile("Coverage by thread dumps", "TaskManagers that a thread dump could be taken of, by TaskManagers known.", "percentunit", 6,
		below(1, caution), now(`min(flink_lineage_view_coverage_ratio{CLUSTER, view="threads"})`)).NoValue("view is off"))
	d.WithPanel(tile("Collectors that fail", "Collectors that could not read everything they rest on. What they could not read is absent.", "none", 6,
		from(1, caution), now(`count(flink_lineage_scrape_collector_success{CLUSTER} == 0) or 0 * max(up{CLUSTER})`)))
	d.WithPanel(lines("Coverage", "TaskManagers each view could read, by TaskManagers known.", "percentunit", 12,
		overTime(`min by (instance, view) (flink_lineage_view_coverage_ratio{CLUSTER})`, "{{instance}} {{view}}")).Max(1))
	d.WithPanel(states("Collectors", "Whether each could read everything it rests on.", 12,
		overTime(`min by (instance, collector) (flink_lineage_scrape_collector_success{CLUSTER})`, "{{instance}} {{collector}}"),
		text("0", "fails", bad), text("1", "reads", fine)).Height(8))
	d.WithPanel(lines("Age of thread dumps", "A dump is taken at most every --threads.interval, and at once when something is suspicious.", "s", 12,
		overTime(`time() - min by (instance, tm_id) (flink_lineage_taskmanager_thread_dump_timestamp_seconds{CLUSTER})`, "{{instance}} {{tm_id}}")))
	d.WithPanel(lines("Attempt series left out", "Series of task_attempt beyond --collector.attempts.max-series.", "none", 12,
		overTime(`max by (instance) (flink_lineage_task_attempt_series_dropped{CLUSTER})`, "{{instance}}")))

	d.WithRow(dashboard.NewRowBuilder("What does looking cost?"))
	d.WithPanel(lines("Duration of scrapes", "As Prometheus measures them. Keep it well below scrape_timeout.", "s", 12,
		overTime(`max by (instance) (scrape_duration_seconds{CLUSTER})`, "{{instance}}")))
	d.WithPanel(lines("Duration by collector", "Time it took to read what each collector rests on.", "s", 12,
		overTime(`max by (collector) (flink_lineage_scrape_collector_duration_seconds{CLUSTER})`, "{{collector}}")))
	// The exporter's own series have its own instance: with /probe it is no Flink cluster.
	d.WithPanel(lines("Requests to Flink", "Requests of the exporter, by endpoint and HTTP status; error: no answer at all.", "reqps", 12,
		overTime(`sum by (endpoint, code) (rate(flink_lineage_api_requests_total{job=~"$job"}[$__rate_interval]))`, "{{endpoint}} {{code}}")))
	d.WithPanel(lines("Series", "Samples that each scrape gives.", "none", 12,
		overTime(`max by (instance) (scrape_samples_scraped{CLUSTER})`, "{{instance}}")))
	d.WithPanel(lines("Memory", "Resident memory of the exporter.", "bytes", 8,
		overTime(`max by (instance) (process_resident_memory_bytes{job=~"$job"})`, "{{instance}}")))
	d.WithPanel(lines("Processor", "Processors that the exporter keeps busy.", "none", 8,
		overTime(`max by (instance) (rate(process_cpu_seconds_total{job=~"$job"}[$__rate_interval]))`, "{{instance}}")))
	d.WithPanel(states("Configuration", "Whether the last reload of the configuration file succeeded. Only with --config.file.", 8,
		overTime(`min by (instance) (flink_lineage_config_last_reload_successful{job=~"$job"})`, "{{instance}}"),
		text("0", "failed", bad), text("1", "loaded", fine)).Height(8))
	d.WithPanel(list("Builds", "Version of each exporter.", 24,
		[]column{
			{field: "instance", title: "Exporter"}, {field: "version", title: "Version"}, {field: "revision", title: "Revision"},
			{field: "goversion", title: "Go"}, {field: "Value"},
		},
		rows("A", `max by (instance, version, revision, goversion) (flink_lineage_exporter_build_info{job=~"$job"})`)).Height(5))
	return d
}
