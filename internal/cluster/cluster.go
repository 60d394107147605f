// Package cluster watches one Flink cluster: a scrape asks its JobManagers and TaskManagers, and what it saw is judged against what is
// remembered of earlier scrapes.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"

	"github.com/flink-lineage/flink-lineage-exporter/internal/config"
	"github.com/flink-lineage/flink-lineage-exporter/internal/flink"
	"github.com/flink-lineage/flink-lineage-exporter/internal/ledger"
	"github.com/flink-lineage/flink-lineage-exporter/internal/lineage"
	"github.com/flink-lineage/flink-lineage-exporter/internal/reporter"
)

// Cluster watches one Flink cluster. It is safe for concurrent use.
type Cluster struct {
	cfg         config.Cluster
	logger      log.Logger
	rules       lineage.Rules
	jobManagers []*flink.Client
	reporters   *reporter.Client
	targets     *reporter.Targets
	kafka       *ledger.Kafka // nil without brokers
	sources     []ledger.SourceConfig
	closeIdle   []func()
	flight      flight[*Result]

	// mu serialises scrapes: two overlap only when all callers of the first gave up.
	mu      sync.Mutex
	memory  lineage.Memory
	ledger  *ledger.Ledger
	serving string
	dumps   map[string]lineage.ThreadDump
	due     map[string]bool
	failing map[string]bool
}

// Result is what one scrape made out.
type Result struct {
	Report *lineage.Report
	// Balances compare records out of each source with records produced, as far as that is turned on.
	Balances []ledger.Balance
	// Parts says of each part of the scrape how it went, by the names below.
	Parts map[string]flink.Part
}

// The parts of a scrape beside those of package flink.
const (
	PartReporter = "reporter"
	PartThreads  = "threads"
	PartLedger   = "ledger"
)

// New returns a Cluster for a valid configuration. It does not connect to anything yet. Count is called for each request made, with the
// endpoint's template and the status code.
func New(cfg *config.Cluster, logger log.Logger, count func(endpoint, code string)) (*Cluster, error) {
	flinkHTTP, err := cfg.FlinkClient()
	if err != nil {
		return nil, fmt.Errorf("client for the JobManagers: %w", err)
	}
	reporterHTTP, err := cfg.ReporterClient()
	if err != nil {
		return nil, fmt.Errorf("client for the TaskManagers' reporters: %w", err)
	}
	ports, err := config.ParsePorts(cfg.TaskManagers.MetricsPorts)
	if err != nil {
		return nil, err
	}
	allow, err := cfg.SameNameJobsRegexp()
	if err != nil {
		return nil, err
	}
	c := &Cluster{
		cfg:    *cfg,
		logger: logger,
		jobManagers: flink.NewClients(cfg.FlinkURLs, flink.Config{
			HTTP: flinkHTTP, Timeout: cfg.Timeout, Concurrency: cfg.Concurrency, Count: count,
		}),
		reporters: reporter.NewClient(reporterHTTP, cfg.Timeout, cfg.Concurrency, count),
		targets: reporter.NewTargets(reporter.TargetConfig{
			Ports: ports, URLs: cfg.TaskManagers.MetricsURLs, Files: cfg.TaskManagers.MetricsFiles, DNS: cfg.TaskManagers.MetricsDNS,
		}),
		closeIdle: []func(){flinkHTTP.CloseIdleConnections, reporterHTTP.CloseIdleConnections},
		ledger:    ledger.New(cfg.Kafka.Window),
		dumps:     map[string]lineage.ThreadDump{},
		due:       map[string]bool{},
		failing:   map[string]bool{},
	}
	for _, x := range cfg.Kafka.Sources {
		c.sources = append(c.sources, ledger.SourceConfig{
			Job: x.Job, Vertex: x.Vertex, Topics: x.Topics, Group: x.Group, ReadCommitted: x.ReadCommitted,
		})
	}
	if len(cfg.Kafka.Brokers) > 0 {
		if c.kafka, err = ledger.NewKafka(&c.cfg.Kafka, ledgerTimeout); err != nil {
			return nil, fmt.Errorf("client for Kafka: %w", err)
		}
	}
	if allow != nil {
		c.rules.AllowSameName = allow.MatchString
	}
	return c, nil
}

// Name is the cluster's name in the configuration.
func (c *Cluster) Name() string { return c.cfg.Name }

// Config is the cluster's configuration.
func (c *Cluster) Config() *config.Cluster { return &c.cfg }

// Close drops connections.
func (c *Cluster) Close() {
	if c.kafka != nil {
		c.kafka.Close()
	}
	for _, f := range c.closeIdle {
		f()
	}
}

// Scrape asks the cluster and judges what it sees. Concurrent callers share one scrape. It fails only if ctx ends first.
func (c *Cluster) Scrape(ctx context.Context) (*Result, error) {
	return c.flight.do(ctx, c.scrape)
}

func (c *Cluster) scrape(ctx context.Context) *Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &scrape{Cluster: c, ctx: ctx, begin: time.Now(), parts: map[string]flink.Part{}}
	report, balances := s.run()
	c.remember(report)
	c.logChanges(s.parts)
	return &Result{Report: report, Balances: balances, Parts: s.parts}
}

// remember keeps what the next scrape needs.
func (c *Cluster) remember(r *lineage.Report) {
	c.memory.Remember(r)
	if r.Snapshot.Leader != nil {
		c.serving = r.Snapshot.Leader.JobManager
	}
	known := map[string]bool{}
	for i := range r.TaskManagers {
		tm := &r.TaskManagers[i]
		known[tm.ID] = true
		c.due[tm.ID] = !tm.Settled
	}
	for id := range c.dumps {
		if !known[id] {
			delete(c.dumps, id)
			delete(c.due, id)
		}
	}
}

// logChanges logs when a part of the scrape begins to fail and when it works again, not every time in between.
func (c *Cluster) logChanges(parts map[string]flink.Part) {
	for name, p := range parts {
		switch failed := p.Err != nil; {
		case failed && errors.Is(p.Err, context.Canceled):
		case failed && !c.failing[name]:
			level.Warn(c.logger).Log("msg", "part of the scrape fails", "cluster", c.cfg.Name, "part", name, "err", p.Err)
			c.failing[name] = true
		case !failed && c.failing[name]:
			level.Info(c.logger).Log("msg", "part of the scrape works again", "cluster", c.cfg.Name, "part", name)
			c.failing[name] = false
		}
	}
}
