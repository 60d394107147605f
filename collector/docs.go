package collector

import (
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Markdown renders the table of metrics, which is docs/metrics.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString(`# Metrics

Generated from the declarations in package collector: ` + "`go test ./collector -run TestDocs -update`" + `.

Labels are never named job, instance, cluster or type, which are Prometheus' own. Job labels are always job_id and job_name; subtask counts
from 0 as REST does; tm_id is the TaskManager's id in REST. A series that would be a guess is absent: absent is not 0.
`)
	for _, name := range append(append([]string{}, Names...), "") {
		title := "Collector " + name
		if name == "" {
			title = "Always"
		}
		fmt.Fprintf(&b, "\n## %s\n\n| metric | type | labels | meaning | source | stability |\n|---|---|---|---|---|---|\n", title)
		for _, m := range table {
			if m.Collector == name {
				fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", m.FullName(), typeName(m.Type), code(m.Labels), m.Help, m.Source, m.Stability)
			}
		}
	}
	b.WriteString(`
## About the exporter itself

On /metrics, not on /probe.

| metric | type | labels | meaning |
|---|---|---|---|
| ` + "`flink_lineage_api_requests_total`" + ` | counter | ` + "`endpoint`, `code`" + ` | Requests made, by endpoint (a template) and HTTP status, or error if there was no answer. |
| ` + "`flink_lineage_config_last_reload_successful`" + ` | gauge | – | Whether the last reload of the configuration file succeeded. Only with --config.file. |
| ` + "`flink_lineage_config_last_reload_success_timestamp_seconds`" + ` | gauge | – | When the configuration file was last loaded successfully. Only with --config.file. |
| ` + "`flink_lineage_exporter_build_info`" + ` | gauge | ` + "`version`, `revision`, `branch`, `goversion`, `goos`, `goarch`, `tags`" + ` | The build; always 1. |
`)
	return b.String()
}

func typeName(t prometheus.ValueType) string {
	if t == prometheus.CounterValue {
		return "counter"
	}
	return "gauge"
}

func code(labels []string) string {
	if len(labels) == 0 {
		return "–"
	}
	return "`" + strings.Join(labels, "`, `") + "`"
}
