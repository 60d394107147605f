package config

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"
	promconfig "github.com/prometheus/common/config"
)

// Environment variables with the credentials for the JobManagers of the command line's cluster.
const (
	EnvUsername        = "FLINK_EXPORTER_USERNAME"
	EnvPassword        = "FLINK_EXPORTER_PASSWORD"
	EnvPasswordFile    = "FLINK_EXPORTER_PASSWORD_FILE"
	EnvBearerToken     = "FLINK_EXPORTER_BEARER_TOKEN"
	EnvBearerTokenFile = "FLINK_EXPORTER_BEARER_TOKEN_FILE"
)

// Flags are the command line's settings of one cluster, and the file with more of them. They are filled in when the
// application they were added to parses its command line.
type Flags struct {
	// ConfigFile is the file with the clusters of /probe; empty for none.
	ConfigFile string
	// ConfigCheck asks to check ConfigFile and exit.
	ConfigCheck bool
	// FlinkURLGiven is whether --flink.url was given, and is not just its default.
	FlinkURLGiven bool

	flinkURLs       []string
	timeout         time.Duration
	concurrency     int
	tls             promconfig.TLSConfig
	headerFiles     []string
	metricsPorts    string
	metricsURLs     []string
	metricsFiles    []string
	metricsDNS      []string
	threads         bool
	threadsInterval time.Duration
	sameNameJobs    []string
	finishedJobs    time.Duration
	maxSeries       int
	kafkaBrokers    []string
	kafkaSources    []string
	kafkaWindow     time.Duration
	kafkaTLS        bool
	kafkaTLSFiles   promconfig.TLSConfig
	kafkaSASL       SASL
}

// flagNames are the flags that set a field of a Cluster.
var flagNames = map[string]string{
	"flink_urls":                          "--flink.url",
	"timeout":                             "--flink.timeout",
	"concurrency":                         "--flink.concurrency",
	"http":                                "FLINK_EXPORTER_*",
	"http.tls_config":                     "--flink.tls.*",
	"http.http_headers":                   "--flink.header-file",
	"http.basic_auth":                     EnvUsername,
	"taskmanagers.metrics_ports":          "--taskmanager.metrics-ports",
	"taskmanagers.metrics_urls":           "--taskmanager.metrics-url",
	"taskmanagers.metrics_files":          "--taskmanager.metrics-file",
	"taskmanagers.metrics_dns":            "--taskmanager.metrics-dns",
	"threads.interval":                    "--threads.interval",
	"same_name_jobs":                      "--job.allow-same-name",
	"finished_retention":                  "--job.finished-retention",
	"attempts.max_series":                 "--collector.attempts.max-series",
	"kafka.brokers":                       "--kafka.brokers",
	"kafka.sources":                       "--kafka.source",
	"kafka.window":                        "--kafka.window",
	"kafka.tls_config":                    "--kafka.tls.*",
	"kafka.sasl.mechanism":                "--kafka.sasl.mechanism",
	"kafka.sasl.username":                 "--kafka.sasl.username",
	"kafka.sasl.password_file":            "--kafka.sasl.password-file",
	"http.basic_auth.password_file":       EnvPasswordFile,
	"http.authorization.credentials_file": EnvBearerTokenFile,
}

// Flagger is a kingpin.Application or one of its commands.
type Flagger interface {
	Flag(name, help string) *kingpin.FlagClause
}

