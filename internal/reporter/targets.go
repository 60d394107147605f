package reporter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/flink-lineage/flink-lineage-exporter/internal/lineage"
)

// TargetConfig says where reporters are.
type TargetConfig struct {
	// Ports are tried on the host of each registered TaskManager. Flink takes the first free port of a range, so which one it is differs.
	Ports []int
	// URLs are further reporters.
	URLs []string
	// Files are patterns of files in the format of Prometheus' file_sd_configs.
	Files []string
	// DNS are HOST:PORT names, each address of which is a reporter: headless services.
	DNS []string
}

// forgetSilent is how long a reporter that was known, belongs to no registered TaskManager and does not answer in time is tried again: its
// process may be frozen rather than gone.
const forgetSilent = 10 * time.Minute

// Targets finds reporters and remembers which one is whose. It is not safe for concurrent use.
type Targets struct {
	cfg   TargetConfig
	known map[string]*target // by sanitised TaskManager id
}

type target struct {
	url      string
	lastSeen time.Time
}

// NewTargets returns Targets that know of no TaskManager yet.
func NewTargets(cfg TargetConfig) *Targets {
	return &Targets{cfg: cfg, known: map[string]*target{}}
}

// On is whether any reporter can be found at all.
func (t *Targets) On() bool {
	return len(t.cfg.Ports)+len(t.cfg.URLs)+len(t.cfg.Files)+len(t.cfg.DNS) > 0
}

// Known returns the address of a TaskManager's reporter, or "".
func (t *Targets) Known(id string) string {
	if k := t.known[lineage.Sanitize(id)]; k != nil {
		return k.url
	}
	return ""
}

// URLs returns the addresses to read in a scrape, given the host of each registered TaskManager by id: those known from before, those
// configured, and for a registered TaskManager whose reporter is not known every port of its host. What could not be found out is an error
// beside the rest.
func (t *Targets) URLs(ctx context.Context, hosts map[string]string) ([]string, error) {
	urls := map[string]bool{}
	for _, k := range t.known {
		urls[k.url] = true
	}
	for _, u := range t.cfg.URLs {
		urls[u] = true
	}
	for id, host := range hosts {
		if t.known[lineage.Sanitize(id)] == nil && host != "" {
			for _, port := range t.cfg.Ports {
				urls[URL(host, port)] = true
			}
		}
	}
	var errs []error
	for _, pattern := range t.cfg.Files {
		found, err := readFiles(pattern)
		errs = append(errs, err)
		for _, u := range found {
			urls[u] = true
		}
	}
	for _, name := range t.cfg.DNS {
		found, err := lookup(ctx, name)
		errs = append(errs, err)
		for _, u := range found {
			urls[u] = true
		}
	}
	return slices.Sorted(maps.Keys(urls)), errors.Join(errs...)
}

// Learn takes over which reporter turned out to be whose. A TaskManager that is not registered any more is forgotten when its reporter is
// gone.
func (t *Targets) Learn(readings []lineage.Reporter, hosts map[string]string, now time.Time) {
	registered := make(map[string]bool, len(hosts))
	for id := range hosts {
		registered[lineage.Sanitize(id)] = true
	}
	answers := map[string]error{}
	seen := map[string]bool{}
	for i := range readings {
		r := &readings[i]
		answers[r.URL] = r.Err
		if r.TaskManager != "" {
			id := lineage.Sanitize(r.TaskManager)
			seen[id] = true
			t.known[id] = &target{url: r.URL, lastSeen: now}
		}
	}
	for id, k := range t.known {
		if seen[id] {
			continue
		}
		silent := errors.Is(answers[k.url], ErrTimeout)
		if !silent || !registered[id] && now.Sub(k.lastSeen) > forgetSilent {
			delete(t.known, id)
		}
	}
}

// targetGroup is an entry of a file_sd file.
type targetGroup struct {
	Targets []string          `yaml:"targets"`
	Labels  map[string]string `yaml:"labels"`
}

// readFiles reads target files as Prometheus does; JSON is YAML. Of the labels only __scheme__ and __metrics_path__ matter.
func readFiles(pattern string) ([]string, error) {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return nil, fmt.Errorf("pattern %s: %w", pattern, err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no file matches %s", pattern)
	}
	var urls []string
	var errs []error
	for _, f := range files {
		text, err := os.ReadFile(f) // #nosec G304 -- the operator names the files
		if err != nil {
			errs = append(errs, err)
			continue
		}
		found, err := parseTargets(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f, err))
		}
		urls = append(urls, found...)
	}
	return urls, errors.Join(errs...)
}

func parseTargets(text []byte) ([]string, error) {
	var groups []targetGroup
	if err := yaml.Unmarshal(text, &groups); err != nil {
		return nil, err
	}
	var urls []string
	for _, g := range groups {
		scheme, path := "http", "/metrics"
		if s := g.Labels["__scheme__"]; s != "" {
			scheme = s
		}
		if p := g.Labels["__metrics_path__"]; p != "" {
			path = p
		}
		if scheme != "http" && scheme != "https" || path[0] != '/' {
			return urls, fmt.Errorf("__scheme__ %q is not http or https, or __metrics_path__ %q does not begin with /", scheme, path)
		}
		for _, hostPort := range g.Targets {
			address := scheme + "://" + hostPort + path
			// Parsed as well, because a user name or a path would pass for a part of host or port.
			u, err := url.Parse(address)
			if _, _, splitErr := net.SplitHostPort(hostPort); splitErr != nil || err != nil || u.Host != hostPort {
				return urls, errors.New("a target is not HOST:PORT") // and perhaps a secret
			}
			urls = append(urls, address)
		}
	}
	return urls, nil
}

// lookup returns a reporter for each address of HOST:PORT.
func lookup(ctx context.Context, name string) ([]string, error) {
	host, port, err := net.SplitHostPort(name)
	if err != nil {
		return nil, fmt.Errorf("%q is not HOST:PORT", name)
	}
	addresses, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("DNS: %w", err)
	}
	urls := make([]string, 0, len(addresses))
	for _, a := range addresses {
		urls = append(urls, "http://"+net.JoinHostPort(a, port)+"/metrics")
	}
	return urls, nil
}
