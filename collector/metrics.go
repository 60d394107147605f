// Package collector turns a lineage.Report into Prometheus metrics. Every metric is declared once, in a table: descriptors, the list of
// metrics in docs/metrics.md and the tests read that.
package collector

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

const namespace = "flink_lineage"

// Stability is what may change about a metric between releases.
type Stability string

// The stabilities.
const (
	// Stable metrics keep name, labels and meaning within a major version.
	Stable Stability = "stable"
	// Experimental ones may change in any release.
	Experimental Stability = "experimental"
)

// Metric declares a metric.
type Metric struct {
	// Name is without the namespace.
	Name string
	Type prometheus.ValueType
	// Labels in the order values are given.
	Labels []string
	Help   string
	// Source is where the fact comes from: a REST path, the reporter, thread dumps, or the exporter's own reckoning.
	Source string
	// Collector is the name of the collector that exposes it, one of Names.
	Collector string
	Stability Stability

	desc *prometheus.Desc
}

// FullName is the name with the namespace.
func (m *Metric) FullName() string { return prometheus.BuildFQName(namespace, "", m.Name) }

var (
	jobLabels    = []string{"job_id", "job_name"}
	vertexLabels = []string{"job_id", "job_name", "vertex_id", "vertex_name"}
)

func with(labels []string, more ...string) []string { return append(slices.Clone(labels), more...) }

// declare completes a declaration and adds it to the table.
func declare(m Metric) *Metric {
	m.desc = prometheus.NewDesc(m.FullName(), m.Help, m.Labels, nil)
	p := &m
	table = append(table, p)
	return p
}

var table []*Metric

// Metrics returns the declarations of all metrics that come from a scrape of a cluster, in the order they are declared in.
func Metrics() []*Metric { return slices.Clone(table) }
