package config

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	promconfig "github.com/prometheus/common/config"
	"golang.org/x/net/http/httpguts"
)

const (
	maxConcurrency = 1000
	// maxDuration is far above any sensible setting: it only keeps sums of durations from overflowing.
	maxDuration = 10 * 365 * 24 * time.Hour
)

var (
	saslMechanisms = []string{"plain", "scram-sha-256", "scram-sha-512"}
	fileExtensions = []string{".json", ".yml", ".yaml"}
	// topicName is what Kafka accepts as a name of a topic.
	topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)
)

// FieldError is a value that a Cluster cannot have.
type FieldError struct {
	// Field is its path in YAML, for example "taskmanagers.metrics_urls[0]".
	Field string
	Err   error
}

// Error implements error.
func (e *FieldError) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap returns what is wrong with the field.
func (e *FieldError) Unwrap() error { return e.Err }

// fieldErrors collects what is wrong with a Cluster.
type fieldErrors []*FieldError

func (e *fieldErrors) add(err error, field string, args ...any) {
	if err != nil {
		*e = append(*e, &FieldError{Field: fmt.Sprintf(field, args...), Err: err})
	}
}

// Validate reports everything that is wrong with c, as *FieldErrors joined together. No error contains a credential.
// It removes trailing slashes from FlinkURLs. Files are not looked at.
func (c *Cluster) Validate() error {
	problems := c.validate()
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = p
	}
	return errors.Join(errs...)
}

func (c *Cluster) validate() fieldErrors {
	var errs fieldErrors
	if len(c.FlinkURLs) == 0 {
		errs.add(errors.New("missing, name the REST address of every JobManager, for example http://localhost:8081"), "flink_urls")
	}
	validateURLs(&errs, "flink_urls", c.FlinkURLs)
	for i, u := range c.FlinkURLs {
		c.FlinkURLs[i] = strings.TrimRight(u, "/")
	}
	errs.add(atLeast(c.Timeout, time.Millisecond), "timeout")
	if c.Concurrency < 1 || c.Concurrency > maxConcurrency {
		errs.add(fmt.Errorf("want a number from 1 to %d, not %d", maxConcurrency, c.Concurrency), "concurrency")
	}
	validateHTTP(&errs, "http", &c.HTTP)
	c.TaskManagers.validate(&errs)
	errs.add(atLeast(c.Threads.Interval, 0), "threads.interval")
	for i, name := range c.SameNameJobs {
		_, err := regexp.Compile(anchored(name))
		errs.add(err, "same_name_jobs[%d]", i)
	}
	if c.Attempts.MaxSeries < 0 {
		errs.add(fmt.Errorf("want 0 or more, not %d", c.Attempts.MaxSeries), "attempts.max_series")
	}
	errs.add(atLeast(c.FinishedJobs, 0), "finished_retention")
	c.Kafka.validate(&errs)
	return errs
}

func (t *TaskManagers) validate(errs *fieldErrors) {
	_, err := ParsePorts(t.MetricsPorts)
	errs.add(err, "taskmanagers.metrics_ports")
	validateURLs(errs, "taskmanagers.metrics_urls", t.MetricsURLs)
	for i, pattern := range t.MetricsFiles {
		errs.add(checkFilePattern(pattern), "taskmanagers.metrics_files[%d]", i)
	}
	for i, hostPort := range t.MetricsDNS {
		errs.add(checkHostPort(hostPort), "taskmanagers.metrics_dns[%d]", i)
	}
	validateHTTP(errs, "taskmanagers.http", &t.HTTP)
}

func (k *Kafka) validate(errs *fieldErrors) {
	for i, broker := range k.Brokers {
		errs.add(checkHostPort(broker), "kafka.brokers[%d]", i)
	}
	if len(k.Brokers) == 0 && len(k.Sources) > 0 {
		errs.add(errors.New("useless without kafka.brokers"), "kafka.sources")
	}
	for i, source := range k.Sources {
		if source.Job == "" || source.Vertex == "" || len(source.Topics) == 0 && source.Group == "" {
			errs.add(errors.New("needs job, vertex and topics"), "kafka.sources[%d]", i)
		}
		for j, topic := range source.Topics {
			if !topicName.MatchString(topic) {
				errs.add(fmt.Errorf("%q cannot be the name of a Kafka topic", topic), "kafka.sources[%d].topics[%d]", i, j)
			}
		}
	}
	errs.add(atLeast(k.Window, time.Second), "kafka.window")
	if k.TLS != nil {
		errs.add(k.TLS.Validate(), "kafka.tls_config")
	}
	k.SASL.validate(errs)
}

