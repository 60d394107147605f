package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/template"
)

// storyText tells the night; every measured number in it comes from results.
//
//go:embed night.md.tmpl
var storyText string

// story is what the template is given.
type story struct {
	Flink       string
	Parallelism int
	Slots       int
	Rate        int
	Window      float64 // of the ledger, in seconds
	Watched     float64 // seconds for which a step counts
	Cores       int
	Beam        []*result // one for each kind of high availability
	Zombie      []*result
}

// measured is what nights have measured, kept so that an act can be played again alone and the story told anew without playing it.
type measured struct {
	Cores   int
	Results []*result
}

// keepMeasured puts the result of an act in place of an earlier one of the same act under the same kind of high availability.
func keepMeasured(file string, r *result) error {
	m, err := readMeasured(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	m.Cores = runtime.NumCPU()
	m.Results = append(slices.DeleteFunc(m.Results, func(old *result) bool { return old.Act == r.Act && old.HA == r.HA }), r)
	slices.SortFunc(m.Results, func(a, b *result) int { return cmp.Or(strings.Compare(a.HA, b.HA), strings.Compare(a.Act, b.Act)) })
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644) // #nosec G306 -- a document
}

func readMeasured(file string) (m measured, err error) {
	text, err := os.ReadFile(file) // #nosec G304 -- given on the command line
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("%s: %w", file, err)
	}
	return m, nil
}

// writeStory writes docs/night.md from what was measured.
func writeStory(file, from string) error {
	m, err := readMeasured(from)
	if err != nil {
		return err
	}
	text, err := tell(m)
	if err != nil {
		return fmt.Errorf("tell %s: %w", from, err)
	}
	return os.WriteFile(file, text, 0o644) // #nosec G306 -- a document
}

// tell fills the template. Every act must be there under both kinds of high availability, with all its steps.
func tell(m measured) ([]byte, error) {
	s := story{
		Flink: flinkVersion, Parallelism: parallelism, Slots: slots, Rate: rate, Window: ledgerWindow.Seconds(), Watched: watched.Seconds(), Cores: m.Cores,
	}
	for _, r := range m.Results {
		if len(r.Steps) != 4 {
			return nil, fmt.Errorf("act %s under %s has %d steps, want 4", r.Act, r.HA, len(r.Steps))
		}
		if r.Act == beamAct.name {
			s.Beam = append(s.Beam, r)
		} else {
			s.Zombie = append(s.Zombie, r)
		}
	}
	if len(s.Beam) != len(kinds) || len(s.Zombie) != len(kinds) {
		return nil, errors.New("both acts under both kinds of high availability are needed")
	}
	t, err := template.New("night.md").Option("missingkey=error").Funcs(template.FuncMap{"sec": seconds, "overlap": overlapWords}).Parse(storyText)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, s); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// seconds writes a time.
func seconds(v float64) string { return fmt.Sprintf("%.1f s", v) }

// overlapWords says how long old and new wrote beside each other.
func overlapWords(v float64) string {
	if v > -0.1 && v < 0.1 {
		return "one right after the other"
	}
	if v < 0 {
		return fmt.Sprintf("nothing written for %.1f s", -v)
	}
	return fmt.Sprintf("both for %.1f s", v)
}
