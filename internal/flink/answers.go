package flink

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/flink-lineage/flink-lineage-exporter/internal/lineage"
)

// The wire types hold pointers where a missing field must not read as zero. Fields nobody needs are not decoded, which is how the differences
// between Flink's versions in them do no harm: "NaN" strings, host or endpoint, plans of changing shape.

type overviewAnswer struct {
	FlinkVersion *string `json:"flink-version"`
	FlinkCommit  *string `json:"flink-commit"`
	SlotsTotal   *int    `json:"slots-total"`
	SlotsFree    *int    `json:"slots-available"`
}

// Overview asks for /overview.
func (c *Client) Overview(ctx context.Context) (*lineage.Overview, error) {
	var a overviewAnswer
	if err := c.getJSON(ctx, endpointOverview, nil, &a); err != nil {
		return nil, err
	}
	if a.FlinkVersion == nil || a.FlinkCommit == nil || a.SlotsTotal == nil || a.SlotsFree == nil {
		return nil, foreign(endpointOverview, errors.New("flink-version, flink-commit, slots-total or slots-available is missing"))
	}
	return &lineage.Overview{
		FlinkVersion: *a.FlinkVersion, FlinkCommit: *a.FlinkCommit, SlotsTotal: *a.SlotsTotal, SlotsFree: *a.SlotsFree,
	}, nil
}

type jobsAnswer struct {
	Jobs *[]jobAnswer `json:"jobs"`
}

type jobAnswer struct {
	ID        string          `json:"jid"`
	Name      *string         `json:"name"`
	State     string          `json:"state"`
	StartTime *int64          `json:"start-time"`
	EndTime   *int64          `json:"end-time"`
	Tasks     *map[string]int `json:"tasks"`
}

// taskStates are the keys of tasks in /jobs/overview; others (total, and what a later version may add) are no states.
var taskStates = map[string]lineage.ExecutionState{
	"created": lineage.Created, "scheduled": lineage.Scheduled, "deploying": lineage.Deploying, "initializing": lineage.Initializing,
	"running": lineage.Running, "finished": lineage.Finished, "canceling": lineage.Canceling, "canceled": lineage.Canceled,
	"failed": lineage.Failed, "reconciling": lineage.Reconciling,
}

// Jobs asks for /jobs/overview, which no JobManager caches. The jobs have no vertices yet.
func (c *Client) Jobs(ctx context.Context) ([]lineage.Job, error) {
	var a jobsAnswer
	if err := c.getJSON(ctx, endpointJobs, nil, &a); err != nil {
		return nil, err
	}
	if a.Jobs == nil {
		return nil, foreign(endpointJobs, errors.New("jobs is missing"))
	}
	jobs := make([]lineage.Job, 0, len(*a.Jobs))
	for _, j := range *a.Jobs {
		if j.ID == "" || j.Name == nil || j.State == "" || j.StartTime == nil || j.Tasks == nil {
			return nil, foreign(endpointJobs, fmt.Errorf("jid, name, state, start-time or tasks of job %q is missing", j.ID))
		}
		job := lineage.Job{
			ID: j.ID, Name: *j.Name, State: lineage.JobState(j.State), StartTime: time.UnixMilli(*j.StartTime),
			Tasks: map[lineage.ExecutionState]int{},
		}
		if j.EndTime != nil && *j.EndTime > 0 {
			job.EndTime = time.UnixMilli(*j.EndTime)
		}
		for key, n := range *j.Tasks {
			if state, ok := taskStates[key]; ok {
				job.Tasks[state] = n
			}
		}
		jobs = append(jobs, job)
	}
	return jobs, nil
}

type jobDetailAnswer struct {
	ID        string             `json:"jid"`
	StartTime *int64             `json:"start-time"`
	Vertices  *[]jobVertexAnswer `json:"vertices"`
}

type jobVertexAnswer struct {
	ID          string          `json:"id"`
	Name        *string         `json:"name"`
	Parallelism *int            `json:"parallelism"`
	Tasks       *map[string]int `json:"tasks"`
}

