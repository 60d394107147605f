// Package alerts holds the alerting rules: a template for each file of rules, and one file of thresholds and selectors that all of them are
// rendered with. The rendered rules are committed; cmd/rules renders them again, with other thresholds if a site wants.
package alerts

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strings"
	"text/template"

	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"
)

// Files are the names of the files of rules. The template of each has the suffix .tmpl.
var Files = []string{"flink-lineage.rules.yaml", "flink-only.rules.yaml"}

//go:embed *.tmpl thresholds.yaml
var sources embed.FS

// Thresholds are everything in the rules that a site may want otherwise. The comments of thresholds.yaml say why each is what it is.
type Thresholds struct {
	// Selector and ReporterSelector are the label matchers that select the exporter's series, and those of Flink's own reporter.
	Selector         string `yaml:"selector"`
	ReporterSelector string `yaml:"reporter_selector"`
	// ClusterLabels together name a Flink cluster; VolatileLabels change with a restart of the exporter.
	ClusterLabels  []string `yaml:"cluster_labels"`
	VolatileLabels []string `yaml:"volatile_labels"`
	// RunbookURL and GrafanaURL are where the runbook and Grafana are, without a slash at the end.
	RunbookURL string `yaml:"runbook_url"`
	GrafanaURL string `yaml:"grafana_url"`

	DuplicateExecution      Held    `yaml:"duplicate_execution"`
	DuplicateReader         Held    `yaml:"duplicate_reader"`
	SourceAmplified         Ratio   `yaml:"source_amplified"`
	OrphanExecution         Held    `yaml:"orphan_execution"`
	JobStarved              Held    `yaml:"job_starved"`
	UnregisteredTaskManager Held    `yaml:"unregistered_taskmanager"`
	JobManagersDisagree     Held    `yaml:"jobmanagers_disagree"`
	SlotsUnaccounted        Held    `yaml:"slots_unaccounted"`
	LeakedThreads           Held    `yaml:"leaked_threads"`
	SameJobName             Held    `yaml:"same_job_name"`
	TaskStuck               Age     `yaml:"task_stuck"`
	TaskWaits               Age     `yaml:"task_waits"`
	JobFailover             Recent  `yaml:"job_failover"`
	JobRestoredAfterEnd     Recent  `yaml:"job_restored_after_end"`
	HeartbeatOld            Instant `yaml:"heartbeat_old"`
	ExporterDown            Lasting `yaml:"exporter_down"`
	ScrapeFailed            Lasting `yaml:"scrape_failed"`
	Blind                   Lasting `yaml:"blind"`
	CoverageLow             Lasting `yaml:"coverage_low"`
	ViewOff                 Lasting `yaml:"view_off"`
	VerdictUnknown          Lasting `yaml:"verdict_unknown"`
	CollectorFailed         Lasting `yaml:"collector_failed"`
	ConfigReloadFailed      Lasting `yaml:"config_reload_failed"`
	ReporterTwoGraphs       Held    `yaml:"reporter_two_graphs"`
	ReporterSubtaskTwice    Held    `yaml:"reporter_subtask_twice"`
	ReporterSameJobName     Lasting `yaml:"reporter_same_job_name"`
	ReporterScrapeFailed    Lasting `yaml:"reporter_scrape_failed"`
}

// Lasting fires when its condition has held for a time.
type Lasting struct {
	For Duration `yaml:"for"`
}

// Held goes on firing for a time after its condition ended, so that a gap in scrapes does not resolve it.
type Held struct {
	For           Duration `yaml:"for"`
	KeepFiringFor Duration `yaml:"keep_firing_for"`
}

// Ratio compares with a number.
type Ratio struct {
	Above         float64  `yaml:"above"`
	For           Duration `yaml:"for"`
	KeepFiringFor Duration `yaml:"keep_firing_for"`
}

// Age compares the time since something with a duration.
type Age struct {
	Above Duration `yaml:"above"`
	For   Duration `yaml:"for"`
}

// Instant compares the time since something with a duration, and does not wait.
type Instant struct {
	Above Duration `yaml:"above"`
}

// Recent fires when something happened within a time.
type Recent struct {
	Within Duration `yaml:"within"`
}

// Duration is a duration as Prometheus writes it, for example 1m30s.
type Duration string

// UnmarshalYAML reads a duration; its error says what is wrong with it.
func (d *Duration) UnmarshalYAML(node *yaml.Node) error {
	parsed, err := model.ParseDuration(node.Value)
	if err != nil {
		return fmt.Errorf("line %d: %w", node.Line, err)
	}
	*d = Duration(parsed.String())
	return nil
}

// Defaults returns the thresholds of thresholds.yaml.
func Defaults() (*Thresholds, error) {
	text, err := sources.ReadFile("thresholds.yaml")
	if err != nil {
		return nil, err
	}
	t := &Thresholds{}
	if err := t.Override(text); err != nil {
		return nil, fmt.Errorf("thresholds.yaml: %w", err)
	}
	return t, nil
}

