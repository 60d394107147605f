package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	versioncollector "github.com/prometheus/client_golang/prometheus/collectors/version"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/version"
	"github.com/prometheus/exporter-toolkit/web"

	"github.com/flink-lineage/flink-lineage-exporter/collector"
	"github.com/flink-lineage/flink-lineage-exporter/internal/cluster"
	"github.com/flink-lineage/flink-lineage-exporter/internal/config"
	"github.com/flink-lineage/flink-lineage-exporter/internal/logging"
)

// exporterConfig is what the HTTP server needs to know.
type exporterConfig struct {
	// single is the cluster of /metrics; nil if only the clusters of the configuration file are served.
	single *config.Cluster
	// reloader holds the clusters of /probe; nil without --config.file.
	reloader *config.Reloader
	// enabled has the collectors that are on.
	enabled                map[string]bool
	telemetryPath          string
	disableExporterMetrics bool
	maxRequests            int
	// timeoutOffset is taken off the scrape timeout that Prometheus sends.
	timeoutOffset time.Duration
}

// exporter serves the HTTP endpoints.
type exporter struct {
	cfg    exporterConfig
	logger log.Logger
	self   *prometheus.Registry
	calls  *prometheus.CounterVec
	single *cluster.Cluster
	// inFlight bounds the scrapes at a time; nil means no bound.
	inFlight chan struct{}

	mu     sync.Mutex
	probed map[string]*cluster.Cluster
	// of is the configuration that probed was made of.
	of *config.Config
}

func newExporter(cfg exporterConfig, logger log.Logger) (*exporter, error) {
	e := &exporter{cfg: cfg, logger: logger, self: prometheus.NewRegistry(), probed: map[string]*cluster.Cluster{}}
	e.calls = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "flink_lineage_api_requests_total",
		Help: "Requests made by the exporter, by endpoint (a template; reporter for a TaskManager's own reporter) and HTTP status, or error " +
			"if there was no answer.",
	}, []string{"endpoint", "code"})
	e.self.MustRegister(e.calls, versioncollector.NewCollector("flink_lineage_exporter"))
	if cfg.reloader != nil {
		e.self.MustRegister(reloadCollectors(cfg.reloader)...)
	}
	if !cfg.disableExporterMetrics {
		e.self.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector())
	}
	if cfg.maxRequests > 0 {
		e.inFlight = make(chan struct{}, cfg.maxRequests)
	}
	if cfg.single != nil {
		c, err := e.newCluster(cfg.single)
		if err != nil {
			return nil, err
		}
		e.single = c
	}
	return e, nil
}

func (e *exporter) newCluster(cfg *config.Cluster) (*cluster.Cluster, error) {
	return cluster.New(cfg, e.logger, func(endpoint, code string) { e.calls.WithLabelValues(endpoint, code).Inc() })
}

// reloadCollectors expose how the last reload of the configuration file went.
func reloadCollectors(r *config.Reloader) []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "flink_lineage_config_last_reload_successful",
			Help: "Whether the last reload of the configuration file succeeded.",
		}, func() float64 {
			if r.Status().Successful {
				return 1
			}
			return 0
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "flink_lineage_config_last_reload_success_timestamp_seconds",
			Help: "When the configuration file was last loaded successfully.",
		}, func() float64 {
			return float64(r.Status().LastSuccess.UnixMilli()) / 1000
		}),
	}
}

// handler returns the mux.
func (e *exporter) handler() (http.Handler, error) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+e.cfg.telemetryPath, e.serveMetrics)
	mux.HandleFunc("GET /-/healthy", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "Healthy.") })
	// Not whether Flink can be reached: an exporter that is taken out of service then would hide just what it is for.
	mux.HandleFunc("GET /-/ready", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "Ready.") })
	if e.cfg.reloader != nil {
		mux.HandleFunc("GET /probe", e.serveProbe)
		mux.HandleFunc("POST /-/reload", e.serveReload)
	}
	if e.cfg.telemetryPath != "/" {
		if _, err := e.landing(); err != nil {
			return nil, err
		}
		mux.HandleFunc("GET /{$}", e.serveLanding)
	}
	return mux, nil
}

// landing makes the landing page, with the clusters of the configuration in force.
func (e *exporter) landing() (http.Handler, error) {
	links := []web.LandingLinks{{Address: e.cfg.telemetryPath, Text: "Metrics"}}
	if e.cfg.reloader != nil {
		for _, name := range slices.Sorted(maps.Keys(e.cfg.reloader.Config().Clusters)) {
			links = append(links, web.LandingLinks{Address: "/probe?target=" + url.QueryEscape(name), Text: "Probe " + name})
		}
	}
	return web.NewLandingPage(web.LandingConfig{
		Name:        "Flink Lineage Exporter",
		Description: "Which Flink tasks run, where, and whether any of them runs twice",
		Version:     version.Info(),
		Links:       links,
		Profiling:   "false",
	})
}

func (e *exporter) serveLanding(w http.ResponseWriter, r *http.Request) {
	page, err := e.landing()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	page.ServeHTTP(w, r)
}

