package collector

import (
	"bytes"
	"context"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-kit/log"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"

	"github.com/flink-lineage/flink-lineage-exporter/internal/cluster"
	"github.com/flink-lineage/flink-lineage-exporter/internal/config"
	"github.com/flink-lineage/flink-lineage-exporter/internal/recording"
	"github.com/flink-lineage/flink-lineage-exporter/recordings"
)

var update = flag.Bool("update", false, "write the golden files anew")

// all turns every collector on.
func all() map[string]bool {
	on := map[string]bool{}
	for _, name := range Names {
		on[name] = true
	}
	return on
}

// scrapeRecording scrapes a replayed recording once, with nothing remembered.
func scrapeRecording(t *testing.T, rec *recording.Recording) (*cluster.Result, *recording.Server) {
	t.Helper()
	server, err := recording.Serve(rec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	cfg := config.Default()
	cfg.FlinkURLs = server.JobManagerURLs()
	cfg.TaskManagers.MetricsPorts = ""
	cfg.TaskManagers.MetricsURLs = server.ReporterURLs()
	c, err := cluster.New(&cfg, log.NewNopLogger(), func(string, string) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	result, err := c.Scrape(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return result, server
}

// now are the metrics whose values are about the moment of the scrape.
var now = regexp.MustCompile(`(?m)^(flink_lineage_(?:scrape_collector_duration_seconds|taskmanager_thread_dump_timestamp_seconds|duplicate_since_timestamp_seconds).*) \S+$`)

// register returns a registry that refuses whatever Describe did not announce.
func register(result *cluster.Result) *prometheus.Registry {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(New(result, Options{Enabled: all(), MaxAttemptSeries: 10000}))
	return registry
}

// expose renders a result, with the addresses of JobManagers numbered and values of the moment set to 0.
func expose(t *testing.T, registry *prometheus.Registry, server *recording.Server) string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&out, f); err != nil {
			t.Fatal(err)
		}
	}
	text := out.String()
	for i, u := range server.JobManagerURLs() {
		text = strings.ReplaceAll(text, u, "http://jobmanager-"+strconv.Itoa(i+1)+":8081")
	}
	return now.ReplaceAllString(sortSeries(text), "$1 0")
}

// sortSeries sorts the series of each family again, after their labels were changed.
func sortSeries(text string) string {
	lines := strings.SplitAfter(text, "\n")
	for i := 0; i < len(lines); {
		end := i + 1
		if !strings.HasPrefix(lines[i], "#") {
			for end < len(lines) && lines[end] != "" && !strings.HasPrefix(lines[end], "#") {
				end++
			}
			slices.Sort(lines[i:end])
		}
		i = end
	}
	return strings.Join(lines, "")
}

// TestGolden compares the exposition of each recording with testdata/NAME.prom.
func TestGolden(t *testing.T) {
	names, err := fs.Glob(recordings.FS, "*.json.gz")
	if err != nil || len(names) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rec, err := recording.LoadFS(recordings.FS, name)
			if err != nil {
				t.Fatal(err)
			}
			result, server := scrapeRecording(t, rec)
			registry := register(result)
			got := expose(t, registry, server)
			golden := filepath.Join("testdata", strings.TrimSuffix(name, ".json.gz")+".prom")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatalf("%v; run go test ./collector -update and look at the difference", err)
			}
			if got != string(want) {
				t.Errorf("differs from %s:\n%s", golden, difference(string(want), got))
			}
			problems, err := testutil.GatherAndLint(registry)
			if err != nil || len(problems) > 0 {
				t.Errorf("promlint: %v %v", problems, err)
			}
		})
	}
}

// difference lists the lines that only one of two texts has.
func difference(want, got string) string {
	lines := map[string]int{}
	for l := range strings.SplitSeq(want, "\n") {
		lines[l]++
	}
	var out strings.Builder
	for l := range strings.SplitSeq(got, "\n") {
		if lines[l] > 0 {
			lines[l]--
		} else {
			out.WriteString("+ " + l + "\n")
		}
	}
	for l := range strings.SplitSeq(want, "\n") {
		if lines[l] > 0 {
			lines[l]--
			out.WriteString("- " + l + "\n")
		}
	}
	return out.String()
}
