package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/flink-lineage/flink-lineage-exporter/internal/config"
	"github.com/flink-lineage/flink-lineage-exporter/internal/logging"
	"github.com/flink-lineage/flink-lineage-exporter/internal/recording"
	"github.com/flink-lineage/flink-lineage-exporter/recordings"
)

// demoMoments are the recordings the demo plays, all of one real cluster.
var demoMoments = []string{
	"1.17.2-night-1-healthy.json.gz",
	"1.17.2-night-2-no-leader.json.gz",
	"1.17.2-night-3-duplicate.json.gz",
	"1.17.2-night-4-restarted.json.gz",
}

// demo is the subcommand that serves metrics of a recorded incident.
type demo struct {
	web    webFlags
	moment *time.Duration
}

func newDemo(cmd *kingpin.CmdClause) command {
	return &demo{
		web:    addWebFlags(cmd, "127.0.0.1:9269"),
		moment: cmd.Flag("moment", "How long each moment of the incident is shown.").Default("30s").Duration(),
	}
}

func (c *demo) run(env *environment) error {
	moments := make([]recording.Moment, 0, len(demoMoments))
	for _, name := range demoMoments {
		rec, err := recording.LoadFS(recordings.FS, name)
		if err != nil {
			return err
		}
		moments = append(moments, recording.Moment{Recording: rec, For: *c.moment})
	}
	server, err := recording.Serve(moments[0].Recording)
	if err != nil {
		return err
	}
	defer func() { _ = server.Close() }()

	cfg := config.Default()
	cfg.FlinkURLs = server.JobManagerURLs()
	cfg.TaskManagers.MetricsPorts = ""
	cfg.TaskManagers.MetricsURLs = server.ReporterURLs()
	cfg.Threads.Interval = 0
	served, err := c.web.exporterConfig()
	if err != nil {
		return err
	}
	served.single = &cfg
	logger := logging.New(env.log, env.stderr)
	e, err := newExporter(served, logger)
	if err != nil {
		return err
	}
	defer e.close()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	played := make(chan error, 1)
	go func() {
		played <- server.Play(ctx, moments, func(i int) {
			_, _ = fmt.Fprintf(env.stdout, "now: %s\n", moments[i].Recording.Note)
		})
		stop()
	}()
	address := (*c.web.toolkit.WebListenAddresses)[0]
	_, _ = fmt.Fprintf(env.stdout, "A recorded incident of Flink %s plays in a loop, %s a moment.\n\n", moments[0].Recording.FlinkVersion, *c.moment)
	printServer(env.stdout, server)
	_, _ = fmt.Fprintf(env.stdout, "Exporter     http://%s/metrics\n\nWhat to look at: flink_lineage_job_verdict, flink_lineage_duplicate_subtasks, "+
		"flink_lineage_orphan_executions, flink_lineage_up. Interrupt to stop.\n\n", address)
	if err := listen(ctx, e, c.web.toolkit, logger); err != nil {
		return err
	}
	return <-played
}