// Override sets the thresholds that text, in the form of thresholds.yaml, has. A field that is not known is an error.
func (t *Thresholds) Override(text []byte) error {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(t); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	for _, u := range []string{t.RunbookURL, t.GrafanaURL} {
		if parsed, err := url.Parse(u); err != nil || parsed.Host == "" || strings.HasSuffix(u, "/") {
			return fmt.Errorf("%q is no URL without a slash at the end", u)
		}
	}
	for _, l := range append(append([]string{}, t.ClusterLabels...), t.VolatileLabels...) {
		if !labelName.MatchString(l) {
			return fmt.Errorf("%q is no label name", l)
		}
	}
	if len(t.ClusterLabels) == 0 || len(t.VolatileLabels) == 0 || t.Selector == "" || t.ReporterSelector == "" {
		return errors.New("selector, reporter_selector, cluster_labels and volatile_labels must not be empty")
	}
	return nil
}

var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// Render returns the content of one of Files.
func Render(file string, t *Thresholds) ([]byte, error) {
	tmpl, err := template.New(file+".tmpl").Delims("[[", "]]").Funcs(t.functions()).ParseFS(sources, file+".tmpl")
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := tmpl.Execute(&out, t); err != nil {
		return nil, err
	}
	if _, err := Parse(out.Bytes()); err != nil {
		return nil, fmt.Errorf("%s as rendered: %w", file, err)
	}
	return out.Bytes(), nil
}

// functions are what the templates can call.
func (t *Thresholds) functions() template.FuncMap {
	text := func(s string) func() string { return func() string { return s } }
	format := make([]string, 0, len(t.ClusterLabels))
	arguments := make([]string, 0, len(t.ClusterLabels))
	var reporterCluster []string
	for _, l := range t.ClusterLabels {
		format = append(format, l+"=%q")
		arguments = append(arguments, "$labels."+l)
		// The reporter of each process is an instance of its own.
		if l != "instance" {
			reporterCluster = append(reporterCluster, l)
		}
	}
	clusterFormat, clusterArguments := strings.Join(format, ","), strings.Join(arguments, " ")
	ofJob := func(metric, by string) string {
		return fmt.Sprintf("printf `max by (%s) (%s{%s,job_id=%%q})` %s $labels.job_id | query", by, metric, clusterFormat, clusterArguments)
	}
	dashboard := func(uid, variables string) string {
		return t.GrafanaURL + "/d/" + uid + "?var-instance={{ $labels.instance | urlquery }}" + variables
	}
	return template.FuncMap{
		"selector":         text(t.Selector),
		"reporterSelector": text(t.ReporterSelector),
		"cluster":          text(strings.Join(t.ClusterLabels, ", ")),
		"reporterCluster":  text(strings.Join(reporterCluster, ", ")),
		"volatile":         text(strings.Join(t.VolatileLabels, ", ")),
		"clusterFormat":    text(clusterFormat),
		"clusterArguments": text(clusterArguments),
		"jobOrUnknown":     text("{{ if $labels.job_id }}job {{ $labels.job_name }} ({{ $labels.job_id }}){{ else }}some job{{ end }}"),
		"since": text("{{ with " + ofJob("flink_lineage_duplicate_since_timestamp_seconds", "job_id") +
			" }} since {{ . | first | value | humanizeTimestamp }}{{ end }}"),
		"restart": text("{{ range $i, $tm := " + ofJob("flink_lineage_taskmanager_restart_advised", "tm_id, reason") +
			" | sortByLabel `tm_id` }}{{ if $i }} and {{ end }}{{ $tm.Labels.tm_id }} ({{ $tm.Labels.reason }})" +
			"{{ else }}as the dashboard advises{{ end }}"),
		"runbook":           func(alert string) string { return t.RunbookURL + "/" + alert + ".md" },
		"jobDashboard":      text(dashboard("flink-lineage", "&var-flink_job={{ $labels.job_name | urlquery }}")),
		"clusterDashboard":  text(dashboard("flink-lineage-cluster", "")),
		"exporterDashboard": text(dashboard("flink-lineage-exporter", "")),
		"seconds": func(d Duration) (float64, error) {
			parsed, err := model.ParseDuration(string(d))
			return float64(parsed) / 1e9, err
		},
	}
}

// Rule is an alerting rule, as Prometheus reads it.
type Rule struct {
	Alert         string            `yaml:"alert"`
	Expr          string            `yaml:"expr"`
	For           Duration          `yaml:"for,omitempty"`
	KeepFiringFor Duration          `yaml:"keep_firing_for,omitempty"`
	Labels        map[string]string `yaml:"labels"`
	Annotations   map[string]string `yaml:"annotations"`
}

// Parse reads a file of alerting rules. promtool reads more closely; this is enough to find a template gone wrong.
func Parse(text []byte) ([]Rule, error) {
	var file struct {
		Groups []struct {
			Name  string `yaml:"name"`
			Rules []Rule `yaml:"rules"`
		} `yaml:"groups"`
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		return nil, err
	}
	var rules []Rule
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if r.Alert == "" || r.Expr == "" {
				return nil, fmt.Errorf("group %s has a rule without alert or expr", g.Name)
			}
			rules = append(rules, r)
		}
	}
	return rules, nil
}
