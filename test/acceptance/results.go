package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// result is how a scenario ended on one version.
type result struct {
	version     string
	scenario    *scenario
	first       map[string]sighting // by view, or "verdict"
	cleared     int
	falseAlarms int
	scrapes     int
	longest     time.Duration
	notes       []string
	took        time.Duration
	err         error
}

// sighting is the first scrape that showed something.
type sighting struct {
	// number counts the scrapes begun since it was there, from 1.
	number int
	after  time.Duration
}

func (r *result) seen(view string, f found, since time.Time) {
	if r.first == nil {
		r.first = map[string]sighting{}
	}
	r.first[view] = sighting{f.number, f.end.Sub(since)}
}

func (r *result) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

func (r *result) outcome() string {
	if r.err != nil {
		return "FAILED: " + r.err.Error()
	}
	var parts []string
	for _, view := range []string{"reporter", "threads", "verdict"} {
		if s, ok := r.first[view]; ok {
			parts = append(parts, fmt.Sprintf("%s in scrape %d (%.1f s)", view, s.number, s.after.Seconds()))
		}
	}
	if r.cleared > 0 {
		parts = append(parts, fmt.Sprintf("cleared in scrape %d", r.cleared))
	}
	parts = append(parts, fmt.Sprintf("%d scrapes, %d false alarms", r.scrapes, r.falseAlarms))
	return strings.Join(append(parts, r.notes...), "; ")
}

// writeResults writes the table of docs/acceptance.md.
func writeResults(path string, s *settings, results []*result) error {
	var b strings.Builder
	fmt.Fprintf(&b, `# Acceptance

What the exporter said on real Flink clusters (ZooKeeper HA, two JobManagers, two TaskManagers), scraped every second. Written by

    go run ./test/acceptance --versions %s%s --rounds %d --out %s

"First seen" counts the scrapes that began after the double work had begun by the records written, and the time until such a scrape was
answered. "Cleared" counts the scrapes after the job ran again on the restarted TaskManager. A false alarm is a scrape with the verdict
duplicate where nothing ran twice.

| scenario | what happens |
|---|---|
`, strings.Join(s.versions, ","), scenarioFlag(s), s.rounds, s.document())
	listed := map[string]bool{}
	for _, r := range results {
		if !listed[r.scenario.name] {
			listed[r.scenario.name] = true
			fmt.Fprintf(&b, "| %s | %s |\n", r.scenario.name, r.scenario.about)
		}
	}
	b.WriteString("\n| Flink | scenario | outcome | first seen: reporter | threads | verdict | cleared | false alarms | scrapes | longest scrape | notes |\n" +
		"|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range results {
		outcome := "right"
		if r.err != nil {
			outcome = "**wrong**: " + strings.ReplaceAll(r.err.Error(), "\n", " ")
		}
		cleared := "–"
		if r.cleared > 0 {
			cleared = fmt.Sprintf("scrape %d", r.cleared)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %d | %d | %.1f s | %s |\n", r.version, r.scenario.name, outcome,
			r.sighting("reporter"), r.sighting("threads"), r.sighting("verdict"), cleared, r.falseAlarms, r.scrapes, r.longest.Seconds(),
			strings.Join(r.notes, "; "))
	}
	return os.WriteFile(path, []byte(b.String()), 0o600)
}

func scenarioFlag(s *settings) string {
	flags := ""
	if s.beam {
		flags = " --beam"
	}
	if len(s.scenarios) > 0 {
		flags += " --scenarios " + strings.Join(s.scenarios, ",")
	}
	return flags
}

func (r *result) sighting(view string) string {
	s, ok := r.first[view]
	if !ok {
		return "–"
	}
	return fmt.Sprintf("scrape %d, %.1f s", s.number, s.after.Seconds())
}

// document is the file the results are meant for.
func (s *settings) document() string {
	if s.beam {
		return "docs/acceptance-beam.md"
	}
	return "docs/acceptance.md"
}
