package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-kit/log"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/flink-lineage/flink-lineage-exporter/collector"
	"github.com/flink-lineage/flink-lineage-exporter/internal/config"
	"github.com/flink-lineage/flink-lineage-exporter/internal/flink/flinktest"
	"github.com/flink-lineage/flink-lineage-exporter/internal/recording"
)

func replayed(t *testing.T, name string) *recording.Server {
	t.Helper()
	s, err := recording.Serve(flinktest.Load(t, name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func single(s *recording.Server) *config.Cluster {
	c := config.Default()
	c.FlinkURLs, c.TaskManagers.MetricsPorts, c.TaskManagers.MetricsURLs = s.JobManagerURLs(), "", s.ReporterURLs()
	return &c
}

// configFile writes a configuration with one cluster, named night.
func configFile(t *testing.T, s *recording.Server) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yml")
	overwrite(t, path, fmt.Sprintf("clusters:\n  night:\n    flink_urls: [%s]\n    taskmanagers: {metrics_ports: '', metrics_urls: [%s]}\n",
		strings.Join(s.JobManagerURLs(), ","), strings.Join(s.ReporterURLs(), ",")))
	return path
}

func overwrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// newServer serves what the exporter serves.
func newServer(t *testing.T, change func(*exporterConfig)) (*httptest.Server, *exporter) {
	t.Helper()
	cfg := exporterConfig{telemetryPath: "/metrics", maxRequests: 40, timeoutOffset: 500 * time.Millisecond, enabled: map[string]bool{}}
	for _, name := range collector.Names {
		cfg.enabled[name] = true
	}
	change(&cfg)
	e, err := newExporter(cfg, log.NewNopLogger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.close)
	h, err := e.handler()
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s, e
}

func request(t *testing.T, method, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestHandler(t *testing.T) {
	flinkServer := replayed(t, "1.17.2-healthy")
	reloader, err := config.NewReloader(configFile(t, flinkServer))
	if err != nil {
		t.Fatal(err)
	}
	s, _ := newServer(t, func(c *exporterConfig) { c.single, c.reloader = single(flinkServer), reloader })
	for _, tc := range []struct {
		method, path string
		status       int
		has, hasNot  string
	}{
		{"GET", "/metrics", 200, "flink_lineage_up 1\n", ""},
		{"GET", "/metrics", 200, "go_goroutines", ""},
		{"GET", "/metrics", 200, `verdict="ok"} 1`, ""},
		{"GET", "/metrics?collect[]=jobs", 200, "flink_lineage_job_state", "flink_lineage_job_verdict"},
		{"GET", "/metrics?exclude[]=jobs", 200, "flink_lineage_job_verdict", "flink_lineage_job_state"},
		{"GET", "/metrics?collect[]=nonsense", 400, "nonsense", ""},
		{"GET", "/metrics?exclude[]=nonsense", 400, "nonsense", ""},
		{"GET", "/metrics?collect[]=jobs&exclude[]=slots", 400, "combined", ""},
		{"POST", "/metrics", 405, "", ""},
		{"GET", "/", 200, "Flink Lineage Exporter", ""},
		{"GET", "/", 200, "/probe?target=night", ""},
		{"GET", "/nothing", 404, "", ""},
		{"GET", "/-/healthy", 200, "Healthy", ""},
		{"GET", "/-/ready", 200, "Ready", ""},
		{"GET", "/-/reload", 405, "", ""},
		{"POST", "/-/reload", 200, "Reloaded", ""},
		{"GET", "/probe", 400, "target", ""},
		{"GET", "/probe?target=", 400, "target", ""},
		{"GET", "/probe?target=day", 400, `"day"`, ""},
		{"GET", "/probe?target=night&target=night", 400, "target", ""},
		{"GET", "/probe?target=" + flinkServer.JobManagerURLs()[0], 400, "names no cluster", ""},
		{"GET", "/probe?target=night", 200, "flink_lineage_up 1\n", "go_goroutines"},
		{"GET", "/probe?target=night", 200, "flink_lineage_up 1\n", "api_requests_total"},
	} {
		flinkServer.ResetRequests()
		status, body := request(t, tc.method, s.URL+tc.path)
		if status != tc.status || !strings.Contains(body, tc.has) || tc.hasNot != "" && strings.Contains(body, tc.hasNot) {
			t.Errorf("%s %s: status %d\n%.2000s", tc.method, tc.path, status, body)
		}
		if status == 400 && len(flinkServer.Requests()) > 0 {
			t.Errorf("%s: asked Flink %v", tc.path, flinkServer.Requests())
		}
	}
}

// TestLint checks all of /metrics as promtool does.
func TestLint(t *testing.T) {
	flinkServer := replayed(t, "1.17.2-healthy")
	_, e := newServer(t, func(c *exporterConfig) { c.single, c.disableExporterMetrics = single(flinkServer), true })
	registry, status := e.scrape(httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody), e.single, e.cfg.enabled)
	if registry == nil {
		t.Fatal(status)
	}
	problems, err := testutil.GatherAndLint(prometheus.Gatherers{e.self, registry})
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// TestReload: a bad file keeps the old configuration and says which line; what is remembered outlives a change of something else.
func TestReload(t *testing.T) {
	flinkServer := replayed(t, "1.17.2-healthy")
	path := configFile(t, flinkServer)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	reloader, err := config.NewReloader(path)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := newServer(t, func(c *exporterConfig) { c.reloader = reloader })
	probe := func(want string) {
		t.Helper()
		if status, body := request(t, "GET", s.URL+"/probe?target=night"); status != 200 || !strings.Contains(body, want) {
			t.Errorf("no %s:\n%s", want, body)
		}
	}
	probe(`flink_lineage_job_failovers_total{job_id="00000000217e81b80000000000000000",job_name="beam-pipeline"} 0`)
	overwrite(t, path, string(good)+"    nonsense: 1\n")
	if status, body := request(t, "POST", s.URL+"/-/reload"); status != 500 || !strings.Contains(body, "config.yml:5:") {
		t.Errorf("%d %s", status, body)
	}
	probe("flink_lineage_up 1")
	if _, body := request(t, "GET", s.URL+"/metrics"); !strings.Contains(body, "flink_lineage_config_last_reload_successful 0") {
		t.Error(body)
	}
	overwrite(t, path, string(good)+"  other: {flink_urls: ['http://127.0.0.1:1']}\n")
	if status, body := request(t, "POST", s.URL+"/-/reload"); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	if err := flinkServer.Show(flinktest.Load(t, "1.17.2-clean-failover")); err != nil {
		t.Fatal(err)
	}
	probe(`flink_lineage_job_failovers_total{job_id="00000000217e81b80000000000000000",job_name="beam-pipeline"} 1`)
	if _, body := request(t, "GET", s.URL+"/"); !strings.Contains(body, "/probe?target=other") {
		t.Error("the landing page does not show the new cluster")
	}
}

func TestTimeout(t *testing.T) {
	e := &exporter{cfg: exporterConfig{timeoutOffset: 500 * time.Millisecond}}
	for header, want := range map[string]time.Duration{
		"": 10 * time.Second, "10": 9500 * time.Millisecond, "0.3": 300 * time.Millisecond, "NaN": 10 * time.Second, "-1": 10 * time.Second,
		"1e9": 10 * time.Second, "x": 10 * time.Second,
	} {
		r := httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody)
		r.Header.Set("X-Prometheus-Scrape-Timeout-Seconds", header)
		if got := e.timeout(r, 5*time.Second); got != want {
			t.Errorf("%q: %v", header, got)
		}
	}
}

// TestMaxRequests: one scrape more than allowed is refused while the others are served.
func TestMaxRequests(t *testing.T) {
	flinkServer := replayed(t, "1.17.2-healthy")
	s, e := newServer(t, func(c *exporterConfig) { c.single, c.maxRequests = single(flinkServer), 1 })
	e.inFlight <- struct{}{}
	if status, _ := request(t, "GET", s.URL+"/metrics"); status != http.StatusServiceUnavailable {
		t.Errorf("status %d", status)
	}
	<-e.inFlight
	if status, _ := request(t, "GET", s.URL+"/metrics"); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
}

// TestRun checks exit status and output of what ends by itself.
func TestRun(t *testing.T) {
	flinkServer := replayed(t, "1.17.2-healthy")
	good := configFile(t, flinkServer)
	bad := filepath.Join(t.TempDir(), "bad.yml")
	overwrite(t, bad, "clusters:\n  a: {flink_urls: [x]}\n")
	for _, tc := range []struct {
		args           string
		status         int
		stdout, stderr string
	}{
		{"--help", 0, "serve", ""},
		{"serve --help", 0, "--flink.url", ""},
		{"record --help", 0, "anonymize", ""},
		{"--version", 0, appName + ", version", ""},
		{"--nonsense", 2, "", "nonsense"},
		{"nonsense", 2, "", "nonsense"},
		{"record", 2, "", "file"},
		{"--flink.url=ftp://x", 2, "", "--flink.url"},
		{"--flink.url=http://s3cr3t:s3cr3t@x", 2, "", "--flink.url"},
		{"--web.telemetry-path=metrics", 2, "", "--web.telemetry-path"},
		{"--web.telemetry-path=/-/healthy", 2, "", "--web.telemetry-path"},
		{"--config.check --config.file=" + good, 0, "valid", ""},
		{"--config.check --config.file=" + bad, 2, "", "bad.yml:2"},
		{"--config.file=" + bad, 2, "", "bad.yml:2"},
		{"--config.file=/no/such", 2, "", "/no/such"},
		{"replay /no/such", 2, "", "/no/such"},
		{"replay " + bad, 2, "", "bad.yml"},
		{"health --url=http://127.0.0.1:1/", 1, "", "refused"},
		{"health --url=" + flinkServer.JobManagerURLs()[0] + "/overview", 0, "", ""},
		{"health --url=" + flinkServer.JobManagerURLs()[0] + "/no", 1, "", "404"},
	} {
		var stdout, stderr bytes.Buffer
		status := run(strings.Fields(tc.args), &stdout, &stderr)
		if status != tc.status || !strings.Contains(stdout.String(), tc.stdout) || !strings.Contains(stderr.String(), tc.stderr) ||
			strings.Contains(stderr.String(), "s3cr3t") {
			t.Errorf("%s: status %d\n%.500s\n%.500s", tc.args, status, stdout.String(), stderr.String())
		}
	}
}

// TestRecord: what record writes shows the same when it is replayed.
func TestRecord(t *testing.T) {
	flinkServer := replayed(t, "1.17.2-healthy")
	path := filepath.Join(t.TempDir(), "x.json.gz")
	var stdout, stderr bytes.Buffer
	args := append([]string{"record", path, "--scenario=x"}, flagsFor(flinkServer)...)
	if status := run(args, &stdout, &stderr); status != 0 || !strings.Contains(stdout.String(), "2 JobManagers, 2 reporters") {
		t.Fatalf("%d %s %s", status, stdout.String(), stderr.String())
	}
	if status := run(args, &stdout, &stderr); status != 1 {
		t.Errorf("overwrote a recording: %d", status)
	}
	rec, err := recording.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	again, err := recording.Serve(rec)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	var texts []string
	for _, from := range []*recording.Server{flinkServer, again} {
		s, _ := newServer(t, func(c *exporterConfig) { c.single = single(from) })
		_, body := request(t, "GET", s.URL+"/metrics?collect[]=jobs&collect[]=attempts&collect[]=vertices&collect[]=slots")
		var kept []string
		for line := range strings.SplitSeq(body, "\n") {
			if strings.HasPrefix(line, "flink_lineage_") && !strings.Contains(line, "duration_seconds") && !strings.Contains(line, "api_requests") {
				kept = append(kept, line)
			}
		}
		texts = append(texts, strings.Join(kept, "\n"))
	}
	if texts[0] != texts[1] || !strings.Contains(texts[0], "flink_lineage_task_attempt{") {
		t.Errorf("live:\n%s\nreplayed:\n%s", texts[0], texts[1])
	}
}

// TestTerminate: a scrape in flight is answered when the exporter is told to stop.
func TestTerminate(t *testing.T) {
	binary := filepath.Join(t.TempDir(), appName)
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	jm := flinktest.Serve(t, flinktest.Load(t, "1.17.2-healthy").JobManagers[0])
	come, open := make(chan struct{}, 1), make(chan struct{})
	jm.Fail("/overview", flinktest.Fault{Name: "held", Serve: func(w http.ResponseWriter, _ *http.Request, good []byte) {
		come <- struct{}{}
		<-open
		_, _ = w.Write(good)
	}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), binary, "--web.listen-address="+address, "--flink.url="+jm.URL, "--taskmanager.metrics-ports=")
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if resp, err := http.Get("http://" + address + "/-/ready"); err == nil { //nolint:noctx // a test
			_ = resp.Body.Close()
			break
		}
		if time.Now().After(end) {
			t.Fatalf("never ready: %s", stderr.String())
		}
	}
	type answer struct {
		status int
		body   string
	}
	got := make(chan answer, 1)
	go func() {
		status, body := request(t, "GET", "http://"+address+"/metrics")
		got <- answer{status, body}
	}()
	<-come
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", address) //nolint:noctx // a test
		if err != nil {
			break // it does not accept any more
		}
		_ = conn.Close()
	}
	close(open)
	if a := <-got; a.status != 200 || !strings.Contains(a.body, "flink_lineage_up 1\n") {
		t.Errorf("status %d", a.status)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, stderr.String())
	}
}

// TestDemo starts the demo and reads its metrics.
func TestDemo(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	ended := make(chan int, 1)
	go func() {
		ended <- run([]string{"demo", "--web.listen-address=" + address, "--moment=1h"}, out, io.Discard)
	}()
	body := ""
	for end := time.Now().Add(30 * time.Second); !strings.Contains(body, "flink_lineage_up 1\n"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never served: %.500s", body)
		}
		resp, err := http.Get("http://" + address + "/metrics") //nolint:noctx // a test
		if err != nil {
			continue
		}
		text, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		body = string(text)
	}
	// run listens for the signal since before it served; it is the only one in this process to do so.
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status := <-ended; status != 0 {
		t.Errorf("status %d", status)
	}
	text, err := os.ReadFile(out.Name())
	if err != nil || !strings.Contains(string(text), "http://"+address+"/metrics") {
		t.Errorf("%s %v", text, err)
	}
}
