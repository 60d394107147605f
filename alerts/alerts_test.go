package alerts

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func defaults(t *testing.T) *Thresholds {
	t.Helper()
	thresholds, err := Defaults()
	if err != nil {
		t.Fatal(err)
	}
	return thresholds
}

// rules returns the rules of a file as committed.
func rules(t *testing.T, file string) []Rule {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

func TestCommittedRulesAreAsRendered(t *testing.T) {
	for _, file := range Files {
		want, err := Render(file, defaults(t))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what its template and thresholds.yaml render: run `go run ./alerts/cmd/rules`", file)
		}
	}
}

func TestCopiesAreAsRendered(t *testing.T) {
	rules, err := Render(Files[0], defaults(t))
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range Copies {
		got, err := os.ReadFile(filepath.Join("..", path))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, content(rules)) {
			t.Errorf("%s is not made of the rules as rendered: run `go run ./alerts/cmd/rules`", path)
		}
	}
}

func TestOverride(t *testing.T) {
	thresholds := defaults(t)
	err := thresholds.Override([]byte("selector: team=\"blue\"\nduplicate_execution: {for: 90s}\nrunbook_url: https://wiki.example.org/flink\n"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := Render("flink-lineage.rules.yaml", thresholds)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	first := rules[0]
	if first.For != "1m30s" || first.KeepFiringFor != "5m" {
		t.Errorf("for %s, keep_firing_for %s; want 1m30s as overridden and 5m as it was", first.For, first.KeepFiringFor)
	}
	if got := first.Annotations["runbook_url"]; got != "https://wiki.example.org/flink/FlinkLineageDuplicateExecution.md" {
		t.Errorf("runbook_url is %s", got)
	}
	if n := strings.Count(string(text), `job=~"flink-lineage`); n != 0 {
		t.Errorf("%d selectors are not the one overridden", n)
	}
}

func TestOverrideRefuses(t *testing.T) {
	for _, text := range []string{
		"duplicate_execution: {for: 1 minute}", "duplicate_executions: {for: 1m}", "exporter_down: {keep_firing_for: 1m}",
		"runbook_url: https://wiki.example.org/", "grafana_url: grafana", "cluster_labels: [k8s-cluster]", "selector: ''", "volatile_labels: []",
	} {
		if err := defaults(t).Override([]byte(text)); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
}

func TestEveryRuleIsComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, file := range Files {
		for _, r := range rules(t, file) {
			if seen[r.Alert] {
				t.Errorf("%s is there twice", r.Alert)
			}
			seen[r.Alert] = true
			if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) || len(r.Labels) != 1 {
				t.Errorf("%s: labels %v, want severity alone", r.Alert, r.Labels)
			}
			summary := r.Annotations["summary"]
			if !strings.HasSuffix(summary, ".") || strings.Contains(summary, "{{") {
				t.Errorf("%s: summary %q is no static sentence", r.Alert, summary)
			}
			if d := r.Annotations["description"]; !strings.HasSuffix(d, ".") {
				t.Errorf("%s: description %q does not end with a period", r.Alert, d)
			}
			if got, want := r.Annotations["runbook_url"], defaults(t).RunbookURL+"/"+r.Alert+".md"; got != want {
				t.Errorf("%s: runbook_url %s, want %s", r.Alert, got, want)
			}
			if file == "flink-lineage.rules.yaml" && r.Annotations["dashboard_url"] == "" {
				t.Errorf("%s: has no dashboard_url", r.Alert)
			}
		}
	}
}

func TestEverySelectorIsConfigured(t *testing.T) {
	selectors := regexp.MustCompile(`(?:flink_lineage_\w+|flink_taskmanager_\w+|\bup)(\{[^}]*\})?`)
	selector := map[string]string{Files[0]: defaults(t).Selector, Files[1]: defaults(t).ReporterSelector}
	for _, file := range Files {
		for _, r := range rules(t, file) {
			for _, m := range selectors.FindAllStringSubmatch(r.Expr, -1) {
				if !strings.Contains(m[1], selector[file]) {
					t.Errorf("%s: %s lacks the configured selector", r.Alert, m[0])
				}
			}
		}
	}
}

func TestEveryMetricExists(t *testing.T) {
	docs, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	metrics := regexp.MustCompile(`flink_lineage_\w+`)
	for _, r := range rules(t, "flink-lineage.rules.yaml") {
		for _, m := range metrics.FindAllString(r.Expr+r.Annotations["description"], -1) {
			if !bytes.Contains(docs, []byte("`"+m+"`")) {
				t.Errorf("%s: %s is not in docs/metrics.md", r.Alert, m)
			}
		}
	}
}

// sections are what a page of the runbook answers, in this order.
var sections = []string{
	"## What it means", "## What is at stake", "## Confirm it by hand", "## What to do now", "## Repair the data", "## Keep it from coming back",
	"## How to tell it is over",
}

func TestRunbook(t *testing.T) {
	pages, err := filepath.Glob("runbook/Flink*.md")
	if err != nil {
		t.Fatal(err)
	}
	alerts := map[string]bool{}
	for _, file := range Files {
		for _, r := range rules(t, file) {
			alerts[r.Alert] = true
			page, err := os.ReadFile("runbook/" + r.Alert + ".md")
			if err != nil {
				t.Error(err)
				continue
			}
			text := string(page)
			if !strings.HasPrefix(text, "# "+r.Alert+"\n") {
				t.Errorf("%s: the page does not begin with the alert's name", r.Alert)
			}
			if !strings.Contains(text, "Severity: "+r.Labels["severity"]) {
				t.Errorf("%s: the page does not tell severity %s", r.Alert, r.Labels["severity"])
			}
			at := 0
			for _, s := range sections {
				i := strings.Index(text[at:], s+"\n")
				if i < 0 {
					t.Errorf("%s: the page has no section %q where it belongs", r.Alert, s)
					continue
				}
				at += i + len(s)
			}
		}
	}
	for _, p := range pages {
		if !alerts[strings.TrimSuffix(filepath.Base(p), ".md")] {
			t.Errorf("%s: there is no such alert", p)
		}
	}
}

// TestRunbookNames checks that what a page tells to look at exists: its links, and the exporter's metrics.
func TestRunbookNames(t *testing.T) {
	docs, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("runbook/*.md")
	if err != nil {
		t.Fatal(err)
	}
	links := regexp.MustCompile(`\]\(([^)]+)\)`)
	metrics := regexp.MustCompile(`flink_lineage_\w+`)
	for _, p := range pages {
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range links.FindAllSubmatch(text, -1) {
			target, _, _ := strings.Cut(string(m[1]), "#")
			if strings.HasPrefix(target, "https://") {
				continue
			}
			if _, err := os.Stat(filepath.Join("runbook", target)); err != nil {
				t.Errorf("%s: link to %s: %v", p, target, err)
			}
		}
		for _, m := range metrics.FindAllString(string(text), -1) {
			if !bytes.Contains(docs, []byte("`"+m+"`")) {
				t.Errorf("%s: %s is not in docs/metrics.md", p, m)
			}
		}
	}
}

// TestEveryAlertHasUnitTests checks that promtool's tests hold for each alert a time at which it fires and one at which it does not.
func TestEveryAlertHasUnitTests(t *testing.T) {
	files, err := filepath.Glob("tests/*.test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	fires, rests := map[string]bool{}, map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var tests struct {
			Tests []struct {
				AlertRuleTest []struct {
					Alertname string `yaml:"alertname"`
					ExpAlerts []any  `yaml:"exp_alerts"`
				} `yaml:"alert_rule_test"`
			} `yaml:"tests"`
		}
		if err := yaml.Unmarshal(text, &tests); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, test := range tests.Tests {
			for _, a := range test.AlertRuleTest {
				if len(a.ExpAlerts) > 0 {
					fires[a.Alertname] = true
				} else {
					rests[a.Alertname] = true
				}
			}
		}
	}
	for _, file := range Files {
		for _, r := range rules(t, file) {
			if !fires[r.Alert] || !rests[r.Alert] {
				t.Errorf("%s: unit tests say when it fires: %t, when it does not: %t", r.Alert, fires[r.Alert], rests[r.Alert])
			}
		}
	}
}

