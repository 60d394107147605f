package main

import (
	"maps"
	"strings"
	"testing"
)

func TestCheckPage(t *testing.T) {
	t.Chdir("../..")
	want := culprit{jobID: "0a1b", jobName: "orders", taskManager: "10.0.0.1:4000-ab"}
	labels := map[string]string{"severity": "critical", "instance": "east", "job_id": "0a1b", "job_name": "orders"}
	const description = "Job orders (0a1b) of east runs 2 of its subtasks twice since 2026-12-01 05:36:01 +0000 UTC: every record they take in is " +
		"processed twice. Restart TaskManager 10.0.0.1:4000-ab (stale_execution_graph)."
	for name, test := range map[string]struct {
		label, value string
		old, new     string
		runbook      string
		err          string
	}{
		"right":                {},
		"another cluster":      {label: "instance", value: "west", err: `instance="west"`},
		"another job":          {label: "job_id", value: "ffff", err: `job_id="ffff"`},
		"no page":              {label: "severity", value: "warning", err: `severity="warning"`},
		"no beginning":         {old: " since ", new: " after ", err: `lacks " since "`},
		"another TaskManager":  {old: "4000-ab", new: "4000-cd", err: "does not tell to restart"},
		"one TaskManager more": {old: "4000-ab (stale_execution_graph).", new: "4000-ab (stale_execution_graph) and 10.0.0.2:1-e (stale_attempt).", err: "does not tell"},
		"another reason":       {old: "stale_execution_graph", new: "stale_attempt", err: "does not tell"},
		"a runbook of nothing": {runbook: "Nothing.md", err: "Nothing.md"},
	} {
		t.Run(name, func(t *testing.T) {
			page := message{Labels: maps.Clone(labels), Annotations: map[string]string{
				"description": strings.Replace(description, test.old, test.new, 1), "runbook_url": "https://example.org/" + duplicate + ".md",
			}}
			if test.label != "" {
				page.Labels[test.label] = test.value
			}
			if test.runbook != "" {
				page.Annotations["runbook_url"] = "https://example.org/" + test.runbook
			}
			err := checkPage(page, "east", want)
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("got %v, want %q", err, test.err)
			}
		})
	}
}

func TestCheckOnePage(t *testing.T) {
	page := message{receiver: "page", Status: "firing", Labels: map[string]string{"alertname": duplicate, "instance": "east"}}
	ticket := message{receiver: "tickets", Status: "firing", Labels: map[string]string{"alertname": "FlinkLineageTaskStuck", "instance": "east"}}
	elsewhere := message{receiver: "tickets", Status: "firing", Labels: map[string]string{"alertname": "FlinkLineageTaskStuck", "instance": "west"}}
	resolved := page
	resolved.Status = "resolved"
	for name, test := range map[string]struct {
		messages []message
		ok       bool
	}{
		"the page and its end": {[]message{page, elsewhere, resolved}, true},
		"nothing":              {[]message{elsewhere}, false},
		"a consequence too":    {[]message{page, ticket}, false},
		"only a consequence":   {[]message{ticket}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &stack{receiver: &receiver{messages: test.messages}}
			if err := s.checkOnePage("east"); (err == nil) != test.ok {
				t.Errorf("got %v", err)
			}
		})
	}
}
