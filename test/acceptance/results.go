package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"strings"
	"text/template"
	"time"

	"github.com/flink-lineage/flink-lineage-exporter/test/lab"
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
	facts       map[string]any // by name, for documents
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
	r.first[view] = sighting{f.number, f.End.Sub(since)}
}

func (r *result) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// fact keeps what was measured for a document.
func (r *result) fact(name string, value any) {
	if r.facts == nil {
		r.facts = map[string]any{}
	}
	r.facts[name] = value
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

// writeResults writes the table of docs/acceptance.md. Rows of an earlier run stay unless their scenario was played again on their version, so
// that the versions can be played one after the other.
func writeResults(path string, s *settings, results []*result) error {
	rows, err := earlierRows(path)
	if err != nil {
		return err
	}
	for _, r := range results {
		rows[[2]string{r.version, r.scenario.name}] = r.row()
	}
	var b strings.Builder
	fmt.Fprintf(&b, `# Acceptance%s

What the exporter said on real Flink clusters, scraped every second. Written by `+"`make %s`"+`, which runs

    go run ./test/acceptance%s --versions VERSION,... --rounds N --out %s

"First seen" counts the scrapes that began after the double work had begun, and the time until such a scrape was answered. "Cleared" counts the
scrapes after the job ran again on the restarted TaskManager. A false alarm is a scrape with the verdict duplicate where nothing ran twice. How
often a thing was repeated is in the notes. Times are of one run each, on a machine with two cores that had other work to do.

| scenario | what happens |
|---|---|
`, s.suite.title, s.suite.target, s.suite.flag(), s.suite.document)
	for _, x := range s.suite.scenarios {
		fmt.Fprintf(&b, "| %s | %s |\n", x.name, x.about)
	}
	b.WriteString("\n| Flink | scenario | outcome | first seen: reporter | threads | verdict | cleared | false alarms | scrapes | longest scrape | notes |\n" +
		"|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, version := range lab.Versions {
		for _, x := range s.suite.scenarios {
			b.WriteString(rows[[2]string{version, x.name}])
		}
	}
	return os.WriteFile(path, []byte(b.String()), 0o644) // #nosec G306 -- a document
}

//go:embed advice.md.tmpl
var adviceTemplate string

// writeAdvice writes docs/advice.md once every scenario of the suite has ended as it should.
func writeAdvice(path string, s *settings, results []*result) error {
	by := map[string]*result{}
	facts := map[string]any{"Probe": probe, "Options": adviceOptions, "Results": by, "HeartbeatNames": []string{"lowered-heartbeat", "default-heartbeat"}}
	for _, r := range results {
		if r.err != nil {
			return nil // it is reported as failed
		}
		by[r.scenario.name] = r
		facts["Version"] = r.version
		maps.Copy(facts, r.facts)
	}
	if len(by) < len(s.suite.scenarios) {
		return nil
	}
	t, err := template.New("advice").Option("missingkey=error").Funcs(template.FuncMap{
		"yes": func(b bool) string {
			if b {
				return "succeeds"
			}
			return "fails"
		},
		"notes":   func(r *result) string { return strings.Join(r.notes, "; ") },
		"about":   func(r *result) string { return r.scenario.about },
		"doubled": func(r *result) bool { return r.cleared > 0 },
		"first":   func(r *result) string { return r.sighting("verdict") },
	}).Parse(adviceTemplate)
	if err != nil {
		return err
	}
	var b strings.Builder
	if err := t.Execute(&b, facts); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(b.String()), 0o644) // #nosec G306 -- a document
}

// earlierRows reads the rows of the table of results by version and scenario.
func earlierRows(path string) (map[[2]string]string, error) {
	rows := map[[2]string]string{}
	text, err := os.ReadFile(path) // #nosec G304 -- the file to write
	if errors.Is(err, fs.ErrNotExist) {
		return rows, nil
	}
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, " | "); len(cells) > 10 && strings.HasPrefix(line, "| ") {
			rows[[2]string{strings.TrimPrefix(cells[0], "| "), cells[1]}] = line
		}
	}
	return rows, nil
}

// row is the result as a row of the table.
func (r *result) row() string {
	outcome := "right"
	if r.err != nil {
		outcome = "**wrong**: " + strings.ReplaceAll(firstLine(r.err.Error()), "|", "/")
	}
	cleared := "–"
	if r.cleared > 0 {
		cleared = fmt.Sprintf("scrape %d", r.cleared)
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s | %d | %d | %.1f s | %s |\n", r.version, r.scenario.name, outcome,
		r.sighting("reporter"), r.sighting("threads"), r.sighting("verdict"), cleared, r.falseAlarms, r.scrapes, r.longest.Seconds(),
		strings.Join(r.notes, "; "))
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func (r *result) sighting(view string) string {
	s, ok := r.first[view]
	if !ok {
		return "–"
	}
	return fmt.Sprintf("scrape %d, %.1f s", s.number, s.after.Seconds())
}
