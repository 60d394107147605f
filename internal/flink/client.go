// Package flink is a client of the JobManager's REST API, Flink 1.15 to 2.3. It is the only code that knows Flink's HTTP and JSON; what it
// returns are the types of package lineage.
package flink

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/go-resty/resty/v2"
)

// The endpoints in use, as templates. Each says the same in Flink 1.15 to 2.3 unless its method says otherwise.
const (
	endpointOverview     = "/overview"
	endpointJobs         = "/jobs/overview"
	endpointJob          = "/jobs/:jobid"
	endpointVertex       = "/jobs/:jobid/vertices/:vertexid"
	endpointTaskManagers = "/taskmanagers"
	endpointTaskManager  = "/taskmanagers/:taskmanagerid"
	endpointThreadDump   = "/taskmanagers/:taskmanagerid/thread-dump"
)

// paths are the endpoints as resty fills them in, each parameter escaped.
var paths = map[string]string{
	endpointOverview:     "/overview",
	endpointJobs:         "/jobs/overview",
	endpointJob:          "/jobs/{jobid}",
	endpointVertex:       "/jobs/{jobid}/vertices/{vertexid}",
	endpointTaskManagers: "/taskmanagers",
	endpointTaskManager:  "/taskmanagers/{taskmanagerid}",
	endpointThreadDump:   "/taskmanagers/{taskmanagerid}/thread-dump",
}

// maxAnswer is the limit of an answer's size in bytes. A vertex of parallelism 1,000 takes about one megabyte; Flink itself refuses to pass on
// a thread dump of more than 10 MB (akka.framesize, pekko.framesize), unless told otherwise.
const maxAnswer = 64 << 20

// Client asks one JobManager. It is safe for concurrent use.
type Client struct {
	url     string
	resty   *resty.Client
	timeout time.Duration
	slots   chan struct{}
	count   func(endpoint, code string)
	// limit is maxAnswer, except in tests.
	limit int64
}

// Config is how the clients of one cluster ask.
type Config struct {
	// HTTP does TLS and authentication. It must not follow redirects.
	HTTP *http.Client
	// Timeout bounds each request.
	Timeout time.Duration
	// Concurrency bounds the requests in flight to each JobManager. Were it all of them together, one that accepts and never answers could
	// keep the others from being asked.
	Concurrency int
	// Count is called once for each request with the endpoint's template and the HTTP status, or "error" if there was no answer.
	Count func(endpoint, code string)
}

// NewClients returns a client for each JobManager of one cluster, given its URL without credentials.
func NewClients(urls []string, cfg Config) []*Client {
	clients := make([]*Client, len(urls))
	for i, u := range urls {
		r := resty.NewWithClient(cfg.HTTP).
			SetBaseURL(u).
			SetHeader("Accept", "application/json").
			SetRetryCount(0).
			SetLogger(silent{}).
			// Read here, within the limit and the deadline.
			SetDoNotParseResponse(true)
		clients[i] = &Client{
			url: u, resty: r, timeout: cfg.Timeout, slots: make(chan struct{}, cfg.Concurrency), count: cfg.Count, limit: maxAnswer,
		}
	}
	return clients
}

// silent drops what resty would log: every failure is returned.
type silent struct{}

func (silent) Errorf(string, ...any) {}
func (silent) Warnf(string, ...any)  {}
func (silent) Debugf(string, ...any) {}

// URL is the JobManager's address without credentials.
func (c *Client) URL() string { return c.url }

// get asks for an endpoint and gives the answer's body, within the limit, to read.
func (c *Client) get(ctx context.Context, endpoint string, params map[string]string, read func(io.Reader) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return transportError(endpoint, ctx.Err())
	}
	resp, err := c.resty.R().SetContext(ctx).SetPathParams(params).Get(paths[endpoint])
	if err != nil {
		c.count(endpoint, "error")
		return transportError(endpoint, err)
	}
	body := resp.RawBody()
	defer func() { _ = body.Close() }()
	c.count(endpoint, strconv.Itoa(resp.StatusCode()))
	if resp.StatusCode() != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(body, 1<<20))
		return statusError(endpoint, resp.StatusCode(), text)
	}
	limited := &limitedReader{r: body, left: c.limit}
	if err := read(limited); err != nil {
		return bodyError(ctx, endpoint, limited, err)
	}
	return nil
}

// bodyError tells why an answer could not be read.
func bodyError(ctx context.Context, endpoint string, r *limitedReader, err error) error {
	switch {
	case r.exceeded:
		return &Error{Endpoint: endpoint, Status: http.StatusOK, Kind: TooLarge, Detail: "the answer is too large", cause: err}
	case ctx.Err() != nil:
		return transportError(endpoint, ctx.Err())
	case r.err != nil && !errors.Is(r.err, io.EOF):
		return transportError(endpoint, r.err)
	}
	return foreign(endpoint, err)
}

// getJSON asks for an endpoint and decodes the answer, which must be one JSON value and no more.
func (c *Client) getJSON(ctx context.Context, endpoint string, params map[string]string, answer any) error {
	return c.get(ctx, endpoint, params, func(r io.Reader) error {
		text, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		return json.Unmarshal(text, answer)
	})
}

var errTooLarge = errors.New("answer larger than the limit")

// limitedReader fails, rather than ends, beyond its limit, and remembers how reading ended.
type limitedReader struct {
	r        io.Reader
	left     int64
	exceeded bool
	err      error
}

func (l *limitedReader) Read(p []byte) (int, error) {
	// One byte more than allowed tells an answer that is too large from one that just fits.
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.r.Read(p)
	if l.left -= int64(n); l.left < 0 {
		l.exceeded = true
		return 0, errTooLarge
	}
	if err != nil {
		l.err = err
	}
	return n, err
}
