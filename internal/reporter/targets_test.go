package reporter

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flink-lineage/flink-lineage-exporter/internal/lineage"
)

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestPorts(t *testing.T) {
	targets := NewTargets(TargetConfig{Ports: []int{9249, 9250}, URLs: []string{"http://x:1/metrics"}})
	got, err := targets.URLs(context.Background(), map[string]string{"tm-1": "a", "tm-2": "fe80::1", "tm-3": ""})
	want := []string{
		"http://[fe80::1]:9249/metrics", "http://[fe80::1]:9250/metrics", "http://a:9249/metrics", "http://a:9250/metrics", "http://x:1/metrics",
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.yml", "- targets: ['a:1', '[::1]:2']\n  labels: {__scheme__: https, __metrics_path__: /m, env: x}\n")
	write(t, dir, "b.yml", "[]\n")
	write(t, dir, "c.json", `[{"targets": ["c:3"], "labels": {}}]`)
	targets := NewTargets(TargetConfig{Files: []string{filepath.Join(dir, "*.yml"), filepath.Join(dir, "c.json")}})
	got, err := targets.URLs(context.Background(), nil)
	if want := []string{"http://c:3/metrics", "https://[::1]:2/m", "https://a:1/m"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

// TestBadFiles: what is wrong with one file is said and does not cost the targets of another.
func TestBadFiles(t *testing.T) {
	for name, text := range map[string]string{
		"no YAML":         "- targets: [",
		"no list":         "targets: [a:1]",
		"no port":         "- targets: [a]",
		"scheme":          "- targets: [a:1]\n  labels: {__scheme__: file}",
		"path":            "- targets: [a:1]\n  labels: {__metrics_path__: m}",
		"credentials":     "- targets: ['s3cr3t@a:1']",
		"path in address": "- targets: ['a:1/x']",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "bad.yml", text)
			write(t, dir, "good.yml", "- targets: ['b:1']")
			got, err := NewTargets(TargetConfig{Files: []string{filepath.Join(dir, "*.yml")}}).URLs(context.Background(), nil)
			if err == nil || !strings.Contains(err.Error(), "bad.yml") || strings.Contains(err.Error(), "s3cr3t") ||
				!slices.Equal(got, []string{"http://b:1/metrics"}) {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
	for _, pattern := range []string{"/no/such/*.yml", "[", "/no/such.json"} {
		if _, err := NewTargets(TargetConfig{Files: []string{pattern}}).URLs(context.Background(), nil); err == nil || !strings.Contains(err.Error(), pattern) {
			t.Errorf("%s: %v", pattern, err)
		}
	}
}

func TestDNS(t *testing.T) {
	got, err := NewTargets(TargetConfig{DNS: []string{"localhost:9249"}}).URLs(context.Background(), nil)
	if err != nil || len(got) == 0 {
		t.Fatalf("%v, %v", got, err)
	}
	for _, u := range got {
		host, _, _ := net.SplitHostPort(strings.TrimSuffix(strings.TrimPrefix(u, "http://"), "/metrics"))
		if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
			t.Errorf("%s", u)
		}
	}
	if _, err := NewTargets(TargetConfig{DNS: []string{"localhost"}}).URLs(context.Background(), nil); err == nil {
		t.Error("no port is no error")
	}
}

// TestLearn: which reporter is whose is remembered while it may still be there.
func TestLearn(t *testing.T) {
	const port = "http://a:9250/metrics"
	registered := map[string]string{"a:1-x": "a"}
	begin := time.Unix(1700000000, 0)
	known := func() *Targets {
		targets := NewTargets(TargetConfig{Ports: []int{9249, 9250}})
		targets.Learn([]lineage.Reporter{{URL: "http://a:9249/metrics", Err: errors.New("refused")}, {URL: port, TaskManager: "a:1_x"}}, registered, begin)
		if targets.Known("a:1-x") != port {
			t.Fatal("not learnt")
		}
		return targets
	}
	for _, tc := range []struct {
		name    string
		reading lineage.Reporter
		hosts   map[string]string
		after   time.Duration
		kept    bool
	}{
		{"answers", lineage.Reporter{URL: port, TaskManager: "a:1_x"}, nil, time.Hour, true},
		{"unregistered and gone", lineage.Reporter{URL: port, Err: errors.New("connection refused")}, nil, time.Second, false},
		{"unregistered and silent", lineage.Reporter{URL: port, Err: ErrTimeout}, nil, forgetSilent, true},
		{"unregistered and silent for long", lineage.Reporter{URL: port, Err: ErrTimeout}, nil, forgetSilent + time.Second, false},
		{"registered and silent for long", lineage.Reporter{URL: port, Err: ErrTimeout}, registered, time.Hour, true},
		{"registered and gone", lineage.Reporter{URL: port, Err: errors.New("connection refused")}, registered, time.Second, false},
		{"another one has the port", lineage.Reporter{URL: port, TaskManager: "a:2_y"}, registered, time.Second, false},
		{"no TaskManager has the port", lineage.Reporter{URL: port}, registered, time.Second, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			targets := known()
			targets.Learn([]lineage.Reporter{tc.reading}, tc.hosts, begin.Add(tc.after))
			if got := targets.Known("a:1-x") != ""; got != tc.kept {
				t.Errorf("kept %t", got)
			}
			urls, err := targets.URLs(context.Background(), registered)
			if err != nil {
				t.Fatal(err)
			}
			// A known one is asked at its address only, one to be found at every port.
			if slices.Contains(urls, "http://a:9249/metrics") == tc.kept {
				t.Errorf("asks %v", urls)
			}
		})
	}
}

// TestClient: each way for a reporter to fail is an error without its address.
func TestClient(t *testing.T) {
	good := series(recIn, 0, "7")
	for _, tc := range []struct {
		name    string
		serve   http.HandlerFunc
		timeout bool
		ok      bool
	}{
		{"good", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(good)) }, false, true},
		{"404", http.NotFound, false, false},
		{"500", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, false, false},
		{"hangs", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, true, false},
		{"endless", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write([]byte(good)); err != nil {
					return
				}
			}
		}, true, false},
		{"half closed", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9999")
			_, _ = w.Write([]byte(good))
			panic(http.ErrAbortHandler)
		}, false, false},
		{"login page", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>\n")) }, false, false},
		{"gzip", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("\x1f\x8b\x08\n")) }, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := httptest.NewServer(tc.serve)
			defer s.Close()
			timeout := 20 * time.Second
			if tc.timeout {
				timeout = 100 * time.Millisecond
			}
			counted := 0
			c := NewClient(&http.Client{}, timeout, 1, func(string, string) { counted++ })
			target := strings.Replace(s.URL, "://", "://s3cr3t:s3cr3t@", 1) + "/metrics"
			got := c.Read(context.Background(), target)
			if len(got) != 1 || (got[0].Err == nil) != tc.ok || got[0].URL != s.URL+"/metrics" || counted != 1 {
				t.Fatalf("%+v, %d requests", got, counted)
			}
			if tc.ok {
				if len(got[0].Executions) != 1 {
					t.Errorf("%+v", got[0])
				}
				return
			}
			if got[0].TaskManager != "" || got[0].Executions != nil {
				t.Errorf("a part of it beside the error: %+v", got[0])
			}
			if errors.Is(got[0].Err, ErrTimeout) != tc.timeout || strings.Contains(got[0].Err.Error(), "s3cr3t") {
				t.Errorf("%v", got[0].Err)
			}
		})
	}
	c := NewClient(&http.Client{}, time.Second, 1, func(string, string) {})
	for _, target := range []string{"http://s3cr3t@127.0.0.1:1/metrics", "http://s3cr3t@a b/", "s3cr3t://[x"} {
		if got := c.Read(context.Background(), target); got[0].Err == nil || strings.Contains(got[0].Err.Error()+got[0].URL, "s3cr3t") {
			t.Errorf("%s: %+v", target, got)
		}
	}
}
