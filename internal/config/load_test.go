package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	promconfig "github.com/prometheus/common/config"
	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// secrets are what testdata uses as passwords and tokens: they may appear in no error and no printed configuration.
var secrets = []string{"hunter2", "hun ter2", "tok-3n"}

func mustNotLeak(t *testing.T, what, text string) {
	t.Helper()
	for _, secret := range secrets {
		if strings.Contains(text, secret) {
			t.Errorf("%s shows a secret: %s", what, text)
		}
	}
}

func TestLoad(t *testing.T) {
	cfg, err := Load("testdata/good/full.yml")
	if err != nil {
		t.Fatal(err)
	}
	basic := func(username, file string) *promconfig.BasicAuth {
		return &promconfig.BasicAuth{Username: username, PasswordFile: "testdata/good/secrets/" + file}
	}
	full := Default()
	full.Name = "full"
	full.FlinkURLs = []string{"https://jm-0.example.org:8081", "https://jm-1.example.org:8081/flink"}
	full.Timeout = 3 * time.Second
	full.Concurrency = 4
	full.HTTP.Authorization = &promconfig.Authorization{Type: "Bearer", CredentialsFile: "testdata/good/secrets/token"}
	full.HTTP.TLSConfig = promconfig.TLSConfig{
		ServerName: "flink.example.org", MinVersion: promconfig.TLSVersions["TLS12"], InsecureSkipVerify: true,
	}
	full.HTTP.HTTPHeaders = &promconfig.Headers{Headers: map[string]promconfig.Header{
		"X-Tenant":  {Values: []string{"blue"}},
		"X-Api-Key": {Files: []string{"testdata/good/secrets/token"}},
	}}
	full.TaskManagers.MetricsPorts = ""
	full.TaskManagers.MetricsURLs = []string{"http://tm-0.example.org:9249/metrics"}
	full.TaskManagers.MetricsFiles = []string{"testdata/good/targets/*.json"}
	full.TaskManagers.MetricsDNS = []string{"taskmanagers.example.org:9249"}
	full.TaskManagers.HTTP.BasicAuth = basic("tm", "password")
	full.Threads = Threads{Enabled: false, Interval: 5 * time.Minute}
	full.SameNameJobs = []string{"a", "b.*"}
	full.Attempts.MaxSeries = 0
	full.FinishedJobs = 24 * time.Hour
	full.Kafka = Kafka{
		Brokers: []string{"kafka-0.example.org:9092", "kafka-1.example.org:9092"},
		Sources: []KafkaSource{{Job: "orders", Vertex: "Source: orders -> Map", Topics: []string{"orders", "orders.eu"}}},
		Window:  10 * time.Minute,
		TLS:     &promconfig.TLSConfig{},
		SASL:    SASL{Mechanism: "scram-sha-512", Username: "exporter", PasswordFile: "testdata/good/secrets/password"},
	}
	inherits := Default()
	inherits.Name = "inherits"
	inherits.FlinkURLs = []string{"http://localhost:8081"}
	inherits.Timeout = 10 * time.Second
	inherits.HTTP.BasicAuth = basic("monitoring", "token")
	inherits.HTTP.TLSConfig = promconfig.TLSConfig{ServerName: "flink.example.org", MinVersion: promconfig.TLSVersions["TLS12"]}
	inherits.SameNameJobs = []string{"copy-.*"}
	for name, want := range map[string]Cluster{"full": full, "inherits": inherits} {
		// compared in two ways: the text shows differences behind pointers, DeepEqual sees what the text hides
		if got := cfg.Clusters[name]; !reflect.DeepEqual(got, want) || got.String() != want.String() {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
	if len(cfg.Clusters) != 2 {
		t.Errorf("%d clusters, want 2", len(cfg.Clusters))
	}
}

func TestLoadErrors(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yml")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, error %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			cfg, err := Load(file)
			if err == nil {
				t.Fatalf("no error, but\n%s", cfg)
			}
			got := err.Error() + "\n"
			mustNotLeak(t, "the error", got)
			for line := range strings.Lines(got) {
				if !strings.HasPrefix(line, file+":") {
					t.Errorf("does not name file and line: %s", line)
				}
			}
			golden := strings.TrimSuffix(file, ".yml") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestLoadMissingFile(t *testing.T) {
	_, err := Load("testdata/nowhere.yml")
	if !os.IsNotExist(unwrapAll(err)) || !strings.Contains(err.Error(), "testdata/nowhere.yml") {
		t.Errorf("error %v", err)
	}
}

func unwrapAll(err error) error {
	for {
		inner, ok := err.(interface{ Unwrap() error })
		if !ok || os.IsNotExist(err) {
			return err
		}
		err = inner.Unwrap()
	}
}

func TestLoadRefusesHugeFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "huge.yml")
	if err := os.WriteFile(path, bytes.Repeat([]byte("# much\n"), maxFileSize/7+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("error %v", err)
	}
}

// Clusters that inherit maps and pointers from the defaults must not share them.
func TestClustersShareNothing(t *testing.T) {
	cfg, d := parse([]byte(`
defaults:
  http: {basic_auth: {username: a, password_file: p}, http_headers: {X-A: {values: [x]}}}
clusters:
  one: {flink_urls: [http://one]}
  two: {flink_urls: [http://two], http: {http_headers: {X-B: {values: [y]}}}}
`), "/etc")
	if len(d.problems) > 0 {
		t.Fatal(d.problems)
	}
	one, two := cfg.Clusters["one"], cfg.Clusters["two"]
	if one.HTTP.BasicAuth == two.HTTP.BasicAuth || *one.HTTP.BasicAuth != *two.HTTP.BasicAuth {
		t.Errorf("credentials are shared or different: %v, %v", one, two)
	}
	if got := one.HTTP.BasicAuth.PasswordFile; got != "/etc/p" {
		t.Errorf("password file %s", got)
	}
	if len(one.HTTP.HTTPHeaders.Headers) != 1 || len(two.HTTP.HTTPHeaders.Headers) != 2 {
		t.Errorf("headers %v and %v", one.HTTP.HTTPHeaders, two.HTTP.HTTPHeaders)
	}
}

func TestSecretsAreNotPrinted(t *testing.T) {
	cluster := Default()
	cluster.HTTP.BasicAuth = &promconfig.BasicAuth{Username: "monitoring", Password: "hunter2"}
	cluster.HTTP.BearerToken = "hunter2"
	cluster.HTTP.TLSConfig.Key = "hunter2"
	cluster.TaskManagers.HTTP.Authorization = &promconfig.Authorization{Credentials: "hunter2"}
	cluster.TaskManagers.HTTP.HTTPHeaders = &promconfig.Headers{Headers: map[string]promconfig.Header{"X-A": {Secrets: []promconfig.Secret{"hunter2"}}}}
	cluster.Kafka.TLS = &promconfig.TLSConfig{Key: "hunter2"}
	cfg := Config{Clusters: map[string]Cluster{"prod": cluster}}
	for _, v := range []any{cluster, &cluster, cfg, &cfg} {
		for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			text := fmt.Sprintf(format, v)
			mustNotLeak(t, fmt.Sprintf("%s of %T", format, v), text)
			if !strings.Contains(text, "monitoring") {
				t.Errorf("%s of %T shows nothing: %s", format, v, text)
			}
		}
		for name, marshal := range map[string]func(any) ([]byte, error){"yaml": yaml.Marshal, "json": json.Marshal} {
			text, err := marshal(v)
			if err != nil {
				t.Errorf("%s of %T: %v", name, v, err)
			}
			mustNotLeak(t, fmt.Sprintf("%s of %T", name, v), string(text))
		}
	}
}

func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/good/*.yml", "testdata/bad/*.yml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, d := parse(data, "/dir")
		lines := bytes.Count(data, []byte("\n")) + bytes.Count(data, []byte("\r")) + 2
		for _, p := range d.problems {
			if p.line < 0 || p.line > lines {
				t.Errorf("line %d of %d: %s", p.line, lines, p.text)
			}
		}
		if len(d.problems) > 0 {
			return
		}
		if len(cfg.Clusters) == 0 {
			t.Error("neither clusters nor problems")
		}
		for name, cluster := range cfg.Clusters {
			if err := cluster.Validate(); err != nil {
				t.Errorf("accepted, but %v", err)
			}
			if cluster.Name != name || cluster.HTTP.FollowRedirects || cluster.TaskManagers.HTTP.FollowRedirects {
				t.Errorf("accepted %s", cluster)
			}
			if _, err := cluster.SameNameJobsRegexp(); err != nil {
				t.Errorf("accepted, but %v", err)
			}
		}
	})
}
