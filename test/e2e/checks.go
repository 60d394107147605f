package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// checkPage checks that a page tells job, cluster and TaskManager. What is right is asked of the exporter's series, and of the recording: the
// only TaskManager with tasks of two execution graphs.
func (s *stack) checkPage(ctx context.Context, page message) error {
	advised, err := s.prometheus.instant(ctx, `flink_lineage_taskmanager_restart_advised{instance="incident"}`)
	if err != nil {
		return err
	}
	if len(advised) != 1 {
		return fmt.Errorf("%d TaskManagers are advised to be restarted, want 1", len(advised))
	}
	want := advised[0].Metric
	fmt.Printf("The page says: %s\n", page.Annotations["description"])
	var errs []error
	for label, value := range map[string]string{
		"severity": "critical", "instance": "incident", "job_id": want["job_id"], "job_name": want["job_name"],
	} {
		if page.Labels[label] != value {
			errs = append(errs, fmt.Errorf("the page has %s=%q, want %q", label, page.Labels[label], value))
		}
	}
	for _, text := range []string{want["job_name"], want["job_id"], want["tm_id"], want["reason"], " since "} {
		if text == "" || !strings.Contains(page.Annotations["description"], text) {
			errs = append(errs, fmt.Errorf("the page's description lacks %q", text))
		}
	}
	crowded, err := s.prometheus.instant(ctx, `sum by (tm_id) (flink_lineage_taskmanager_tasks{instance="incident", view="threads"})
> sum by (tm_id) (flink_lineage_taskmanager_tasks{instance="incident", view="jobmanager"})`)
	errs = append(errs, err)
	if len(crowded) != 1 || crowded[0].Metric["tm_id"] != want["tm_id"] {
		errs = append(errs, fmt.Errorf("thread dumps show more tasks than expected on %v, the page tells to restart %s", crowded, want["tm_id"]))
	}
	page.Annotations["runbook_url"] = filepath.Base(page.Annotations["runbook_url"])
	if _, err := os.Stat(filepath.Join("alerts/runbook", page.Annotations["runbook_url"])); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// checkQuiet checks that the clean failover was seen, and that no one was told of it but as information; and that the incident was told of
// once, and not by its consequences.
func (s *stack) checkQuiet(ctx context.Context) error {
	failovers, err := s.prometheus.instant(ctx, `flink_lineage_job_failovers_total{instance="clean"}`)
	if err != nil {
		return err
	}
	var errs []error
	if len(failovers) != 1 || failovers[0].value() != 1 {
		errs = append(errs, fmt.Errorf("the clean failover was not counted once: %v", failovers))
	}
	told := map[string]bool{}
	for _, m := range s.receiver.all() {
		told[fmt.Sprintf("%s to %s", m.Labels["alertname"], m.receiver)] = true
		if m.Labels["instance"] == "clean" {
			errs = append(errs, fmt.Errorf("the clean failover was told of: %s to %s", m.Labels["alertname"], m.receiver))
		}
	}
	if len(told) != 1 {
		errs = append(errs, fmt.Errorf("the incident was told of by %v, want the one page", told))
	}
	if len(errs) == 0 {
		fmt.Println("The clean failover was counted, and told nobody. Of the incident there was the one page.")
	}
	return errors.Join(errs...)
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
	variables := strings.NewReplacer("$__rate_interval", (5 * scrapeInterval).String(), "$__range", "5m",
		"$job", ".*", "$instance", ".*", "$flink_job", ".*", "$taskmanager", ".*")
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
					r.Result, err = s.prometheus.lately(ctx, r.Expr, 2*time.Minute)
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
