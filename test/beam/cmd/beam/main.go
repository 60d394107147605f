// Command beam plays real pipelines from Kafka into PostgreSQL on Flink and records their moments.
//
//	beam build                                                      build broker and pipelines into the cache
//	beam play SCENARIO... --recorder "COMMAND" --out FOLDER         play scenarios one after the other
//	beam threads RECORDING...                                       what the source threads of a recording do
package main

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kingpin/v2"

	"github.com/flink-lineage/flink-lineage-exporter/test/beam"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "beam:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	app := kingpin.New("beam", "Real pipelines from Kafka into PostgreSQL on Flink.")
	app.HelpFlag.Short('h')
	build := app.Command("build", "Build broker and pipelines into the cache.")
	play := app.Command("play", "Play scenarios on systems of their own and record their moments.")
	names := play.Arg("scenario", scenarioHelp()).Required().Enums(slices.Sorted(maps.Keys(scenarios))...)
	recorder := play.Flag("recorder", "Command that records a cluster; it gets FILE --scenario S --note N --flink.url=URL... --taskmanager.metrics-url=URL...").Required().String()
	folder := play.Flag("out", "Folder for the recordings.").Default(".").ExistingDir()
	verbose := play.Flag("verbose", "Tell what the drivers wait for.").Bool()
	threads := app.Command("threads", "Summarize the source threads of recordings.")
	files := threads.Arg("recording", "Recordings.").Required().ExistingFiles()

	parsed, err := app.Parse(args)
	if err != nil {
		return err
	}
	switch parsed {
	case build.FullCommand():
		return beam.Build(ctx)
	case threads.FullCommand():
		for _, file := range *files {
			if err := summarize(file, out); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
		return nil
	}
	for _, name := range *names {
		if err := playScenario(ctx, name, strings.Fields(*recorder), *folder, *verbose, out); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// summarize reads the thread dumps of a recording.
func summarize(file string, out io.Writer) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	zr, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	var recording struct {
		Scenario    string `json:"scenario"`
		JobManagers []struct {
			URL       string `json:"url"`
			Responses map[string]struct {
				Body json.RawMessage `json:"body"`
			} `json:"responses"`
		} `json:"jobmanagers"`
	}
	if err := json.NewDecoder(zr).Decode(&recording); err != nil {
		return err
	}
	for _, jm := range recording.JobManagers {
		for _, path := range slices.Sorted(maps.Keys(jm.Responses)) {
			if !strings.HasPrefix(path, "/taskmanagers/") || !strings.HasSuffix(path, "/thread-dump") {
				continue
			}
			var dump struct {
				ThreadInfos []beam.Thread `json:"threadInfos"`
			}
			if err := json.Unmarshal(jm.Responses[path].Body, &dump); err != nil {
				return errors.Join(errors.New(path), err)
			}
			fmt.Fprintf(out, "%s %s%s\n", recording.Scenario, jm.URL, path)
			printThreads(out, dump.ThreadInfos)
		}
	}
	return nil
}

func printThreads(out io.Writer, threads []beam.Thread) {
	counts := beam.SummarizeThreads(threads)
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(out, "  %2d  %s\n", counts[what], what)
	}
	if order := beam.ReadersInOrder(threads); order != "" {
		fmt.Fprintf(out, "      in order of start: %s\n", order)
	}
}
