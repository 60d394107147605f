package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kingpin/v2"

	"github.com/flink-lineage/flink-lineage-exporter/internal/recording"
)

// replay is the subcommand that serves a recording.
type replay struct {
	file *string
}

func newReplay(cmd *kingpin.CmdClause) command {
	return &replay{file: cmd.Arg("file", "Recording to serve.").Required().ExistingFile()}
}

func (c *replay) run(env *environment) error {
	rec, err := recording.Load(*c.file)
	if err != nil {
		return usageError{err}
	}
	server, err := recording.Serve(rec)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	_, _ = fmt.Fprintf(env.stdout, "%s, Flink %s: %s\n\n", rec.Scenario, rec.FlinkVersion, rec.Note)
	printServer(env.stdout, server)
	_, _ = fmt.Fprintf(env.stdout, "\nTo look at it:\n  %s %s\nInterrupt to stop.\n", appName, strings.Join(flagsFor(server), " "))
	<-ctx.Done()
	return server.Close()
}

func printServer(w io.Writer, s *recording.Server) {
	for _, u := range s.JobManagerURLs() {
		_, _ = fmt.Fprintf(w, "JobManager   %s\n", u)
	}
	for _, u := range s.ReporterURLs() {
		_, _ = fmt.Fprintf(w, "TaskManager  %s\n", u)
	}
}

// flagsFor are the flags that make the exporter look at a replayed cluster.
func flagsFor(s *recording.Server) []string {
	flags := []string{"--taskmanager.metrics-ports="}
	for _, u := range s.JobManagerURLs() {
		flags = append(flags, "--flink.url="+u)
	}
	for _, u := range s.ReporterURLs() {
		flags = append(flags, "--taskmanager.metrics-url="+u)
	}
	return flags
}
