// Command rules writes the alerting rules, and the copies of them that the examples have. Run it at the top of the repository.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/alecthomas/kingpin/v2"

	"github.com/flink-lineage/flink-lineage-exporter/alerts"
)

func main() {
	app := kingpin.New("rules", "Write the alerting rules with the thresholds of alerts/thresholds.yaml.")
	out := app.Flag("out", "Directory to write to.").Default("alerts").ExistingDir()
	override := app.Flag("thresholds", "File in the form of alerts/thresholds.yaml; what it has goes before.").ExistingFile()
	app.HelpFlag.Short('h')
	kingpin.MustParse(app.Parse(os.Args[1:]))
	app.FatalIfError(write(*out, *override), "")
}

func write(dir, override string) error {
	thresholds, err := alerts.Defaults()
	if err != nil {
		return err
	}
	if override != "" {
		text, err := os.ReadFile(override)
		if err != nil {
			return err
		}
		if err := thresholds.Override(text); err != nil {
			return fmt.Errorf("%s: %w", override, err)
		}
	}
	for _, file := range alerts.Files {
		text, err := alerts.Render(file, thresholds)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o644); err != nil { //nolint:gosec // rules are for everyone to read
			return err
		}
		if file != alerts.Files[0] || dir != "alerts" {
			continue
		}
		for path, content := range alerts.Copies {
			if err := os.WriteFile(path, content(text), 0o644); err != nil { //nolint:gosec // as above
				return err
			}
		}
	}
	return nil
}
