package recording

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Options say what is recorded and how gently.
type Options struct {
	// JobManagers are the REST addresses of every JobManager of one cluster, Reporters the metrics addresses of its TaskManagers.
	JobManagers, Reporters []Target
	// Scenario and Note describe the recording.
	Scenario, Note string
	// Concurrency is how many requests run at once; 8 if zero.
	Concurrency int
	// Timeout bounds each request, its answer included; 15 seconds if zero.
	Timeout time.Duration
	// MaxBytes bounds one answer; 64 MiB if zero. A larger one is recorded as no answer.
	MaxBytes int64
}

// Target is an address and how to reach it.
type Target struct {
	// URL is the address of a JobManager's REST API, or of a reporter with its path. Credentials in it are used, and not recorded.
	URL string
	// Client sends the requests, with the credentials it adds to them; http.DefaultClient if nil. Redirects are recorded, not followed.
	Client *http.Client
}

// Record asks every target for everything a recording holds, and returns the recording without secrets (see Strip). A request that fails
// is recorded with status 0 and what went wrong. Record only fails if ctx ends, or if nothing at all answered.
func Record(ctx context.Context, o Options) (*Recording, error) {
	if len(o.JobManagers)+len(o.Reporters) == 0 {
		return nil, errors.New("record: no JobManager and no reporter to ask")
	}
	rec := newRecorder(o)
	r := &Recording{
		Format:       Format,
		Scenario:     o.Scenario,
		Note:         o.Note,
		JobManagers:  make([]JobManager, len(o.JobManagers)),
		TaskManagers: make([]TaskManager, len(o.Reporters)),
	}
	var wg sync.WaitGroup
	for i, target := range o.JobManagers {
		wg.Go(func() {
			r.JobManagers[i] = JobManager{URL: target.URL, Responses: rec.crawl(ctx, target)}
		})
	}
	for i, target := range o.Reporters {
		wg.Go(func() {
			status, metrics := rec.get(ctx, target.Client, target.URL)
			r.TaskManagers[i] = TaskManager{MetricsURL: target.URL, Status: status, Metrics: metrics}
		})
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	if !rec.answered.Load() {
		return nil, fmt.Errorf("record: nothing answered, neither a JobManager nor a reporter; the first error was: %s", rec.firstError)
	}
	for _, jm := range r.JobManagers {
		var config struct {
			Version string `json:"flink-version"`
		}
		if r.FlinkVersion == "" && json.Unmarshal(jm.Responses["/config"].Body, &config) == nil {
			r.FlinkVersion = config.Version
		}
	}
	Strip(r)
	return r, nil
}

// recorder sends the requests of one recording.
type recorder struct {
	timeout  time.Duration
	maxBytes int64
	// slots has room for the requests that may run.
	slots chan struct{}
	// total is the size of the answers so far: together they must fit into a recording that can be read again.
	total    atomic.Int64
	answered atomic.Bool

	once       sync.Once
	firstError string
}

func newRecorder(o Options) *recorder {
	r := &recorder{timeout: 15 * time.Second, maxBytes: 64 << 20}
	if o.Timeout > 0 {
		r.timeout = o.Timeout
	}
	if o.MaxBytes > 0 {
		r.maxBytes = o.MaxBytes
	}
	concurrency := 8
	if o.Concurrency > 0 {
		concurrency = o.Concurrency
	}
	r.slots = make(chan struct{}, concurrency)
	return r
}

// crawl asks one JobManager for every path of a recording.
func (r *recorder) crawl(ctx context.Context, target Target) map[string]Response {
	c := &crawl{ctx: ctx, recorder: r, target: target, responses: map[string]Response{}}
	for _, path := range []string{"/overview", "/config", "/jobmanager/config", "/jobmanager/environment", "/jobs"} {
		c.running.Go(func() { c.fetch(path, nil) })
	}
	c.running.Go(c.jobs)
	c.running.Go(c.taskManagers)
	c.running.Wait()
	return c.responses
}

// crawl is what is known of one JobManager so far.
type crawl struct {
	ctx      context.Context
	recorder *recorder
	target   Target
	running  sync.WaitGroup

	mu        sync.Mutex
	responses map[string]Response
}

// jobs fetches the jobs and all about each.
func (c *crawl) jobs() {
	var overview struct {
		Jobs []struct {
			ID string `json:"jid"`
		} `json:"jobs"`
	}
	c.fetch("/jobs/overview", &overview)
	for _, job := range overview.Jobs {
		if job.ID == "" {
			continue
		}
		base := "/jobs/" + job.ID
		for _, sub := range []string{"/config", "/exceptions", "/checkpoints", "/checkpoints/config"} {
			c.running.Go(func() { c.fetch(base+sub, nil) })
		}
		c.running.Go(func() { c.vertices(base) })
	}
}

// vertices fetches a job's details and all about each of its vertices.
func (c *crawl) vertices(base string) {
	var detail struct {
		Vertices []struct {
			ID string `json:"id"`
		} `json:"vertices"`
	}
	c.fetch(base, &detail)
	for _, vertex := range detail.Vertices {
		if vertex.ID == "" {
			continue
		}
		for _, sub := range []string{"", "/taskmanagers"} {
			c.running.Go(func() { c.fetch(base+"/vertices/"+vertex.ID+sub, nil) })
		}
	}
}

// taskManagers fetches the list of TaskManagers, and the details and thread dump of each.
func (c *crawl) taskManagers() {
	var list struct {
		TaskManagers []struct {
			ID string `json:"id"`
		} `json:"taskmanagers"`
	}
	c.fetch("/taskmanagers", &list)
	for _, tm := range list.TaskManagers {
		if tm.ID == "" {
			continue
		}
		for _, sub := range []string{"", "/thread-dump"} {
			c.running.Go(func() { c.fetch("/taskmanagers/"+tm.ID+sub, nil) })
		}
	}
}

// fetch records the answer at a path and decodes it into v, unless v is nil or the answer is an error or of another form.
func (c *crawl) fetch(path string, v any) {
	status, answer := c.recorder.get(c.ctx, c.target.Client, strings.TrimSuffix(c.target.URL, "/")+escape(path))
	body := text(answer)
	if status != 0 {
		if json, err := canonical([]byte(answer)); err == nil {
			body = json
		}
	}
	if v != nil && status == http.StatusOK {
		// What has another form lists nothing to ask for; it is recorded as it is.
		_ = json.Unmarshal(body, v)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.responses[path] = Response{Status: status, Body: body}
}

// escape escapes each segment of a path: a cluster's names are not trusted to be URLs.
func escape(path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	return strings.Join(segments, "/")
}

// get returns the status and the text of the answer, or 0 and what went wrong.
func (r *recorder) get(ctx context.Context, client *http.Client, address string) (status int, answer string) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return 0, ctx.Err().Error()
	}
	status, answer, err := r.try(ctx, client, address)
	if err != nil {
		r.once.Do(func() { r.firstError = err.Error() })
		return 0, err.Error()
	}
	r.answered.Store(true)
	return status, answer
}

func (r *recorder) try(ctx context.Context, client *http.Client, address string) (status int, answer string, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		// The error of net/url quotes the address, credentials included.
		return 0, "", errors.New("the address is no URL")
	}
	if client == nil {
		client = http.DefaultClient
	}
	c := *client
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := c.Do(req)
	if err != nil {
		// The same for the error of net/http: only its cause is recorded.
		if urlErr := (*url.Error)(nil); errors.As(err, &urlErr) {
			err = urlErr.Err
		}
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, r.maxBytes+1))
	if err != nil {
		return 0, "", fmt.Errorf("status %d, then: %w", resp.StatusCode, err)
	}
	if int64(len(body)) > r.maxBytes {
		return 0, "", fmt.Errorf("status %d with an answer over %d bytes", resp.StatusCode, r.maxBytes)
	}
	// Quotes, escapes and indentation are why the recording may be larger than its answers.
	if r.total.Add(int64(len(body))) > maxSize/2 {
		return 0, "", fmt.Errorf("status %d, left out because the recording would get too large", resp.StatusCode)
	}
	if !validStatus(resp.StatusCode) {
		return 0, "", fmt.Errorf("status %d is none of HTTP", resp.StatusCode)
	}
	return resp.StatusCode, string(body), nil
}
