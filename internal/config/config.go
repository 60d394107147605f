// Package config holds what the exporter must know about each Flink cluster: where its JobManagers and TaskManagers are,
// how to authenticate to them, and what to look at. One cluster comes from flags and the environment (Flags), many from
// the file of --config.file (Load, Reloader).
package config

import (
	"net/http"
	"time"

	promconfig "github.com/prometheus/common/config"
	"go.yaml.in/yaml/v3"
)

// Config is the content of the file of --config.file.
type Config struct {
	// Clusters are the targets of /probe, by name.
	Clusters map[string]Cluster `yaml:"clusters"`
}

// Cluster is what is configured about one Flink cluster. In the file, each field left out has the value it has in the
// section `defaults`, or else that of Default.
type Cluster struct {
	// Name is the cluster's key in the file; empty for the cluster of the command line.
	Name string `yaml:"-"`
	// FlinkURLs are the REST addresses of every JobManager of this one cluster; a path prefix is allowed. Required.
	FlinkURLs []string `yaml:"flink_urls"`
	// Timeout bounds each single request to a JobManager or a reporter.
	Timeout time.Duration `yaml:"timeout"`
	// Concurrency is how many requests to the cluster may be in flight at once.
	Concurrency int `yaml:"concurrency"`
	// HTTP configures the client for the JobManagers as in Prometheus' http_config: basic_auth, authorization, oauth2,
	// tls_config, proxy_url, http_headers. Secrets only in files; redirects are never followed.
	HTTP promconfig.HTTPClientConfig `yaml:"http"`
	// TaskManagers says where the TaskManagers' own Prometheus reporters are.
	TaskManagers TaskManagers `yaml:"taskmanagers"`
	// Threads configures the thread dumps that are taken through the JobManager.
	Threads Threads `yaml:"threads"`
	// SameNameJobs are regular expressions, matched against the whole name, of jobs that may run more than once at a time.
	SameNameJobs []string `yaml:"same_name_jobs"`
	// Attempts configures the metric task_attempt.
	Attempts Attempts `yaml:"attempts"`
	// FinishedJobs is how long after its end a job in a terminal state is still shown; 0 hides it at once.
	FinishedJobs time.Duration `yaml:"finished_retention"`
	// Kafka configures the ledger; without brokers there is none.
	Kafka Kafka `yaml:"kafka"`
}

// TaskManagers says where the TaskManagers' own Prometheus reporters are.
type TaskManagers struct {
	// MetricsPorts are tried on the host of each registered TaskManager: ports and ranges as ParsePorts reads them.
	// Empty turns that off.
	MetricsPorts string `yaml:"metrics_ports"`
	// MetricsURLs are further reporters, of TaskManagers the JobManager may not list.
	MetricsURLs []string `yaml:"metrics_urls"`
	// MetricsFiles are files of further reporters in the format of Prometheus' file_sd (JSON or YAML). The last element
	// of a path may contain wildcards.
	MetricsFiles []string `yaml:"metrics_files"`
	// MetricsDNS are host:port pairs; each address the host name resolves to (A, AAAA) is a reporter.
	MetricsDNS []string `yaml:"metrics_dns"`
	// HTTP configures the client for the reporters. Credentials of Cluster.HTTP are not sent to them, nor the other way round.
	HTTP promconfig.HTTPClientConfig `yaml:"http"`
}

// Threads configures the thread dumps that are taken through the JobManager.
type Threads struct {
	// Enabled is whether thread dumps are taken at all.
	Enabled bool `yaml:"enabled"`
	// Interval is the least time between two routine dumps of one TaskManager; 0 takes one every scrape.
	Interval time.Duration `yaml:"interval"`
}

// Attempts configures the metric task_attempt.
type Attempts struct {
	// MaxSeries is how many series of task_attempt are exposed at most; 0 exposes none.
	MaxSeries int `yaml:"max_series"`
}