func (s *SASL) validate(errs *fieldErrors) {
	if *s == (SASL{}) {
		return
	}
	if !slices.Contains(saslMechanisms, s.Mechanism) {
		errs.add(fmt.Errorf("want one of %s, not %q", strings.Join(saslMechanisms, ", "), s.Mechanism), "kafka.sasl.mechanism")
	}
	if s.Username == "" {
		errs.add(errors.New("missing"), "kafka.sasl.username")
	}
	if s.PasswordFile == "" {
		errs.add(errors.New("missing"), "kafka.sasl.password_file")
	}
}

// SameNameJobsRegexp returns one expression that matches the names of all jobs that may run more than once,
// or nil if there are none.
func (c *Cluster) SameNameJobsRegexp() (*regexp.Regexp, error) {
	if len(c.SameNameJobs) == 0 {
		return nil, nil
	}
	var alternatives []string
	for _, name := range c.SameNameJobs {
		alternatives = append(alternatives, anchored(name))
	}
	return regexp.Compile(strings.Join(alternatives, "|"))
}

func anchored(expr string) string { return "^(?:" + expr + ")$" }

func atLeast(d, least time.Duration) error {
	if d < least || d > maxDuration {
		return fmt.Errorf("want a duration from %s to %s, not %s", least, maxDuration, d)
	}
	return nil
}

func validateURLs(errs *fieldErrors, field string, urls []string) {
	seen := map[string]bool{}
	for i, u := range urls {
		err := checkURL(u)
		trimmed := strings.TrimRight(u, "/")
		if err == nil && seen[trimmed] {
			err = fmt.Errorf("%s is named twice", trimmed)
		}
		seen[trimmed] = true
		errs.add(err, "%s[%d]", field, i)
	}
}

// checkURL accepts http and https URLs of a host, with or without port and path, and nothing else.
func checkURL(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil && strings.Contains(s, "@"): // what url.Parse says may quote a password
		return errors.New("not a valid URL")
	case err != nil:
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err
		}
		return fmt.Errorf("not a valid URL: %w", err)
	case u.User != nil:
		return errors.New("credentials do not belong in a URL: give them by file (basic_auth with password_file) or by environment")
	case u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return fmt.Errorf("want http://host:port or https://host:port, not %q", s)
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(s, "#"):
		return errors.New("want a URL without ? and #")
	case u.Port() != "":
		_, err := parsePort(u.Port())
		return err
	}
	return nil
}

func checkHostPort(s string) error {
	host, port, err := net.SplitHostPort(s)
	if err != nil || host == "" || strings.ContainsAny(host, "/@ ") {
		return fmt.Errorf("want host:port, not %q", s)
	}
	_, err = parsePort(port)
	return err
}

// checkFilePattern accepts what Prometheus accepts for file_sd.
func checkFilePattern(pattern string) error {
	if !slices.Contains(fileExtensions, strings.ToLower(filepath.Ext(pattern))) {
		return fmt.Errorf("want a file that ends in %s, not %q", strings.Join(fileExtensions, ", "), pattern)
	}
	if strings.ContainsAny(filepath.Dir(pattern), "*?[") {
		return fmt.Errorf("%q has a wildcard in a directory, they are allowed in the file name only", pattern)
	}
	_, err := filepath.Match(pattern, "")
	return err
}

// validateHTTP does what promconfig does when it unmarshals the section, and refuses what could lose credentials.
func validateHTTP(errs *fieldErrors, field string, c *promconfig.HTTPClientConfig) {
	errs.add(c.Validate(), "%s", field)
	errs.add(c.TLSConfig.Validate(), "%s.tls_config", field)
	if c.FollowRedirects {
		errs.add(errors.New("redirects are never followed, they could take credentials to another host"), "%s.follow_redirects", field)
	}
	if b := c.BasicAuth; b != nil && b.Username == "" && b.UsernameFile == "" {
		errs.add(errors.New("needs username or username_file"), "%s.basic_auth", field)
	}
	if c.ProxyURL.URL != nil {
		errs.add(checkURL(c.ProxyURL.String()), "%s.proxy_url", field)
	}
	if o := c.OAuth2; o != nil {
		errs.add(checkURL(o.TokenURL), "%s.oauth2.token_url", field)
		errs.add(o.TLSConfig.Validate(), "%s.oauth2.tls_config", field)
		errs.add(o.Validate(), "%s.oauth2", field)
		if o.ProxyURL.URL != nil {
			errs.add(checkURL(o.ProxyURL.String()), "%s.oauth2.proxy_url", field)
		}
	}
	if c.HTTPHeaders != nil {
		for _, name := range slices.Sorted(maps.Keys(c.HTTPHeaders.Headers)) {
			if !httpguts.ValidHeaderFieldName(name) {
				errs.add(fmt.Errorf("%q cannot be the name of a header", name), "%s.http_headers", field)
			}
		}
	}
}
