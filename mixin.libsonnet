// A monitoring mixin over the committed files, for those who use Jsonnet:
//
//   local flink = import 'flink-lineage-exporter/mixin.libsonnet';
//   { prometheusAlerts+:: flink.prometheusAlerts, grafanaDashboards+:: flink.grafanaDashboards }
//
// Selectors and thresholds are configured in alerts/thresholds.yaml; `go run ./alerts/cmd/rules` renders the rules with them.
{
  grafanaDashboardFolder:: 'Flink',
  grafanaDashboards+:: {
    'flink-lineage.json': import 'dashboards/flink-lineage.json',
    'flink-lineage-cluster.json': import 'dashboards/flink-lineage-cluster.json',
    'flink-lineage-exporter.json': import 'dashboards/flink-lineage-exporter.json',
  },
  prometheusAlerts+:: std.parseYaml(importstr 'alerts/flink-lineage.rules.yaml'),
  // For those who do not run the exporter.
  flinkOnlyAlerts:: std.parseYaml(importstr 'alerts/flink-only.rules.yaml'),
}