// Kafka configures the ledger, which compares records out of a source with records produced to its topics.
type Kafka struct {
	// Brokers are host:port pairs to bootstrap from.
	Brokers []string `yaml:"brokers"`
	// Sources say which source vertex reads which topics, where the exporter cannot find that out by itself.
	Sources []KafkaSource `yaml:"sources"`
	// Window is the time over which the ledger balances.
	Window time.Duration `yaml:"window"`
	// TLS makes connections use TLS; without it they are in plain text. An empty mapping trusts the system's CAs.
	TLS *promconfig.TLSConfig `yaml:"tls_config,omitempty"`
	// SASL authenticates to the brokers, if a mechanism is set.
	SASL SASL `yaml:"sasl"`
}

// KafkaSource says which topics a source vertex reads.
type KafkaSource struct {
	// Job and Vertex are names as the JobManager shows them.
	Job    string `yaml:"job"`
	Vertex string `yaml:"vertex"`
	// Topics are the topics it reads, by name; empty if its reporter names them.
	Topics []string `yaml:"topics"`
	// Group is the consumer group with which it commits offsets: they tell how far it has read where it does not tell itself.
	Group string `yaml:"group,omitempty"`
	// ReadCommitted is whether it reads committed records only (isolation.level=read_committed).
	ReadCommitted bool `yaml:"read_committed,omitempty"`
}

// SASL are credentials for Kafka brokers.
type SASL struct {
	// Mechanism is plain, scram-sha-256 or scram-sha-512; empty for none.
	Mechanism string `yaml:"mechanism,omitempty"`
	Username  string `yaml:"username,omitempty"`
	// PasswordFile is read whenever a connection is made.
	PasswordFile string `yaml:"password_file,omitempty"`
}

// Default returns a cluster with every default, and no FlinkURLs.
func Default() Cluster {
	return Cluster{
		Timeout:      5 * time.Second,
		Concurrency:  16,
		HTTP:         defaultHTTP(),
		TaskManagers: TaskManagers{MetricsPorts: "9249", HTTP: defaultHTTP()},
		Threads:      Threads{Enabled: true, Interval: time.Minute},
		Attempts:     Attempts{MaxSeries: 10000},
		FinishedJobs: time.Hour,
		Kafka:        Kafka{Window: 5 * time.Minute},
	}
}

// defaultHTTP returns Prometheus' defaults, except that redirects are not followed: they would take credentials to hosts
// the configuration does not name.
func defaultHTTP() promconfig.HTTPClientConfig {
	c := promconfig.DefaultHTTPClientConfig
	c.FollowRedirects = false
	return c
}

// FlinkClient returns a new client for the JobManagers. It fails if a file of tls_config cannot be read; files with
// secrets are read with each request.
func (c *Cluster) FlinkClient() (*http.Client, error) {
	return newClient(c.HTTP, "flink", c.Timeout)
}

// ReporterClient returns a new client for the TaskManagers' reporters; errors as FlinkClient.
func (c *Cluster) ReporterClient() (*http.Client, error) {
	return newClient(c.TaskManagers.HTTP, "reporter", c.Timeout)
}

func newClient(cfg promconfig.HTTPClientConfig, name string, timeout time.Duration) (*http.Client, error) {
	cfg.FollowRedirects = false
	client, err := promconfig.NewClientFromConfig(cfg, name)
	if err != nil {
		return nil, err
	}
	client.Timeout = timeout
	return client, nil
}

// String returns the configuration as YAML with every secret hidden.
func (c Config) String() string { return marshal(c) }

// GoString hides secrets from %#v.
func (c Config) GoString() string { return marshal(c) }

// String returns the configuration as YAML with every secret hidden.
func (c Cluster) String() string { return marshal(c) }

// GoString hides secrets from %#v.
func (c Cluster) GoString() string { return marshal(c) }

func marshal(v any) string {
	out, err := yaml.Marshal(v)
	if err != nil {
		return "configuration that cannot be shown: " + err.Error()
	}
	return string(out)
}