// jobDetail is /jobs/:jobid.
type jobDetail struct {
	startTime time.Time
	vertices  []lineage.Vertex
}

// job asks for /jobs/:jobid. It has no vertices while the leader initialises the job.
func (c *Client) job(ctx context.Context, id string) (jobDetail, error) {
	var a jobDetailAnswer
	if err := c.getJSON(ctx, endpointJob, map[string]string{"jobid": id}, &a); err != nil {
		return jobDetail{}, err
	}
	if a.ID != id || a.StartTime == nil || a.Vertices == nil {
		return jobDetail{}, foreign(endpointJob, errors.New("jid, start-time or vertices is missing"))
	}
	d := jobDetail{startTime: time.UnixMilli(*a.StartTime)}
	for _, v := range *a.Vertices {
		if v.ID == "" || v.Name == nil || v.Parallelism == nil || v.Tasks == nil {
			return jobDetail{}, foreign(endpointJob, fmt.Errorf("id, name, parallelism or tasks of vertex %q is missing", v.ID))
		}
		tasks := map[lineage.ExecutionState]int{}
		for state, n := range *v.Tasks {
			tasks[lineage.ExecutionState(state)] = n
		}
		d.vertices = append(d.vertices, lineage.Vertex{ID: v.ID, Name: *v.Name, Parallelism: *v.Parallelism, Tasks: tasks})
	}
	return d, nil
}

type vertexAnswer struct {
	Now         int64              `json:"now"`
	Parallelism *int               `json:"parallelism"`
	Subtasks    *[]executionAnswer `json:"subtasks"`
}

type executionAnswer struct {
	Subtask        *int              `json:"subtask"`
	Attempt        *int              `json:"attempt"`
	Status         string            `json:"status"`
	StartTime      int64             `json:"start-time"`
	TaskManager    *string           `json:"taskmanager-id"`
	StatusDuration map[string]int64  `json:"status-duration"`           // since 1.16
	Concurrent     []executionAnswer `json:"other-concurrent-attempts"` // since 1.16, only with speculative execution
}

// vertex asks for /jobs/:jobid/vertices/:vertexid: the vertex' parallelism and executions.
func (c *Client) vertex(ctx context.Context, job, vertex string) (int, []lineage.Execution, error) {
	var a vertexAnswer
	if err := c.getJSON(ctx, endpointVertex, map[string]string{"jobid": job, "vertexid": vertex}, &a); err != nil {
		return 0, nil, err
	}
	if a.Parallelism == nil || a.Subtasks == nil || len(*a.Subtasks) != *a.Parallelism {
		return 0, nil, foreign(endpointVertex, errors.New("parallelism or subtasks is missing, or they differ"))
	}
	executions := make([]lineage.Execution, 0, len(*a.Subtasks))
	for i := range *a.Subtasks {
		s := &(*a.Subtasks)[i]
		for _, x := range append([]executionAnswer{*s}, s.Concurrent...) {
			e, err := x.execution(a.Now)
			if err == nil && e.Subtask != i {
				err = fmt.Errorf("subtask %d is listed in place of %d", e.Subtask, i)
			}
			if err != nil {
				return 0, nil, foreign(endpointVertex, err)
			}
			executions = append(executions, e)
		}
	}
	return *a.Parallelism, executions, nil
}

// execution converts x; now is the JobManager's clock in milliseconds.
func (x *executionAnswer) execution(now int64) (lineage.Execution, error) {
	if x.Subtask == nil || x.Attempt == nil || x.Status == "" || x.TaskManager == nil || *x.TaskManager == "" {
		return lineage.Execution{}, errors.New("subtask, attempt, status or taskmanager-id of an execution is missing")
	}
	if *x.Attempt < 0 {
		return lineage.Execution{}, fmt.Errorf("attempt %d", *x.Attempt)
	}
	e := lineage.Execution{Subtask: *x.Subtask, Attempt: *x.Attempt, State: lineage.ExecutionState(x.Status), TaskManager: *x.TaskManager}
	if e.TaskManager == "(unassigned)" {
		e.TaskManager = ""
	}
	if d, ok := x.StatusDuration[x.Status]; ok && d >= 0 && now > 0 {
		e.StateSince = time.UnixMilli(now - d)
	} else if e.State == lineage.Deploying && x.StartTime > 0 {
		e.StateSince = time.UnixMilli(x.StartTime) // start-time is when DEPLOYING began
	}
	return e, nil
}

