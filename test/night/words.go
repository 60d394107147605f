package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flink-lineage/flink-lineage-exporter/test/lab"
	"github.com/flink-lineage/flink-lineage-exporter/test/scrape"
)

// restWords is what the JobManagers that run say of jobs, tasks, TaskManagers and slots: all that an operator sees in Flink's own page.
func restWords(ctx context.Context, c *lab.Cluster) string {
	jobs, err := c.Jobs(ctx)
	if err != nil {
		return noAnswer(err)
	}
	var overview struct {
		TaskManagers int `json:"taskmanagers"`
		Total        int `json:"slots-total"`
		Free         int `json:"slots-available"`
	}
	if err := c.Get(ctx, "/overview", &overview); err != nil {
		return noAnswer(err)
	}
	var words []string
	for _, j := range jobs {
		words = append(words, fmt.Sprintf("%s, %d of %d tasks running", j.State, j.Tasks["running"], j.Tasks["total"]))
	}
	return strings.Join(append(words, fmt.Sprintf("%d TaskManager, %d of %d slots free", overview.TaskManagers, overview.Free, overview.Total)), "; ")
}

// noAnswer says why there is no answer, without its address.
func noAnswer(err error) string {
	if status, ok := errors.AsType[*lab.StatusError](err); ok {
		return fmt.Sprintf("HTTP %d", status.Code)
	}
	return "no answer"
}

// exporterWords is what one scrape says; "–" is a series that is absent. Orphans and restarts have series only where there are some: without any
// the word is "none", or "–" while nothing is known of jobs.
type exporterWords struct {
	Up, Electing, Verdict string
	Graphs                string
	ByReporter, ByThreads string // duplicate subtasks
	Orphans               string
	Readers, Duplicates   string // live readers, and those beyond one for each split
	Restart               string
	Ratio                 string
}

func wordsOf(s *scrape.Sample) exporterWords {
	count := func(v float64, ok bool) string {
		if !ok {
			return "–"
		}
		return fmt.Sprintf("%.0f", v)
	}
	w := exporterWords{
		Up:         count(s.Value("up")),
		Electing:   count(s.Sum("jobmanager_electing")),
		Verdict:    s.Verdict(""),
		Graphs:     count(s.Sum("job_execution_graphs")),
		ByReporter: count(s.Sum("duplicate_subtasks", "view", "reporter")),
		ByThreads:  count(s.Sum("duplicate_subtasks", "view", "threads")),
		Readers:    count(s.Sum("source_readers", "state", "live")),
		Duplicates: count(s.Sum("duplicate_readers")),
		Orphans:    "–",
		Restart:    "–",
		Ratio:      "–",
	}
	if w.Up == "1" {
		w.Orphans, w.Restart = "none", "none"
	}
	var orphans []string
	for _, view := range []string{"reporter", "threads"} {
		if v, ok := s.Sum("orphan_executions", "view", view); ok {
			orphans = append(orphans, fmt.Sprintf("%.0f by %s", v, view))
		}
	}
	if len(orphans) > 0 {
		w.Orphans = strings.Join(orphans, ", ")
	}
	if w.Verdict == "" {
		w.Verdict = "–"
	}
	var reasons []string
	for _, m := range s.Series("taskmanager_restart_advised") {
		reasons = append(reasons, scrape.Label(m, "reason"))
	}
	if len(reasons) > 0 {
		slices.Sort(reasons)
		w.Restart = "its TaskManager: " + strings.Join(slices.Compact(reasons), ", ")
	}
	if v, ok := s.Value("source_amplification_ratio"); ok {
		w.Ratio = fmt.Sprintf("%.2f", v)
	}
	return w
}
