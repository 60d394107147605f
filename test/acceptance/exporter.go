package main

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
)

// exporter is a running exporter that is scraped every second.
type exporter struct {
	url     string
	command *exec.Cmd
	log     *os.File
	ended   chan error
	// outcome is how it ended; nil if it obeyed SIGTERM.
	outcome error
	stop    context.CancelFunc
	watched sync.WaitGroup

	mu      sync.Mutex
	samples []*sample
}

// sample is one scrape.
type sample struct {
	begin, end time.Time
	text       string
	families   map[string]*dto.MetricFamily
	err        error
}

// startExporter starts the binary and waits until it answers.
func startExporter(ctx context.Context, binary, dir string, args ...string) (*exporter, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	_ = l.Close()
	e := &exporter{url: "http://" + address, ended: make(chan error, 1)}
	if e.log, err = os.OpenFile(filepath.Join(dir, "exporter.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return nil, err
	}
	e.command = exec.Command(binary, append(args, "--web.listen-address="+address)...) // #nosec G204 -- the binary under test
	e.command.Stdout, e.command.Stderr = e.log, e.log
	e.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := e.command.Start(); err != nil {
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

// scrape scrapes once, as Prometheus does with its default timeout.
func (e *exporter) scrape(ctx context.Context) *sample {
	s := &sample{begin: time.Now()}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	s.err = func() error {
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
		s.text = string(text)
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d: %s", resp.StatusCode, text)
		}
		parser := expfmt.NewTextParser(model.UTF8Validation)
		s.families, err = parser.TextToMetricFamilies(strings.NewReader(s.text))
		return err
	}()
	s.end = time.Now()
	return s
}

// watch scrapes every second until stopped.
func (e *exporter) watch(ctx context.Context) {
	ctx, e.stop = context.WithCancel(ctx)
	e.watched.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			s := e.scrape(ctx)
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

// since are the scrapes begun at or after t.
func (e *exporter) since(t time.Time) []*sample {
	e.mu.Lock()
	defer e.mu.Unlock()
	var found []*sample
	for _, s := range e.samples {
		if !s.begin.Before(t) {
			found = append(found, s)
		}
	}
	return found
}

// close stops scraping and the exporter.
func (e *exporter) close() {
	if e.stop != nil {
		e.stop()
		e.watched.Wait()
	}
	_ = e.command.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-e.ended:
		e.outcome = err
	case <-time.After(20 * time.Second):
		_ = e.command.Process.Kill()
		e.outcome = fmt.Errorf("killed, since it did not end in 20 s: %w", <-e.ended)
	}
	_ = e.log.Close()
}

// value is the value of the series of this name with these labels (NAME, VALUE, ...); ok is false if there is none.
func (s *sample) value(name string, labels ...string) (float64, bool) {
	for _, m := range s.series(name, labels...) {
		return metricValue(m), true
	}
	return 0, false
}

// sum adds up the series with these labels.
func (s *sample) sum(name string, labels ...string) (total float64, found bool) {
	for _, m := range s.series(name, labels...) {
		total += metricValue(m)
		found = true
	}
	return total, found
}

func (s *sample) series(name string, labels ...string) []*dto.Metric {
	var found []*dto.Metric
	for _, m := range s.families["flink_lineage_"+name].GetMetric() {
		match := true
		for i := 0; i < len(labels); i += 2 {
			match = match && label(m, labels[i]) == labels[i+1]
		}
		if match {
			found = append(found, m)
		}
	}
	return found
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

func metricValue(m *dto.Metric) float64 {
	if c := m.GetCounter(); c != nil {
		return c.GetValue()
	}
	if g := m.GetGauge(); g != nil {
		return g.GetValue()
	}
	return m.GetUntyped().GetValue()
}

// verdict is the verdict on a job, or on the only one if id is empty; "" if there is none.
func (s *sample) verdict(id string) string {
	for _, m := range s.series("job_verdict") {
		if metricValue(m) == 1 && (id == "" || label(m, "job_id") == id) {
			return label(m, "verdict")
		}
	}
	return ""
}

// verdicts has each verdict some job has.
func (s *sample) verdicts() map[string]bool {
	found := map[string]bool{}
	for _, m := range s.series("job_verdict") {
		if metricValue(m) == 1 {
			found[label(m, "verdict")] = true
		}
	}
	return found
}

// restart lists the TaskManagers to restart.
func (s *sample) restart() string {
	var ids []string
	for _, m := range s.series("taskmanager_restart_advised") {
		ids = append(ids, label(m, "tm_id")+" ("+label(m, "reason")+")")
	}
	return strings.Join(ids, ", ")
}

func (s *sample) describe() string {
	if s.err != nil {
		return s.err.Error()
	}
	graphs, _ := s.sum("job_execution_graphs")
	orphans, _ := s.sum("orphan_executions")
	attempts, _ := s.sum("task_attempt")
	live, _ := s.sum("source_readers", "state", "live")
	leaked, _ := s.sum("source_readers", "state", "leaked")
	return fmt.Sprintf("verdict %s, %.0f graphs, %.0f orphans, restart %s, sum of attempt numbers %.0f, readers %.0f live and %.0f leaked",
		s.verdict(""), graphs, orphans, s.restart(), attempts, live, leaked)
}
