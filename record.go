package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/alecthomas/kingpin/v2"

	"github.com/flink-lineage/flink-lineage-exporter/internal/cluster"
	"github.com/flink-lineage/flink-lineage-exporter/internal/config"
	"github.com/flink-lineage/flink-lineage-exporter/internal/logging"
	"github.com/flink-lineage/flink-lineage-exporter/internal/recording"
)

// record is the subcommand that writes a recording.
type record struct {
	cluster              *config.Flags
	out, scenario, note  *string
	anonymize, overwrite *bool
}

func newRecord(cmd *kingpin.CmdClause) command {
	return &record{
		cluster:   config.AddFlags(cmd),
		out:       cmd.Arg("file", "File to write, such as incident.json.gz.").Required().String(),
		scenario:  cmd.Flag("scenario", "Short name of what is going on.").Default("incident").String(),
		note:      cmd.Flag("note", "A sentence about it.").String(),
		anonymize: cmd.Flag("anonymize", "Replace the names of jobs, vertices, hosts, topics and files, each always by the same other name.").Bool(),
		overwrite: cmd.Flag("overwrite", "Replace the file if it exists.").Bool(),
	}
}

func (c *record) run(env *environment) error {
	cfg, err := c.cluster.Cluster()
	if err != nil {
		return usageError{err}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	watched, err := cluster.New(&cfg, logging.New(env.log, env.stderr), func(string, string) {})
	if err != nil {
		return err
	}
	defer watched.Close()
	// A scrape finds out where the reporters are.
	result, err := watched.Scrape(ctx)
	if err != nil {
		return err
	}
	options := recording.Options{Scenario: *c.scenario, Note: *c.note, Concurrency: cfg.Concurrency}
	flinkHTTP, err := cfg.FlinkClient()
	if err != nil {
		return err
	}
	reporterHTTP, err := cfg.ReporterClient()
	if err != nil {
		return err
	}
	for _, u := range cfg.FlinkURLs {
		options.JobManagers = append(options.JobManagers, recording.Target{URL: u, Client: flinkHTTP})
	}
	for i := range result.Report.Snapshot.Reporters {
		// What did not answer as a TaskManager's reporter is only a port that was tried.
		if r := &result.Report.Snapshot.Reporters[i]; r.TaskManager != "" || slices.Contains(cfg.TaskManagers.MetricsURLs, r.URL) {
			options.Reporters = append(options.Reporters, recording.Target{URL: r.URL, Client: reporterHTTP})
		}
	}
	rec, err := recording.Record(ctx, options)
	if err != nil {
		return err
	}
	if *c.anonymize {
		recording.Anonymize(rec)
	}
	write := recording.WriteFile
	if *c.overwrite {
		write = recording.ReplaceFile
	}
	if err := write(*c.out, rec); err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.stdout, "Wrote %s: Flink %s, %d JobManagers, %d reporters. Look through it before you pass it on.\n",
		*c.out, rec.FlinkVersion, len(rec.JobManagers), len(rec.TaskManagers))
	return err
}