func (e *exporter) serveMetrics(w http.ResponseWriter, r *http.Request) {
	enabled, err := e.selection(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	gatherers := prometheus.Gatherers{e.self}
	if e.single != nil {
		registry, status := e.scrape(r, e.single, enabled)
		if registry == nil {
			http.Error(w, http.StatusText(status), status)
			return
		}
		gatherers = append(gatherers, registry)
	}
	e.expose(w, r, gatherers)
}

func (e *exporter) serveProbe(w http.ResponseWriter, r *http.Request) {
	enabled, err := e.selection(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	targets := r.URL.Query()["target"]
	if len(targets) != 1 || targets[0] == "" {
		http.Error(w, "give exactly one target: the name of a cluster in the configuration file", http.StatusBadRequest)
		return
	}
	c, err := e.probe(targets[0])
	if err != nil {
		level.Error(e.logger).Log("msg", "cluster cannot be probed", "cluster", targets[0], "err", err)
		http.Error(w, "cluster "+strconv.Quote(targets[0])+" cannot be probed, see the log", http.StatusInternalServerError)
		return
	}
	if c == nil {
		http.Error(w, "the configuration file names no cluster "+strconv.Quote(targets[0]), http.StatusBadRequest)
		return
	}
	registry, status := e.scrape(r, c, enabled)
	if registry == nil {
		http.Error(w, http.StatusText(status), status)
		return
	}
	e.expose(w, r, registry)
}

// probe returns the cluster of that name in the current configuration; nil if there is none. A cluster is kept as long as the configuration
// is, since what it remembers counts.
func (e *exporter) probe(name string) (*cluster.Cluster, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	current := e.cfg.reloader.Config()
	if current != e.of {
		for n, c := range e.probed {
			if next, ok := current.Clusters[n]; !ok || next.String() != c.Config().String() {
				c.Close()
				delete(e.probed, n)
			}
		}
		e.of = current
	}
	if c := e.probed[name]; c != nil {
		return c, nil
	}
	cfg, ok := current.Clusters[name]
	if !ok {
		return nil, nil //nolint:nilnil // no such cluster is no error here
	}
	c, err := e.newCluster(&cfg)
	if err != nil {
		return nil, err
	}
	e.probed[name] = c
	return c, nil
}

func (e *exporter) serveReload(w http.ResponseWriter, _ *http.Request) {
	if err := e.cfg.reloader.Reload(); err != nil {
		level.Error(e.logger).Log("msg", "configuration not reloaded, the old one stays", "err", err)
		http.Error(w, "the configuration was not reloaded, the old one stays: "+err.Error(), http.StatusInternalServerError)
		return
	}
	level.Info(e.logger).Log("msg", "configuration reloaded")
	_, _ = fmt.Fprintln(w, "Reloaded.")
}

// scrape scrapes a cluster within the request's time and returns a registry for this request alone, or nil and an HTTP status.
func (e *exporter) scrape(r *http.Request, c *cluster.Cluster, enabled map[string]bool) (*prometheus.Registry, int) {
	if e.inFlight != nil {
		select {
		case e.inFlight <- struct{}{}:
			defer func() { <-e.inFlight }()
		default:
			return nil, http.StatusServiceUnavailable
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), e.timeout(r, c.Config().Timeout))
	defer cancel()
	result, err := c.Scrape(ctx)
	if err != nil {
		return nil, http.StatusGatewayTimeout
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector.New(result, collector.Options{
		Enabled: enabled, MaxAttemptSeries: c.Config().Attempts.MaxSeries,
	}))
	return registry, http.StatusOK
}

// timeout is the time a scrape may take: what Prometheus allows less an offset for the way back, or without that twice the time of a single
// request.
func (e *exporter) timeout(r *http.Request, request time.Duration) time.Duration {
	seconds, err := strconv.ParseFloat(r.Header.Get("X-Prometheus-Scrape-Timeout-Seconds"), 64)
	if err != nil || !(seconds > 0) || seconds > 3600 {
		return 2 * request
	}
	allowed := time.Duration(seconds * float64(time.Second))
	if allowed > e.cfg.timeoutOffset {
		allowed -= e.cfg.timeoutOffset
	}
	return allowed
}

// selection is the enabled collectors that the request asks for by collect[] or exclude[].
func (e *exporter) selection(r *http.Request) (map[string]bool, error) {
	collect, exclude := r.URL.Query()["collect[]"], r.URL.Query()["exclude[]"]
	if len(collect) > 0 && len(exclude) > 0 {
		return nil, fmt.Errorf("collect[] and exclude[] cannot be combined")
	}
	for _, name := range append(slices.Clone(collect), exclude...) {
		if !slices.Contains(collector.Names, name) {
			return nil, fmt.Errorf("there is no collector %q; there are %v", name, collector.Names)
		}
	}
	selected := map[string]bool{}
	for name, on := range e.cfg.enabled {
		selected[name] = on && !slices.Contains(exclude, name) && (len(collect) == 0 || slices.Contains(collect, name))
	}
	return selected, nil
}

func (e *exporter) expose(w http.ResponseWriter, r *http.Request, g prometheus.Gatherer) {
	promhttp.HandlerFor(g, promhttp.HandlerOpts{
		ErrorLog:      logging.Stdlib(e.logger),
		ErrorHandling: promhttp.ContinueOnError,
	}).ServeHTTP(w, r)
}

// close drops idle connections.
func (e *exporter) close() {
	if e.single != nil {
		e.single.Close()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.probed {
		c.Close()
	}
}
