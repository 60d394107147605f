package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"runtime"
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

// writeStory writes docs/night.md.
func writeStory(file string, results []*result) error {
	text, err := tell(results, runtime.NumCPU())
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return os.WriteFile(file, text, 0o644) // #nosec G306 -- a document
}

// tell fills the template. Every act must be there under both kinds of high availability, with all its steps.
func tell(results []*result, cores int) ([]byte, error) {
	s := story{
		Flink: flinkVersion, Parallelism: parallelism, Slots: slots, Rate: rate, Window: ledgerWindow.Seconds(), Watched: watched.Seconds(), Cores: cores,
	}
	for _, r := range results {
		if len(r.Steps) != 4 {
			return nil, fmt.Errorf("act %s under %s has %d steps, want 4", r.Act.name, r.HA.name, len(r.Steps))
		}
		if r.Act == beamAct {
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
	if v < 0 {
		return fmt.Sprintf("nothing written for %.1f s", -v)
	}
	return fmt.Sprintf("both for %.1f s", v)
}
