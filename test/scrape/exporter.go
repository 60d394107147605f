// Package scrape runs the real exporter, scrapes it every second as Prometheus would, and finds series in what it says.
package scrape

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/flink-lineage/flink-lineage-exporter/test/host"
)

// Exporter is a running exporter.
type Exporter struct {
	url     string
	command *exec.Cmd
	log     *os.File
	ended   chan error
	stop    context.CancelFunc
	watched sync.WaitGroup

	mu      sync.Mutex
	samples []*Sample
}

// Sample is one scrape.
type Sample struct {
	Begin, End time.Time
	Text       string // of the answer
	Err        error  // why there is none that can be read
	families   map[string]*dto.MetricFamily
}

// Build builds the exporter into a folder and returns the binary.
func Build(ctx context.Context, dir string) (string, error) {
	binary := filepath.Join(dir, "flink-lineage-exporter")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "github.com/flink-lineage/flink-lineage-exporter")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return binary, nil
}

// Start starts the binary with further flags and waits until it answers. Its log is exporter.log in dir.
func Start(ctx context.Context, binary, dir string, args ...string) (*Exporter, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	_ = l.Close()
	e := &Exporter{url: "http://" + address, ended: make(chan error, 1)}
	if e.log, err = os.OpenFile(filepath.Join(dir, "exporter.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return nil, err
	}
	e.command = exec.Command(binary, append(args, "--web.listen-address="+address)...) // #nosec G204 -- the binary under test
	e.command.Stdout, e.command.Stderr = e.log, e.log
	if err := host.StartChild(e.command); err != nil {
		return nil, err
	}
	go func() { e.ended <- e.command.Wait() }()
	for {
		if resp, err := http.Get(e.url + "/-/healthy"); err == nil {
			_ = resp.Body.Close()
			return e, nil
		}
		select {
		case err := <-e.ended:
			text, _ := os.ReadFile(e.log.Name())
			return nil, fmt.Errorf("the exporter ended: %w\n%s", err, text)
		case <-ctx.Done():
			_ = e.command.Process.Kill()
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// URL is its address, without a path.
func (e *Exporter) URL() string { return e.url }

// Scrape scrapes once, as Prometheus does with its default timeout.
func (e *Exporter) Scrape(ctx context.Context) *Sample {
	s := &Sample{Begin: time.Now()}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	s.Err = func() error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url+"/metrics", http.NoBody)
		if err != nil {
			return err
		}
		req.Header.Set("X-Prometheus-Scrape-Timeout-Seconds", "10")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			s.Text = string(text)
			return fmt.Errorf("status %d: %s", resp.StatusCode, text)
		}
		return s.parse(string(text))
	}()
	s.End = time.Now()
	return s
}

// Parse makes a sample of what an exporter said.
func Parse(text string) (*Sample, error) {
	s := &Sample{}
	return s, s.parse(text)
}

func (s *Sample) parse(text string) (err error) {
	s.Text = text
	parser := expfmt.NewTextParser(model.UTF8Validation)
	s.families, err = parser.TextToMetricFamilies(strings.NewReader(text))
	return err
}

// Watch scrapes every second until stopped.
func (e *Exporter) Watch(ctx context.Context) {
	ctx, e.stop = context.WithCancel(ctx)
	e.watched.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			s := e.Scrape(ctx)
			if ctx.Err() != nil {
				return
			}
			e.mu.Lock()
			e.samples = append(e.samples, s)
			e.mu.Unlock()
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
}

// Since are the scrapes begun at or after t.
func (e *Exporter) Since(t time.Time) []*Sample {
	e.mu.Lock()
	defer e.mu.Unlock()
	var found []*Sample
	for _, s := range e.samples {
		if !s.Begin.Before(t) {
			found = append(found, s)
		}
	}
	return found
}

// Await waits for a scrape begun at or after t for which cond holds, and returns it with its number among those since t, from 1. It gives up
// after limit or when ctx is done; the sample beside the error is the last one, nil if there was none.
func (e *Exporter) Await(ctx context.Context, what string, t time.Time, limit time.Duration, cond func(*Sample) bool) (*Sample, int, error) {
	deadline := time.Now().Add(limit)
	for {
		samples := e.Since(t)
		for i, s := range samples {
			if s.Err == nil && cond(s) {
				return s, i + 1, nil
			}
		}
		var last *Sample
		told := "no scrape at all"
		if n := len(samples); n > 0 {
			last = samples[n-1]
			told = last.Describe()
		}
		if time.Now().After(deadline) {
			return last, 0, fmt.Errorf("no scrape in %s shows %s; the last one: %s", limit, what, told)
		}
		select {
		case <-ctx.Done():
			return last, 0, fmt.Errorf("waiting for %s: %w; the last scrape: %s", what, ctx.Err(), told)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Close stops scraping and the exporter, which must obey SIGTERM and say nothing of a failure.
func (e *Exporter) Close() error {
	if e.stop != nil {
		e.stop()
		e.watched.Wait()
	}
	_ = e.command.Process.Signal(syscall.SIGTERM)
	var err error
	select {
	case err = <-e.ended:
	case <-time.After(20 * time.Second):
		_ = e.command.Process.Kill()
		err = fmt.Errorf("killed, since it did not end in 20 s: %w", <-e.ended)
	}
	_ = e.log.Close()
	if err != nil {
		return fmt.Errorf("the exporter did not end as it should: %w", err)
	}
	return nil
}

// Value is the value of the series of this name with these labels (NAME, VALUE, ...); ok is false if there is none.
func (s *Sample) Value(name string, labels ...string) (float64, bool) {
	for _, m := range s.Series(name, labels...) {
		return Value(m), true
	}
	return 0, false
}

// Sum adds up the series with these labels.
func (s *Sample) Sum(name string, labels ...string) (total float64, found bool) {
	for _, m := range s.Series(name, labels...) {
		total += Value(m)
		found = true
	}
	return total, found
}

// Series are those of the exporter's metric flink_lineage_<name> with these labels (NAME, VALUE, ...).
func (s *Sample) Series(name string, labels ...string) []*dto.Metric {
	var found []*dto.Metric
	for _, m := range s.families["flink_lineage_"+name].GetMetric() {
		match := true
		for i := 0; i < len(labels); i += 2 {
			match = match && Label(m, labels[i]) == labels[i+1]
		}
		if match {
			found = append(found, m)
		}
	}
	return found
}

// Label is the value of a label; "" if the series has none of this name.
func Label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// Value is the value of a counter, gauge or untyped series.
func Value(m *dto.Metric) float64 {
	if c := m.GetCounter(); c != nil {
		return c.GetValue()
	}
	if g := m.GetGauge(); g != nil {
		return g.GetValue()
	}
	return m.GetUntyped().GetValue()
}

// Verdict is the verdict on a job, or on the only one if id is empty; "" if there is none.
func (s *Sample) Verdict(id string) string {
	for _, m := range s.Series("job_verdict") {
		if Value(m) == 1 && (id == "" || Label(m, "job_id") == id) {
			return Label(m, "verdict")
		}
	}
	return ""
}

// Verdicts has each verdict some job has.
func (s *Sample) Verdicts() map[string]bool {
	found := map[string]bool{}
	for _, m := range s.Series("job_verdict") {
		if Value(m) == 1 {
			found[Label(m, "verdict")] = true
		}
	}
	return found
}

// Restart lists the TaskManagers to restart.
func (s *Sample) Restart() string {
	var ids []string
	for _, m := range s.Series("taskmanager_restart_advised") {
		ids = append(ids, Label(m, "tm_id")+" ("+Label(m, "reason")+")")
	}
	return strings.Join(ids, ", ")
}

// Describe says the most important of it in a line.
func (s *Sample) Describe() string {
	if s.Err != nil {
		return s.Err.Error()
	}
	graphs, _ := s.Sum("job_execution_graphs")
	orphans, _ := s.Sum("orphan_executions")
	attempts, _ := s.Sum("task_attempt")
	live, _ := s.Sum("source_readers", "state", "live")
	leaked, _ := s.Sum("source_readers", "state", "leaked")
	return fmt.Sprintf("verdict %s, %.0f graphs, %.0f orphans, restart %s, sum of attempt numbers %.0f, readers %.0f live and %.0f leaked",
		s.Verdict(""), graphs, orphans, s.Restart(), attempts, live, leaked)
}