type taskManagersAnswer struct {
	TaskManagers *[]taskManagerAnswer `json:"taskmanagers"`
}

type taskManagerAnswer struct {
	ID            string `json:"id"`
	Path          string `json:"path"`
	SlotsTotal    *int   `json:"slotsNumber"`
	SlotsFree     *int   `json:"freeSlots"`
	LastHeartbeat int64  `json:"timeSinceLastHeartbeat"` // despite its name the time of the last heartbeat, 0 before the first
}

// TaskManagers asks for /taskmanagers: those registered at the leader's ResourceManager. The result is not nil.
func (c *Client) TaskManagers(ctx context.Context) ([]lineage.TaskManager, error) {
	var a taskManagersAnswer
	if err := c.getJSON(ctx, endpointTaskManagers, nil, &a); err != nil {
		return nil, err
	}
	if a.TaskManagers == nil {
		return nil, foreign(endpointTaskManagers, errors.New("taskmanagers is missing"))
	}
	tms := make([]lineage.TaskManager, 0, len(*a.TaskManagers))
	for _, t := range *a.TaskManagers {
		if t.ID == "" || t.SlotsTotal == nil || t.SlotsFree == nil {
			return nil, foreign(endpointTaskManagers, fmt.Errorf("id, slotsNumber or freeSlots of TaskManager %q is missing", t.ID))
		}
		tm := lineage.TaskManager{ID: t.ID, Host: rpcHost(t.Path), SlotsTotal: *t.SlotsTotal, SlotsFree: *t.SlotsFree}
		if t.LastHeartbeat > 0 {
			tm.LastHeartbeat = time.UnixMilli(t.LastHeartbeat)
		}
		tms = append(tms, tm)
	}
	return tms, nil
}

// rpcHost is the host in an RPC address such as akka.tcp://flink@HOST:PORT/user/rpc/taskmanager_0 (pekko.tcp since 1.18); localhost for a
// TaskManager within the JobManager's process, whose address has none.
func rpcHost(path string) string {
	u, err := url.Parse(path)
	if err != nil {
		return ""
	}
	if u.Port() == "" {
		return "localhost"
	}
	return u.Hostname()
}

type taskManagerDetailAnswer struct {
	SlotsTotal     *int `json:"slotsNumber"`
	SlotsFree      *int `json:"freeSlots"`
	AllocatedSlots *[]struct {
		JobID string `json:"jobId"`
	} `json:"allocatedSlots"`
}

// allocatedSlots asks for /taskmanagers/:taskmanagerid: the jobs that slots are allocated to, one for each slot; nil if the leader does not
// tell. Flink up to 1.17 always answers with an empty list.
func (c *Client) allocatedSlots(ctx context.Context, taskManager string) ([]string, error) {
	var a taskManagerDetailAnswer
	if err := c.getJSON(ctx, endpointTaskManager, map[string]string{"taskmanagerid": taskManager}, &a); err != nil {
		return nil, err
	}
	if a.SlotsTotal == nil || a.SlotsFree == nil || a.AllocatedSlots == nil {
		return nil, foreign(endpointTaskManager, errors.New("slotsNumber, freeSlots or allocatedSlots is missing"))
	}
	if len(*a.AllocatedSlots) == 0 && *a.SlotsTotal > *a.SlotsFree {
		return nil, nil
	}
	jobs := make([]string, 0, len(*a.AllocatedSlots))
	for _, s := range *a.AllocatedSlots {
		if s.JobID == "" {
			return nil, foreign(endpointTaskManager, errors.New("jobId of an allocated slot is missing"))
		}
		jobs = append(jobs, s.JobID)
	}
	return jobs, nil
}