// TestAlertmanagerExample checks that what the example inhibits exists, and that every alert named as a cause or consequence does.
func TestAlertmanagerExample(t *testing.T) {
	text, err := os.ReadFile("alertmanager.example.yml")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]string{}
	for _, file := range Files {
		for _, r := range rules(t, file) {
			known[r.Alert] = r.Labels["severity"]
		}
	}
	var config struct {
		InhibitRules []struct {
			Source []string `yaml:"source_matchers"`
			Target []string `yaml:"target_matchers"`
		} `yaml:"inhibit_rules"`
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	if len(config.InhibitRules) == 0 {
		t.Fatal("nothing is inhibited")
	}
	rank := map[string]int{"info": 0, "warning": 1, "critical": 2}
	alerts := func(matchers []string) []string {
		_, names, ok := strings.Cut(matchers[0], `"`)
		if !ok || len(matchers) != 1 {
			t.Fatalf("matchers %v are not one alertname", matchers)
		}
		return strings.Split(strings.TrimSuffix(names, `"`), "|")
	}
	for _, rule := range config.InhibitRules {
		for _, source := range alerts(rule.Source) {
			for _, target := range alerts(rule.Target) {
				if known[source] == "" || known[target] == "" {
					t.Errorf("%s inhibits %s: there is no such alert", source, target)
				}
				if rank[known[source]] < rank[known[target]] {
					t.Errorf("%s (%s) would hold back %s (%s)", source, known[source], target, known[target])
				}
			}
		}
	}
}
