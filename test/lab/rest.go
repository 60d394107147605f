package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// client waits little: a frozen JobManager accepts connections and never answers, and a healthy one on loopback is quick.
var client = &http.Client{Timeout: 10 * time.Second}

// StatusError is an answer other than 200 to 299 of a JobManager.
type StatusError struct {
	URL  string
	Code int
	Body string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%s: HTTP %d: %s", e.URL, e.Code, strings.TrimSpace(e.Body))
}

// call sends a request with a JSON body (nil for none) and decodes the JSON answer into out (nil to ignore it).
func call(ctx context.Context, method, target string, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return send(req, out)
}

func send(req *http.Request, out any) error {
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("%s: %w", req.URL, err)
	}
	if resp.StatusCode/100 != 2 {
		return &StatusError{URL: req.URL.String(), Code: resp.StatusCode, Body: string(text)}
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("%s: %w", req.URL, err)
	}
	return nil
}

// Get asks the JobManagers one after the other for a REST path, until one answers, and decodes its JSON into out.
func (c *Cluster) Get(ctx context.Context, path string, out any) error {
	err := errors.New("no JobManager runs")
	for _, jm := range c.jobManagers {
		if !jm.Running() {
			continue
		}
		if err = call(ctx, http.MethodGet, jm.URL+path, nil, out); err == nil {
			return nil
		}
	}
	return err
}

// Job is one job as /jobs/overview tells it.
type Job struct {
	ID        string         `json:"jid"`
	Name      string         `json:"name"`
	State     string         `json:"state"`
	StartTime int64          `json:"start-time"` // epoch milliseconds; another one after a failover
	Tasks     map[string]int `json:"tasks"`      // lower-case execution state to number, "total" included
}

// AllRunning reports whether the job has tasks and every one of them runs.
func (j Job) AllRunning() bool {
	return j.State == "RUNNING" && j.Tasks["total"] > 0 && j.Tasks["running"] == j.Tasks["total"]
}

// Ended reports whether the job has ended for good.
func (j Job) Ended() bool {
	return slices.Contains([]string{"FINISHED", "CANCELED", "FAILED"}, j.State)
}

// OnlyJob is the cluster's only job; it is an error if there is another number of them.
func (c *Cluster) OnlyJob(ctx context.Context) (Job, error) {
	jobs, err := c.Jobs(ctx)
	if err == nil && len(jobs) != 1 {
		err = fmt.Errorf("%d jobs in place of one", len(jobs))
	}
	if err != nil {
		return Job{}, err
	}
	return jobs[0], nil
}

// Jobs lists the cluster's jobs, ended ones included.
func (c *Cluster) Jobs(ctx context.Context) ([]Job, error) {
	var answer struct {
		Jobs []Job `json:"jobs"`
	}
	err := c.Get(ctx, "/jobs/overview", &answer)
	return answer.Jobs, err
}

// Job reads one job from /jobs/:id, a view that is up to three seconds old; Tasks counts the tasks by execution state as Jobs does.
func (c *Cluster) Job(ctx context.Context, id string) (Job, error) {
	var answer struct {
		Job
		Vertices []struct {
			Tasks map[string]int `json:"tasks"`
		} `json:"vertices"`
	}
	if err := c.Get(ctx, "/jobs/"+url.PathEscape(id), &answer); err != nil {
		return Job{}, err
	}
	answer.Tasks = map[string]int{}
	for _, v := range answer.Vertices {
		for state, n := range v.Tasks {
			answer.Tasks[strings.ToLower(state)] += n
			answer.Tasks["total"] += n
		}
	}
	return answer.Job, nil
}

// RegisteredTaskManagers lists the ids of the TaskManagers the leader knows.
func (c *Cluster) RegisteredTaskManagers(ctx context.Context) ([]string, error) {
	var answer struct {
		TaskManagers []struct {
			ID string `json:"id"`
		} `json:"taskmanagers"`
	}
	if err := c.Get(ctx, "/taskmanagers", &answer); err != nil {
		return nil, err
	}
	var ids []string
	for _, tm := range answer.TaskManagers {
		ids = append(ids, tm.ID)
	}
	return ids, nil
}

// Threads returns the thread names of a TaskManager, through the JobManager.
func (c *Cluster) Threads(ctx context.Context, taskManagerID string) ([]string, error) {
	var answer struct {
		ThreadInfos []struct {
			ThreadName string `json:"threadName"`
		} `json:"threadInfos"`
	}
	if err := c.Get(ctx, "/taskmanagers/"+url.PathEscape(taskManagerID)+"/thread-dump", &answer); err != nil {
		return nil, err
	}
	var names []string
	for _, t := range answer.ThreadInfos {
		names = append(names, t.ThreadName)
	}
	return names, nil
}
