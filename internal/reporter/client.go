package reporter

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/flink-lineage/flink-lineage-exporter/internal/lineage"
)

// ErrTimeout is a reporter that did not answer in time.
var ErrTimeout = errors.New("no answer in time")

// Client reads reporters. It is safe for concurrent use.
type Client struct {
	http    *http.Client
	timeout time.Duration
	slots   chan struct{}
	count   func(endpoint, code string)
}

// NewClient returns a client that reads at most concurrency reporters at a time, each within timeout. Count is called once for each request
// with "reporter" and the HTTP status, or "error" if there was no answer.
func NewClient(h *http.Client, timeout time.Duration, concurrency int, count func(endpoint, code string)) *Client {
	return &Client{http: h, timeout: timeout, slots: make(chan struct{}, concurrency), count: count}
}

// Read reads one reporter: one lineage.Reporter for each TaskManager it shows, or one without a TaskManager if it shows none or failed.
func (c *Client) Read(ctx context.Context, target string) []lineage.Reporter {
	shown := Redact(target)
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return []lineage.Reporter{{URL: shown, Err: ErrTimeout}}
	}
	readings, err := c.read(ctx, target)
	if err != nil || len(readings) == 0 {
		return []lineage.Reporter{{URL: shown, Err: err}}
	}
	result := make([]lineage.Reporter, 0, len(readings))
	for _, rd := range readings {
		result = append(result, lineage.Reporter{
			URL: shown, TaskManager: rd.TaskManager, Executions: rd.Executions, Unidentified: rd.Unidentified,
		})
	}
	return result
}

func (c *Client) read(ctx context.Context, target string) ([]Reading, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		return nil, errors.New("not a URL")
	}
	// The text format, whatever else a proxy in between may offer.
	req.Header.Set("Accept", "text/plain;version=0.0.4")
	resp, err := c.http.Do(req)
	if err != nil {
		c.count("reporter", "error")
		return nil, withoutURL(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	c.count("reporter", strconv.Itoa(resp.StatusCode))
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	}
	readings, err := Read(resp.Body)
	if err != nil {
		return nil, withoutURL(ctx, err)
	}
	return readings, nil
}

// withoutURL takes the address, which may have a user name in it, out of an error.
func withoutURL(ctx context.Context, err error) error {
	var n net.Error
	if ctx.Err() != nil || errors.As(err, &n) && n.Timeout() {
		return ErrTimeout
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// Redact returns a URL without user name and password.
func Redact(target string) string {
	u, err := url.Parse(target)
	if err != nil {
		return "unreadable URL"
	}
	u.User = nil
	return u.String()
}

// URL is the address of a reporter by host and port.
func URL(host string, port int) string {
	return "http://" + net.JoinHostPort(host, strconv.Itoa(port)) + "/metrics"
}