// AddFlags registers the flags of one cluster, --config.file and --config.check.
func AddFlags(app Flagger) *Flags {
	f, def := &Flags{}, Default()
	app.Flag("config.file", "File with the clusters that /probe?target=NAME serves.").StringVar(&f.ConfigFile)
	app.Flag("config.check", "Check the file of --config.file and exit.").BoolVar(&f.ConfigCheck)

	app.Flag("flink.url", "REST address of a JobManager. Repeat it for every JobManager of the one cluster.").
		Default("http://localhost:8081").IsSetByUser(&f.FlinkURLGiven).StringsVar(&f.flinkURLs)
	app.Flag("flink.timeout", "Timeout of each single request to the cluster.").
		Default(def.Timeout.String()).DurationVar(&f.timeout)
	app.Flag("flink.concurrency", "Requests to the cluster that may be in flight at once.").
		Default(fmt.Sprint(def.Concurrency)).IntVar(&f.concurrency)
	app.Flag("flink.tls.ca-file", "Certificates to trust when talking to JobManagers, instead of the system's.").
		StringVar(&f.tls.CAFile)
	app.Flag("flink.tls.cert-file", "Client certificate for JobManagers.").StringVar(&f.tls.CertFile)
	app.Flag("flink.tls.key-file", "Key of the client certificate.").StringVar(&f.tls.KeyFile)
	app.Flag("flink.tls.server-name", "Name the JobManagers' certificates must have, instead of the host of the URL.").
		StringVar(&f.tls.ServerName)
	app.Flag("flink.tls.insecure-skip-verify", "Accept any certificate of a JobManager.").BoolVar(&f.tls.InsecureSkipVerify)
	app.Flag("flink.header-file", "NAME=FILE: send the content of FILE as header NAME to JobManagers. Repeatable.").
		StringsVar(&f.headerFiles)

	app.Flag("taskmanager.metrics-ports", "Ports and ranges on which the host of each TaskManager is asked for Flink's Prometheus reporter,"+
		" for example 9249 or 9250-9260,9300. Empty to ask none.").
		Default(def.TaskManagers.MetricsPorts).StringVar(&f.metricsPorts)
	app.Flag("taskmanager.metrics-url", "URL of a further TaskManager's reporter, which the JobManager may not list. Repeatable.").
		StringsVar(&f.metricsURLs)
	app.Flag("taskmanager.metrics-file", "File of further reporters in the format of Prometheus' file_sd. Repeatable.").
		StringsVar(&f.metricsFiles)
	app.Flag("taskmanager.metrics-dns", "HOST:PORT: every address HOST resolves to is a further reporter. Repeatable.").
		StringsVar(&f.metricsDNS)

	app.Flag("threads", "Take thread dumps of the TaskManagers through the JobManager.").
		Default(fmt.Sprint(def.Threads.Enabled)).BoolVar(&f.threads)
	app.Flag("threads.interval", "Least time between two routine thread dumps of one TaskManager. 0 takes one every scrape.").
		Default(def.Threads.Interval.String()).DurationVar(&f.threadsInterval)

	app.Flag("job.allow-same-name", "Regular expression: jobs whose whole name matches may run more than once at a time. Repeatable.").
		StringsVar(&f.sameNameJobs)
	app.Flag("job.finished-retention", "How long after its end a finished, failed or canceled job is still shown.").
		Default(def.FinishedJobs.String()).DurationVar(&f.finishedJobs)
	app.Flag("collector.attempts.max-series", "Most series of task_attempt to expose.").
		Default(fmt.Sprint(def.Attempts.MaxSeries)).IntVar(&f.maxSeries)

	app.Flag("kafka.brokers", "HOST:PORT[,HOST:PORT]: Kafka brokers, to compare records read with records produced. Repeatable.").
		StringsVar(&f.kafkaBrokers)
	app.Flag("kafka.source", "JOB/VERTEX=TOPIC[,TOPIC]: topics a source vertex reads, where that cannot be found out. Repeatable.").
		StringsVar(&f.kafkaSources)
	app.Flag("kafka.window", "Time over which records read are compared with records produced.").
		Default(def.Kafka.Window.String()).DurationVar(&f.kafkaWindow)
	app.Flag("kafka.tls", "Talk TLS to the brokers.").BoolVar(&f.kafkaTLS)
	app.Flag("kafka.tls.ca-file", "Certificates to trust when talking to brokers, instead of the system's.").
		StringVar(&f.kafkaTLSFiles.CAFile)
	app.Flag("kafka.tls.cert-file", "Client certificate for brokers.").StringVar(&f.kafkaTLSFiles.CertFile)
	app.Flag("kafka.tls.key-file", "Key of the client certificate.").StringVar(&f.kafkaTLSFiles.KeyFile)
	app.Flag("kafka.sasl.mechanism", "How to authenticate to the brokers: "+strings.Join(saslMechanisms, ", ")+".").
		StringVar(&f.kafkaSASL.Mechanism)
	app.Flag("kafka.sasl.username", "User name for the brokers.").StringVar(&f.kafkaSASL.Username)
	app.Flag("kafka.sasl.password-file", "File with the password for the brokers.").StringVar(&f.kafkaSASL.PasswordFile)
	return f
}

