package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
	"github.com/prometheus/common/version"
	"github.com/prometheus/exporter-toolkit/web"
	"github.com/prometheus/exporter-toolkit/web/kingpinflag"

	"github.com/flink-lineage/flink-lineage-exporter/collector"
	"github.com/flink-lineage/flink-lineage-exporter/internal/config"
	"github.com/flink-lineage/flink-lineage-exporter/internal/logging"
)

// drain is how long a scrape in flight may take to be answered when the exporter is stopped.
const drain = 15 * time.Second

// serve is the default subcommand.
type serve struct {
	cluster *config.Flags
	web     webFlags
}

// webFlags are the flags of the HTTP server and of what it exposes.
type webFlags struct {
	toolkit         *web.FlagConfig
	telemetryPath   *string
	disableExporter *bool
	maxRequests     *int
	timeoutOffset   *time.Duration
	disableDefaults *bool
	collectors      map[string]*bool
	// set has the collectors whose flag was given.
	set map[string]*bool
}

func addWebFlags(cmd *kingpin.CmdClause, address string) webFlags {
	w := webFlags{
		toolkit:       kingpinflag.AddFlags(cmd, address),
		telemetryPath: cmd.Flag("web.telemetry-path", "Path under which to expose metrics.").Default("/metrics").String(),
		disableExporter: cmd.Flag("web.disable-exporter-metrics",
			"Exclude metrics about the exporter itself (process_*, go_*).").Bool(),
		maxRequests: cmd.Flag("web.max-requests", "Maximum number of parallel scrape requests. 0 means no limit.").Default("40").Int(),
		timeoutOffset: cmd.Flag("timeout-offset",
			"Time to take off the scrape timeout that Prometheus sends, for the way back.").Default("500ms").Duration(),
		disableDefaults: cmd.Flag("collector.disable-defaults", "Turn off every collector whose flag is not given.").Bool(),
		collectors:      map[string]*bool{},
		set:             map[string]*bool{},
	}
	for _, name := range collector.Names {
		w.set[name] = new(bool)
		w.collectors[name] = cmd.Flag("collector."+name, "Expose "+collector.Help[name]+".").Default("true").IsSetByUser(w.set[name]).Bool()
	}
	return w
}

// enabled are the collectors that are on.
func (w *webFlags) enabled() map[string]bool {
	on := map[string]bool{}
	for name, flag := range w.collectors {
		on[name] = *flag && (*w.set[name] || !*w.disableDefaults)
	}
	return on
}

func (w *webFlags) exporterConfig() (exporterConfig, error) {
	if p := *w.telemetryPath; !strings.HasPrefix(p, "/") || strings.ContainsAny(p, "{} ") || strings.HasPrefix(p, "/-/") || p == "/probe" {
		return exporterConfig{}, usageError{fmt.Errorf("--web.telemetry-path: %q does not begin with a slash, or is a path with another purpose", p)}
	}
	return exporterConfig{
		enabled: w.enabled(), telemetryPath: *w.telemetryPath, disableExporterMetrics: *w.disableExporter,
		maxRequests: *w.maxRequests, timeoutOffset: *w.timeoutOffset,
	}, nil
}

func newServe(cmd *kingpin.CmdClause) command {
	return &serve{cluster: config.AddFlags(cmd), web: addWebFlags(cmd, ":9269")}
}

func (s *serve) run(env *environment) error {
	logger := logging.New(env.log, env.stderr)
	cfg, err := s.web.exporterConfig()
	if err != nil {
		return err
	}
	if s.cluster.ConfigFile != "" {
		r, err := config.NewReloader(s.cluster.ConfigFile)
		if err != nil {
			return usageError{err}
		}
		cfg.reloader = r
	}
	// With a configuration file, /metrics serves a cluster only if the command line names one too.
	if cfg.reloader == nil || s.cluster.FlinkURLGiven {
		c, err := s.cluster.Cluster()
		if err != nil {
			return usageError{err}
		}
		cfg.single = &c
	}
	e, err := newExporter(cfg, logger)
	if err != nil {
		return err
	}
	defer e.close()
	if s.cluster.ConfigCheck {
		_, err := fmt.Fprintln(env.stdout, "The configuration is valid.")
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if cfg.reloader != nil {
		go reloadOnHangup(ctx, cfg.reloader, logger)
	}
	return listen(ctx, e, s.web.toolkit, logger)
}

// listen serves until ctx ends, and then answers the requests in flight.
func listen(ctx context.Context, e *exporter, flags *web.FlagConfig, logger log.Logger) error {
	level.Info(logger).Log("msg", "starting "+appName, "version", version.Info())
	level.Info(logger).Log("msg", "build context", "build_context", version.BuildContext(), "procs", runtime.GOMAXPROCS(0))
	handler, err := e.handler()
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		// Not derived from ctx: requests in flight go on while the server drains.
		BaseContext: func(net.Listener) context.Context { return context.Background() },
	}
	failed := make(chan error, 1)
	go func() { failed <- web.ListenAndServe(server, flags, logging.Slog(logger)) }()
	select {
	case err := <-failed:
		return fmt.Errorf("cannot serve: %w", err)
	case <-ctx.Done():
	}
	level.Info(logger).Log("msg", "stopping, requests in flight are answered first")
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return fmt.Errorf("a request in flight was cut off: %w", err)
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func reloadOnHangup(ctx context.Context, r *config.Reloader, logger log.Logger) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			if err := r.Reload(); err != nil {
				level.Error(logger).Log("msg", "configuration not reloaded, the old one stays", "err", err)
			} else {
				level.Info(logger).Log("msg", "configuration reloaded")
			}
		}
	}
}
