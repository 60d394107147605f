package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kingpin/v2"
	promconfig "github.com/prometheus/common/config"
)

// parseFlags parses a command line in an environment that holds just env.
func parseFlags(t *testing.T, env map[string]string, args ...string) *Flags {
	t.Helper()
	for _, name := range []string{EnvUsername, EnvPassword, EnvPasswordFile, EnvBearerToken, EnvBearerTokenFile} {
		t.Setenv(name, env[name])
	}
	app := kingpin.New("test", "").Terminate(nil)
	flags := AddFlags(app)
	if _, err := app.Parse(args); err != nil {
		t.Fatal(err)
	}
	return flags
}

func TestFlagsDefaults(t *testing.T) {
	flags := parseFlags(t, nil)
	got, err := flags.Cluster()
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.FlinkURLs = []string{"http://localhost:8081"}
	if got.String() != want.String() || got.HTTP.FollowRedirects || got.Name != "" {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if flags.FlinkURLGiven || flags.ConfigFile != "" || flags.ConfigCheck {
		t.Errorf("%+v", flags)
	}
}

func TestFlagsAll(t *testing.T) {
	header := writeFile(t, "header", "k")
	flags := parseFlags(t, nil,
		"--flink.url=https://a:8081", "--flink.url=https://b:8081/x/", "--flink.timeout=2s", "--flink.concurrency=3",
		"--flink.tls.server-name=flink", "--flink.tls.insecure-skip-verify", "--flink.header-file=X-A="+header, "--flink.header-file=X-B="+header,
		"--taskmanager.metrics-ports=", "--taskmanager.metrics-url=http://tm:9249", "--taskmanager.metrics-file=tm-*.yml",
		"--taskmanager.metrics-dns=tms:9249", "--no-threads", "--threads.interval=0s", "--job.allow-same-name=a.*",
		"--job.finished-retention=1d", "--collector.attempts.max-series=5", "--kafka.brokers=k1:9092,k2:9092", "--kafka.brokers=k3:9092",
		"--kafka.source=orders/Source: a=b/c=orders,orders.eu", "--kafka.window=10m", "--kafka.tls", "--config.file=c.yml", "--config.check")
	got, err := flags.Cluster()
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.FlinkURLs = []string{"https://a:8081", "https://b:8081/x"}
	want.Timeout = 2 * time.Second
	want.Concurrency = 3
	want.HTTP.TLSConfig = promconfig.TLSConfig{ServerName: "flink", InsecureSkipVerify: true}
	want.HTTP.HTTPHeaders = &promconfig.Headers{Headers: map[string]promconfig.Header{
		"X-A": {Files: []string{header}}, "X-B": {Files: []string{header}},
	}}
	want.TaskManagers.MetricsPorts = ""
	want.TaskManagers.MetricsURLs = []string{"http://tm:9249"}
	want.TaskManagers.MetricsFiles = []string{"tm-*.yml"}
	want.TaskManagers.MetricsDNS = []string{"tms:9249"}
	want.Threads = Threads{}
	want.SameNameJobs = []string{"a.*"}
	want.FinishedJobs = 24 * time.Hour
	want.Attempts.MaxSeries = 5
	want.Kafka.Brokers = []string{"k1:9092", "k2:9092", "k3:9092"}
	want.Kafka.Window, want.Kafka.TLS = 10*time.Minute, &promconfig.TLSConfig{}
	want.Kafka.Sources = []KafkaSource{{Job: "orders", Vertex: "Source: a=b/c", Topics: []string{"orders", "orders.eu"}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if !flags.FlinkURLGiven || flags.ConfigFile != "c.yml" || !flags.ConfigCheck {
		t.Errorf("%+v", flags)
	}
}

func TestFlagsErrors(t *testing.T) {
	tests := []struct {
		args string
		want []string
	}{
		{"--flink.url=http://a:hunter2@jm:8081", []string{"--flink.url: credentials do not belong in a URL"}},
		{"--flink.timeout=0s --flink.concurrency=0", []string{"--flink.timeout: want a duration", "--flink.concurrency: want a number"}},
		{"--flink.tls.ca-file=nowhere.pem", []string{"--flink.tls.*: unable to read CA cert", "nowhere.pem"}},
		{"--flink.tls.cert-file=a", []string{"--flink.tls.*: exactly one of key or key_file"}},
		{"--flink.header-file=X-A", []string{`--flink.header-file: want NAME=FILE, not "X-A"`}},
		{"--flink.header-file=X-A=nowhere.key", []string{"--flink.header-file: open nowhere.key: no such file"}},
		{"--taskmanager.metrics-ports=x", []string{`--taskmanager.metrics-ports: "x" is not a port`}},
		{"--taskmanager.metrics-url=tm:9249", []string{"--taskmanager.metrics-url: want http://host:port"}},
		{"--taskmanager.metrics-file=x.txt", []string{"--taskmanager.metrics-file: want a file that ends in"}},
		{"--taskmanager.metrics-dns=x", []string{`--taskmanager.metrics-dns: want host:port, not "x"`}},
		{"--job.allow-same-name=(", []string{"--job.allow-same-name: error parsing regexp"}},
		{"--collector.attempts.max-series=-1", []string{"--collector.attempts.max-series: want 0 or more"}},
		{"--kafka.window=0s", []string{"--kafka.window: want a duration from 1s"}},
		{"--kafka.brokers=k:1 --kafka.sasl.mechanism=md5", []string{`--kafka.sasl.mechanism: want one of`}},
		{"--kafka.brokers=k:1 --kafka.sasl.mechanism=plain --kafka.sasl.username=u", []string{"--kafka.sasl.password-file: missing"}},
		{"--kafka.brokers=x", []string{`--kafka.brokers: want host:port, not "x"`}},
		{"--kafka.source=a/b=t", []string{"--kafka.source: useless without kafka.brokers"}},
		{"--kafka.source=a=t", []string{"--kafka.source: want JOB/VERTEX=TOPIC"}},
		{"--kafka.source=/b=t --kafka.brokers=k:1", []string{"--kafka.source: needs job, vertex and topics"}},
		{"--kafka.source=a/b=t, --kafka.brokers=k:1", []string{`--kafka.source: "" cannot be the name of a Kafka topic`}},
	}
	for _, test := range tests {
		t.Run(test.args, func(t *testing.T) {
			_, err := parseFlags(t, nil, strings.Fields(test.args)...).Cluster()
			if err == nil {
				t.Fatal("no error")
			}
			mustNotLeak(t, "the error", err.Error())
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q, want one with %q", err, want)
				}
			}
		})
	}
}

func TestCredentialsFromEnvironment(t *testing.T) {
	file := writeFile(t, "secret", "tok-3n")
	tests := map[string]struct {
		env  map[string]string
		want promconfig.HTTPClientConfig
		err  string
	}{
		"none":          {},
		"username only": {env: map[string]string{EnvUsername: "u"}, want: promconfig.HTTPClientConfig{BasicAuth: &promconfig.BasicAuth{Username: "u"}}},
		"password": {
			env:  map[string]string{EnvUsername: "u", EnvPassword: "hunter2"},
			want: promconfig.HTTPClientConfig{BasicAuth: &promconfig.BasicAuth{Username: "u", Password: "hunter2"}},
		},
		"password file": {
			env:  map[string]string{EnvUsername: "u", EnvPasswordFile: file},
			want: promconfig.HTTPClientConfig{BasicAuth: &promconfig.BasicAuth{Username: "u", PasswordFile: file}},
		},
		"token": {
			env:  map[string]string{EnvBearerToken: "tok-3n"},
			want: promconfig.HTTPClientConfig{Authorization: &promconfig.Authorization{Type: "Bearer", Credentials: "tok-3n"}},
		},
		"token file": {
			env:  map[string]string{EnvBearerTokenFile: file},
			want: promconfig.HTTPClientConfig{Authorization: &promconfig.Authorization{Type: "Bearer", CredentialsFile: file}},
		},
		"both kinds":      {env: map[string]string{EnvUsername: "u", EnvBearerToken: "tok-3n"}, err: "not both"},
		"no username":     {env: map[string]string{EnvPassword: "hunter2"}, err: EnvUsername + " is missing"},
		"two passwords":   {env: map[string]string{EnvUsername: "u", EnvPassword: "hunter2", EnvPasswordFile: file}, err: "not both"},
		"two tokens":      {env: map[string]string{EnvBearerToken: "tok-3n", EnvBearerTokenFile: file}, err: "not both"},
		"no such file":    {env: map[string]string{EnvBearerTokenFile: "nowhere"}, err: EnvBearerTokenFile + ": open nowhere"},
		"no such file II": {env: map[string]string{EnvUsername: "u", EnvPasswordFile: "nowhere"}, err: EnvPasswordFile + ": open nowhere"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseFlags(t, test.env).Cluster()
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("error %v, want one with %q", err, test.err)
				}
				mustNotLeak(t, "the error", err.Error())
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got.HTTP.BasicAuth, test.want.BasicAuth) || !reflect.DeepEqual(got.HTTP.Authorization, test.want.Authorization) {
				t.Errorf("got\n%s", got)
			}
			if got.TaskManagers.HTTP.BasicAuth != nil || got.TaskManagers.HTTP.Authorization != nil {
				t.Error("the reporters get the JobManagers' credentials")
			}
			mustNotLeak(t, "the configuration", got.String())
		})
	}
}
