package alerts

import (
	"bytes"
	"strings"
)

// Copies are the places besides alerts/ that have the rules for the exporter, by path from the top of the repository, and what makes the
// content of each: a PrometheusRule of the Prometheus operator, and the file that the Helm chart makes one of.
var Copies = map[string]func(rules []byte) []byte{
	"examples/kubernetes/prometheusrule.yaml":                             PrometheusRule,
	"examples/helm/flink-lineage-exporter/files/flink-lineage.rules.yaml": bytes.Clone,
}

// PrometheusRule returns a file of rules as an object of the Prometheus operator.
func PrometheusRule(rules []byte) []byte {
	comments, groups, _ := strings.Cut(string(rules), "groups:\n")
	var out strings.Builder
	out.WriteString(comments)
	out.WriteString("apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata:\n  name: flink-lineage\nspec:\n  groups:\n")
	for line := range strings.Lines(groups) {
		if line != "\n" {
			out.WriteString("  ")
		}
		out.WriteString(line)
	}
	return []byte(out.String())
}
