package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// tally counts checks.
type tally struct{ passed, failed int }

// check counts a check and tells how it ended.
func (t *tally) check(what string, err error) {
	if err != nil {
		t.failed++
		fmt.Printf("FAILED %s: %s\n", what, err)
		return
	}
	t.passed++
	fmt.Printf("ok     %s\n", what)
}

// culprit is the job that runs twice and the TaskManager that is to be restarted.
type culprit struct{ jobID, jobName, taskManager string }

var advice = regexp.MustCompile(`Restart TaskManager (\S+) \((\w+)\)\.$`)

// checkPage checks that a page tells job, cluster, since when, and the one TaskManager to restart, and leads to its page of the runbook.
func checkPage(page message, instance string, want culprit) error {
	var errs []error
	for label, value := range map[string]string{
		"severity": "critical", "instance": instance, "job_id": want.jobID, "job_name": want.jobName,
	} {
		if page.Labels[label] != value {
			errs = append(errs, fmt.Errorf("the page has %s=%q, want %q", label, page.Labels[label], value))
		}
	}
	description := page.Annotations["description"]
	for _, text := range []string{want.jobName, want.jobID, " since "} {
		if text == "" || !strings.Contains(description, text) {
			errs = append(errs, fmt.Errorf("the page's description lacks %q", text))
		}
	}
	if m := advice.FindStringSubmatch(description); m == nil || m[1] != want.taskManager || m[2] != "stale_execution_graph" {
		errs = append(errs, fmt.Errorf("the page does not tell to restart %s alone for the reason stale_execution_graph", want.taskManager))
	}
	_, err := os.Stat(filepath.Join("alerts/runbook", filepath.Base(page.Annotations["runbook_url"])))
	errs = append(errs, err)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w; the page says: %s", err, description)
	}
	return nil
}

// checkClean checks that the clean failover of an instance was counted once and is there as information, that no alert of a duplicate waited
// for its time, and that no one was told of anything.
func (s *stack) checkClean(ctx context.Context, instance string) error {
	failovers, err := s.prometheus.instant(ctx, fmt.Sprintf(`flink_lineage_job_failovers_total{instance=%q}`, instance))
	errs := []error{err}
	if len(failovers) != 1 || failovers[0].value() != 1 {
		errs = append(errs, fmt.Errorf("the failover was not counted once: %v", failovers))
	}
	informed, err := s.prometheus.holds(ctx, fmt.Sprintf(`ALERTS{alertname="FlinkLineageJobFailover", alertstate="firing", instance=%q}`, instance))
	if errs = append(errs, err); !informed {
		errs = append(errs, errors.New("FlinkLineageJobFailover does not fire"))
	}
	pending, err := s.prometheus.instant(ctx, fmt.Sprintf(`count_over_time(ALERTS{alertname=~"FlinkLineageDuplicate.*", instance=%q}[15m])`, instance))
	if errs = append(errs, err); len(pending) > 0 {
		errs = append(errs, fmt.Errorf("there was an alert of a duplicate: %v", pending))
	}
	for _, m := range s.receiver.all() {
		if m.Labels["instance"] == instance {
			errs = append(errs, fmt.Errorf("%s was sent to %s", m.Labels["alertname"], m.receiver))
		}
	}
	return errors.Join(errs...)
}

// checkOnePage checks that the incident of an instance was told of by its page alone, not by its consequences.
func (s *stack) checkOnePage(instance string) error {
	told := map[string]bool{}
	for _, m := range s.receiver.all() {
		if m.Labels["instance"] == instance {
			told[fmt.Sprintf("%s to %s", m.Labels["alertname"], m.receiver)] = true
		}
	}
	if len(told) != 1 || !told[duplicate+" to page"] {
		return fmt.Errorf("the incident was told of by %v, want the one page", told)
	}
	return nil
}

// panelResult is what a query of a panel returned.
type panelResult struct {
	Dashboard string   `json:"dashboard"`
	Panel     string   `json:"panel"`
	Ref       string   `json:"ref"`
	Expr      string   `json:"expr"`
	Result    []series `json:"result"`
}

func (r *panelResult) name() string { return r.Dashboard + " / " + r.Panel + " / " + r.Ref }

// checkPanels runs every query of every panel. Those that return nothing must be in empty-panels.txt, and only those.
func (s *stack) checkPanels(ctx context.Context) ([]panelResult, error) {
	results, err := s.runPanels(ctx)
	if err != nil {
		return nil, err
	}
	allowed, err := readAllowed("test/e2e/empty-panels.txt")
	if err != nil {
		return nil, err
	}
	var errs []error
	empty := 0
	fmt.Println("\nPanels' queries that return nothing during the incident:")
	for _, r := range results {
		reason, listed := allowed[r.name()]
		delete(allowed, r.name())
		switch {
		case len(r.Result) == 0 && !listed:
			errs = append(errs, fmt.Errorf("%s returns nothing: %s", r.name(), r.Expr))
		case len(r.Result) == 0:
			empty++
			fmt.Printf("  %s: %s\n", r.name(), reason)
		case listed:
			errs = append(errs, fmt.Errorf("%s returns data: take it off empty-panels.txt", r.name()))
		}
	}
	for name := range allowed {
		errs = append(errs, fmt.Errorf("empty-panels.txt lists %s, which there is not", name))
	}
	fmt.Printf("%d queries, %d of them empty as listed.\n", len(results), empty)
	return results, errors.Join(errs...)
}

func (s *stack) runPanels(ctx context.Context) ([]panelResult, error) {
	files, err := filepath.Glob("dashboards/*.json")
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no dashboards found: %w", err)
	}
	variables := strings.NewReplacer("$__rate_interval", (5 * s.interval).String(), "$__range", "5m",
		"$job", ".*", "$instance", ".*", "$flink_job", ".*", "$taskmanager", ".*")
	now := time.Now()
	var results []panelResult
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var dashboard struct {
			UID    string
			Panels []struct {
				Title   string
				Targets []struct {
					Expr, RefID string
					Instant     bool
				}
			}
		}
		if err := json.Unmarshal(text, &dashboard); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, p := range dashboard.Panels {
			for _, target := range p.Targets {
				r := panelResult{Dashboard: dashboard.UID, Panel: p.Title, Ref: target.RefID, Expr: variables.Replace(target.Expr)}
				if target.Instant {
					r.Result, err = s.prometheus.instant(ctx, r.Expr)
				} else {
					r.Result, err = s.prometheus.between(ctx, r.Expr, now.Add(-2*time.Minute), now, s.interval)
				}
				if err != nil {
					return nil, fmt.Errorf("%s: %w", r.name(), err)
				}
				results = append(results, r)
			}
		}
	}
	slices.SortStableFunc(results, func(a, b panelResult) int { return strings.Compare(a.Dashboard, b.Dashboard) })
	return results, nil
}

// readAllowed reads lines of a name, a colon and a reason.
func readAllowed(file string) (map[string]string, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	allowed := map[string]string{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, reason, ok := strings.Cut(line, ": ")
		if !ok || reason == "" {
			return nil, fmt.Errorf("%s: %q has no reason", file, line)
		}
		allowed[name] = reason
	}
	return allowed, lines.Err()
}
