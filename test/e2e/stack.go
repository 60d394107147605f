package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/flink-lineage/flink-lineage-exporter/alerts"
	"github.com/flink-lineage/flink-lineage-exporter/test/host"
	"github.com/flink-lineage/flink-lineage-exporter/test/lab"
	"github.com/flink-lineage/flink-lineage-exporter/test/scrape"
)

// stack is everything that was started.
type stack struct {
	dir        string
	interval   time.Duration
	processes  []*process
	receiver   *receiver
	prometheus *prometheus
}

// process is a program that was started.
type process struct {
	name string
	cmd  *exec.Cmd
	log  *os.File
	// ended is closed when the program has ended.
	ended chan struct{}
}

// target is an exporter to start and to scrape.
type target struct {
	// instance is the name of its cluster.
	instance string
	// flags tell it where its cluster is.
	flags []string
	// relay is what Prometheus scrapes in place of the exporter, if there is one.
	relay *relay
}

// start builds the exporter and starts one for each target, with Prometheus, which scrapes them and evaluates the rules at an interval,
// Alertmanager, and a receiver for its messages. What was started has to be stopped even if there is an error.
func start(ctx context.Context, dir string, interval time.Duration, exporters ...target) (*stack, error) {
	s := &stack{dir: dir, interval: interval}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return s, err
	}
	var err error
	if s.receiver, err = listen(); err != nil {
		return s, err
	}
	binary, err := scrape.Build(ctx, dir)
	if err != nil {
		return s, err
	}
	var targets strings.Builder
	for _, t := range exporters {
		address, err := freeAddress()
		if err != nil {
			return s, err
		}
		args := append([]string{"--web.listen-address=" + address, "--taskmanager.metrics-ports="}, t.flags...)
		if err := s.run("exporter-"+t.instance, binary, args...); err != nil {
			return s, err
		}
		if t.relay != nil {
			t.relay.watch("http://" + address + "/metrics")
			address = t.relay.address
		}
		fmt.Fprintf(&targets, "      - targets: [%q]\n        labels: {instance: %s}\n", address, t.instance)
	}

	manager, err := freeAddress()
	if err != nil {
		return s, err
	}
	config, err := os.ReadFile("alerts/alertmanager.example.yml")
	if err != nil {
		return s, err
	}
	config = regexp.MustCompile(`group_interval: \w+`).ReplaceAll(config, []byte("group_interval: 1s"))
	config = []byte(strings.ReplaceAll(string(config), "http://127.0.0.1:9095", s.receiver.url))
	if err := os.WriteFile(filepath.Join(dir, "alertmanager.yml"), config, 0o600); err != nil {
		return s, err
	}
	if err := s.run("alertmanager", "prometheus-alertmanager", "--config.file="+filepath.Join(dir, "alertmanager.yml"),
		"--storage.path="+filepath.Join(dir, "alertmanager"), "--web.listen-address="+manager, "--cluster.listen-address="); err != nil {
		return s, err
	}

	if err := writeRules(filepath.Join(dir, "rules.yaml")); err != nil {
		return s, err
	}
	address, err := freeAddress()
	if err != nil {
		return s, err
	}
	scraping := fmt.Sprintf(`global: {scrape_interval: %[1]s, scrape_timeout: %[1]s, evaluation_interval: %[1]s}
rule_files: [rules.yaml]
alerting:
  alertmanagers:
    - static_configs: [{targets: [%[2]q]}]
scrape_configs:
  - job_name: flink-lineage
    static_configs:
%[3]s`, interval, manager, targets.String())
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(scraping), 0o600); err != nil {
		return s, err
	}
	if err := s.run("prometheus", "prometheus", "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "prometheus"), "--web.listen-address="+address); err != nil {
		return s, err
	}
	s.prometheus = &prometheus{url: "http://" + address}
	for _, ready := range []string{s.prometheus.url + "/-/ready", "http://" + manager + "/-/ready"} {
		if err := s.waitFor(ctx, ready+" answers", func() (bool, error) {
			response, err := http.Get(ready) //nolint:noctx // bounded by the wait around it
			if err != nil {
				return false, nil //nolint:nilerr // not yet
			}
			return response.StatusCode == http.StatusOK, response.Body.Close()
		}); err != nil {
			return s, err
		}
	}
	return s, nil
}

// writeRules writes the rules as committed, but with a keep_firing_for that a test can wait for.
func writeRules(file string) error {
	text, err := committedRules()
	if err != nil {
		return err
	}
	text = regexp.MustCompile(`(?m)^( +keep_firing_for:) .*$`).ReplaceAll(text, []byte("${1} "+keepFiringFor.String()))
	return os.WriteFile(file, text, 0o600)
}

// committedRules are the rules as committed.
func committedRules() ([]byte, error) {
	thresholds, err := alerts.Defaults()
	if err != nil {
		return nil, err
	}
	return alerts.Render("flink-lineage.rules.yaml", thresholds)
}

// run starts a program whose output goes to a file.
func (s *stack) run(name, program string, args ...string) error {
	log, err := os.Create(filepath.Join(s.dir, name+".log"))
	if err != nil {
		return err
	}
	p := &process{name: name, cmd: exec.Command(program, args...), log: log, ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := host.StartChild(p.cmd); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", name, err), log.Close())
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	s.processes = append(s.processes, p)
	return nil
}

// stop ends everything, the last first.
func (s *stack) stop() error {
	var errs []error
	for _, p := range slices.Backward(s.processes) {
		select {
		case <-p.ended:
			errs = append(errs, fmt.Errorf("%s had ended by itself: %s", p.name, p.cmd.ProcessState))
		default:
			_ = p.cmd.Process.Signal(syscall.SIGTERM)
			select {
			case <-p.ended:
			case <-time.After(20 * time.Second):
				_ = p.cmd.Process.Kill()
				<-p.ended
				errs = append(errs, fmt.Errorf("%s did not end within 20 seconds and was killed", p.name))
			}
		}
		errs = append(errs, p.log.Close())
	}
	if s.receiver != nil {
		errs = append(errs, s.receiver.close())
	}
	return errors.Join(errs...)
}

// waitFor asks again and again until the condition holds, a program ends, or patience does.
func (s *stack) waitFor(ctx context.Context, what string, condition func() (bool, error)) error {
	deadline := time.Now().Add(patience)
	for {
		holds, err := condition()
		if err != nil || holds {
			return err
		}
		for _, p := range s.processes {
			select {
			case <-p.ended:
				return fmt.Errorf("%s ended: %s", p.name, p.cmd.ProcessState)
			default:
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("after %s it is not yet so that %s", patience, what)
		}
		if err := lab.Sleep(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

// freeAddress is an address on loopback that nothing listens on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
