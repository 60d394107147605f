package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
)

// JobOptions describe a job to run on a session cluster.
type JobOptions struct {
	Class       string   // "" for the job of this package
	Args        []string // see jobs/LineageJob.java
	Parallelism int      // 0 for the cluster's default
	Savepoint   string   // to start from, "" for none
}

// RunJob uploads the jar of this package to the leader (POST /jars/upload), runs it there (POST /jars/:id/run) and returns the job's id.
func (c *Cluster) RunJob(ctx context.Context, o JobOptions) (string, error) {
	leader, err := c.Leader(ctx)
	if err != nil {
		return "", fmt.Errorf("run a job: %w", err)
	}
	// A JobManager keeps uploaded jars to itself: run the jar where it was uploaded.
	jar, err := uploadJar(ctx, leader.URL, c.jobJar)
	if err != nil {
		return "", fmt.Errorf("upload %s: %w", c.jobJar, err)
	}
	request := map[string]any{"entryClass": o.Class, "programArgsList": o.Args}
	if o.Class == "" {
		request["entryClass"] = DefaultJob
	}
	if o.Parallelism > 0 {
		request["parallelism"] = o.Parallelism
	}
	if o.Savepoint != "" {
		request["savepointPath"] = o.Savepoint
	}
	var answer struct {
		JobID string `json:"jobid"`
	}
	if err := call(ctx, http.MethodPost, leader.URL+"/jars/"+url.PathEscape(jar)+"/run", request, &answer); err != nil {
		return "", fmt.Errorf("run %s: %w", request["entryClass"], err)
	}
	return answer.JobID, nil
}

func uploadJar(ctx context.Context, base, jar string) (id string, err error) {
	content, err := os.ReadFile(jar)
	if err != nil {
		return "", err
	}
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreatePart(map[string][]string{
		"Content-Disposition": {fmt.Sprintf(`form-data; name="jarfile"; filename=%q`, filepath.Base(jar))},
		"Content-Type":        {"application/x-java-archive"},
	})
	if err != nil {
		return "", err
	}
	if _, err := part.Write(content); err != nil {
		return "", err
	}
	if err := form.Close(); err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/jars/upload", &body)
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", form.FormDataContentType())
	var answer struct {
		Filename string `json:"filename"`
	}
	if err := send(req, &answer); err != nil {
		return "", err
	}
	return path.Base(answer.Filename), nil
}

// CancelJob asks for the end of a job (PATCH /jobs/:id?mode=cancel); it does not wait for it.
func (c *Cluster) CancelJob(ctx context.Context, id string) error {
	return c.leaderCall(ctx, http.MethodPatch, "/jobs/"+url.PathEscape(id)+"?mode=cancel", nil, nil)
}

// StopJob stops a job with a savepoint (POST /jobs/:id/stop) and returns where the savepoint is.
func (c *Cluster) StopJob(ctx context.Context, id string) (savepoint string, err error) {
	leader, err := c.Leader(ctx)
	if err != nil {
		return "", fmt.Errorf("stop job %s: %w", id, err)
	}
	// The handle of the savepoint is known only to the JobManager that was asked.
	job := leader.URL + "/jobs/" + url.PathEscape(id)
	var trigger struct {
		RequestID string `json:"request-id"`
	}
	request := map[string]any{"targetDirectory": "file://" + filepath.Join(c.dir, "savepoints"), "drain": false}
	if err := call(ctx, http.MethodPost, job+"/stop", request, &trigger); err != nil {
		return "", fmt.Errorf("stop job %s: %w", id, err)
	}
	var result struct {
		Status struct {
			ID string `json:"id"`
		} `json:"status"`
		Operation struct {
			Location     string `json:"location"`
			FailureCause *struct {
				Class string `json:"class"`
			} `json:"failure-cause"`
		} `json:"operation"`
	}
	err = c.Wait(ctx, "job "+id+" has its savepoint", func(ctx context.Context) (bool, error) {
		err := call(ctx, http.MethodGet, job+"/savepoints/"+url.PathEscape(trigger.RequestID), nil, &result)
		return result.Status.ID == "COMPLETED", err
	})
	if err != nil {
		return "", err
	}
	if result.Operation.FailureCause != nil {
		return "", fmt.Errorf("stop job %s: the savepoint failed with %s", id, result.Operation.FailureCause.Class)
	}
	return result.Operation.Location, nil
}

// Rescale gives every vertex of a job another parallelism (PUT /jobs/:id/resource-requirements). It needs Flink 1.18 and the adaptive
// scheduler, "jobmanager.scheduler: adaptive"; before that, reactive mode follows AddTaskManager. It does not wait for the new tasks.
func (c *Cluster) Rescale(ctx context.Context, id string, parallelism int) error {
	vertices, err := c.Vertices(ctx, id)
	if err != nil {
		return fmt.Errorf("rescale job %s: %w", id, err)
	}
	type bounds struct {
		Lower int `json:"lowerBound"`
		Upper int `json:"upperBound"`
	}
	request := map[string]any{}
	for _, v := range vertices {
		request[v.ID] = map[string]any{"parallelism": bounds{1, parallelism}}
	}
	if err := c.leaderCall(ctx, http.MethodPut, "/jobs/"+url.PathEscape(id)+"/resource-requirements", request, nil); err != nil {
		return fmt.Errorf("rescale job %s: %w", id, err)
	}
	return nil
}

// Vertex is one vertex of a job as /jobs/:id tells it.
type Vertex struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Parallelism int    `json:"parallelism"`
}

// Vertices lists the vertices of a job, from a view of it that is up to three seconds old.
func (c *Cluster) Vertices(ctx context.Context, id string) ([]Vertex, error) {
	var answer struct {
		Vertices []Vertex `json:"vertices"`
	}
	if err := c.Get(ctx, "/jobs/"+url.PathEscape(id), &answer); err != nil {
		return nil, err
	}
	if len(answer.Vertices) == 0 {
		return nil, errors.New("the job has no vertices yet")
	}
	return answer.Vertices, nil
}

// Subtask is one subtask of a vertex as /jobs/:id/vertices/:id tells it.
type Subtask struct {
	Status    string            `json:"status"`
	StartTime int64             `json:"start-time"` // epoch milliseconds
	Others    []json.RawMessage `json:"other-concurrent-attempts"`
}

// Subtasks lists the subtasks of all vertices of a job.
func (c *Cluster) Subtasks(ctx context.Context, job string) ([]Subtask, error) {
	vertices, err := c.Vertices(ctx, job)
	if err != nil {
		return nil, err
	}
	var all []Subtask
	for _, v := range vertices {
		var answer struct {
			Subtasks []Subtask `json:"subtasks"`
		}
		if err := c.Get(ctx, "/jobs/"+url.PathEscape(job)+"/vertices/"+url.PathEscape(v.ID), &answer); err != nil {
			return nil, err
		}
		all = append(all, answer.Subtasks...)
	}
	return all, nil
}

func (c *Cluster) leaderCall(ctx context.Context, method, path string, in, out any) error {
	leader, err := c.Leader(ctx)
	if err != nil {
		return err
	}
	return call(ctx, method, leader.URL+path, in, out)
}