// Cluster returns the cluster of the command line, named "", with the credentials of the environment. Its error names
// every flag and variable that is wrong, and every file that cannot be read.
func (f *Flags) Cluster() (Cluster, error) {
	c := Default()
	c.FlinkURLs = append([]string(nil), f.flinkURLs...)
	c.Timeout = f.timeout
	c.Concurrency = f.concurrency
	c.TaskManagers.MetricsPorts = f.metricsPorts
	c.TaskManagers.MetricsURLs = f.metricsURLs
	c.TaskManagers.MetricsFiles = f.metricsFiles
	c.TaskManagers.MetricsDNS = f.metricsDNS
	c.Threads = Threads{Enabled: f.threads, Interval: f.threadsInterval}
	c.SameNameJobs = f.sameNameJobs
	c.FinishedJobs = f.finishedJobs
	c.Attempts.MaxSeries = f.maxSeries
	c.HTTP.TLSConfig = f.tls
	c.Kafka.Window = f.kafkaWindow
	c.Kafka.SASL = f.kafkaSASL
	if f.kafkaTLS || f.kafkaTLSFiles != (promconfig.TLSConfig{}) {
		c.Kafka.TLS = &f.kafkaTLSFiles
	}

	var errs []error
	var err error
	c.HTTP.HTTPHeaders, err = headersFromFiles(f.headerFiles)
	errs = append(errs, err)
	errs = append(errs, credentialsFromEnvironment(&c.HTTP))
	for _, brokers := range f.kafkaBrokers {
		c.Kafka.Brokers = append(c.Kafka.Brokers, strings.Split(brokers, ",")...)
	}
	for _, s := range f.kafkaSources {
		source, err := parseKafkaSource(s)
		errs = append(errs, err)
		c.Kafka.Sources = append(c.Kafka.Sources, source)
	}
	if err := errors.Join(errs...); err != nil {
		return Cluster{}, err
	}
	problems := c.validate()
	if len(problems) == 0 {
		problems = c.checkFiles()
	}
	for _, p := range problems {
		errs = append(errs, fmt.Errorf("%s: %w", flagOf(p.Field), p.Err))
	}
	return c, errors.Join(errs...)
}

// flagOf returns the flag that sets the field, or the innermost section around it that has one.
func flagOf(field string) string {
	for at := field; at != ""; at = at[:max(strings.LastIndexAny(at, ".["), 0)] {
		if flag, ok := flagNames[at]; ok {
			return flag
		}
	}
	return field
}

func headersFromFiles(headerFiles []string) (*promconfig.Headers, error) {
	if len(headerFiles) == 0 {
		return nil, nil
	}
	headers := &promconfig.Headers{Headers: map[string]promconfig.Header{}}
	for _, s := range headerFiles {
		name, file, ok := strings.Cut(s, "=")
		if !ok || name == "" || file == "" {
			return nil, fmt.Errorf("--flink.header-file: want NAME=FILE, not %q", s)
		}
		header := headers.Headers[name]
		header.Files = append(header.Files, file)
		headers.Headers[name] = header
	}
	return headers, nil
}

// credentialsFromEnvironment sets basic authentication or a bearer token, if the environment has one. Unlike the file,
// the environment may hold the secret itself.
func credentialsFromEnvironment(c *promconfig.HTTPClientConfig) error {
	username, password, passwordFile := os.Getenv(EnvUsername), os.Getenv(EnvPassword), os.Getenv(EnvPasswordFile)
	token, tokenFile := os.Getenv(EnvBearerToken), os.Getenv(EnvBearerTokenFile)
	basic, bearer := username+password+passwordFile != "", token+tokenFile != ""
	switch {
	case basic && bearer:
		return fmt.Errorf("set either %s and a password, or a bearer token, not both", EnvUsername)
	case basic && username == "":
		return fmt.Errorf("%s is missing, a password is set", EnvUsername)
	case password != "" && passwordFile != "":
		return fmt.Errorf("set either %s or %s, not both", EnvPassword, EnvPasswordFile)
	case token != "" && tokenFile != "":
		return fmt.Errorf("set either %s or %s, not both", EnvBearerToken, EnvBearerTokenFile)
	case basic:
		c.BasicAuth = &promconfig.BasicAuth{Username: username, Password: promconfig.Secret(password), PasswordFile: passwordFile}
	case bearer:
		c.Authorization = &promconfig.Authorization{Type: "Bearer", Credentials: promconfig.Secret(token), CredentialsFile: tokenFile}
	}
	return nil
}

// parseKafkaSource reads JOB/VERTEX=TOPIC[,TOPIC]. Names may contain an equals sign, because no topic can; a job whose
// name contains a slash needs the file.
func parseKafkaSource(s string) (KafkaSource, error) {
	equals := strings.LastIndex(s, "=")
	slash := strings.Index(s, "/")
	if slash < 0 || equals < slash {
		return KafkaSource{}, fmt.Errorf("--kafka.source: want JOB/VERTEX=TOPIC[,TOPIC], not %q", s)
	}
	return KafkaSource{Job: s[:slash], Vertex: s[slash+1 : equals], Topics: strings.Split(s[equals+1:], ",")}, nil
}
