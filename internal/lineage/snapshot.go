package lineage

import (
	"cmp"
	"slices"
	"time"
)

// Snapshot is what one scrape saw of one cluster. It is not changed once built.
type Snapshot struct {
	// Time is when the scrape began, by the exporter's clock.
	Time time.Time
	// JobManagers has one entry for each configured JobManager, in the order of the configuration.
	JobManagers []JobManager
	// Leader is what the JobManager that serves this scrape says; nil if none gave a leader's view.
	Leader *LeaderView
	// Reporters are the TaskManagers' Prometheus reporters that were asked; nil if that view is turned off.
	Reporters []Reporter
	// ReportersOn tells a view that is turned off from one that reached nobody.
	ReportersOn bool
	// Dumps are the thread dumps at hand, at most one for each TaskManager.
	Dumps []ThreadDump
	// ThreadsOn tells a view that is turned off from one that reached nobody.
	ThreadsOn bool
}

// unique returns the snapshot with one entry for each job, TaskManager and dump. A job that is just ending can be among those that run and
// those that have ended.
func unique(s *Snapshot) *Snapshot {
	c := *s
	c.Dumps = uniqueBy(s.Dumps, func(d *ThreadDump) string { return d.TaskManager }, func(a, b *ThreadDump) int {
		return cmp.Or(compareBool(a.Err == nil, b.Err == nil), compareBool(a.Fresh, b.Fresh), a.Time.Compare(b.Time))
	})
	if s.Leader != nil {
		l := *s.Leader
		l.Jobs = uniqueBy(l.Jobs, func(j *Job) string { return j.ID }, func(a, b *Job) int {
			return cmp.Or(compareBool(!a.State.Ended(), !b.State.Ended()), a.StartTime.Compare(b.StartTime), compareBool(a.Detailed, b.Detailed))
		})
		l.TaskManagers = uniqueBy(l.TaskManagers, func(tm *TaskManager) string { return tm.ID }, func(a, b *TaskManager) int {
			return a.LastHeartbeat.Compare(b.LastHeartbeat)
		})
		c.Leader = &l
	}
	return &c
}

// uniqueBy keeps the greatest entry of each id, where the first of them was. It returns xs itself if there is nothing to leave out.
func uniqueBy[T any](xs []T, id func(*T) string, compare func(a, b *T) int) []T {
	at := make(map[string]int, len(xs))
	var kept []T
	for i := range xs {
		k, known := at[id(&xs[i])]
		switch {
		case !known:
			at[id(&xs[i])] = len(at)
			if kept != nil {
				kept = append(kept, xs[i])
			}
			continue
		case kept == nil:
			kept = slices.Clone(xs[:i])
		}
		if compare(&xs[i], &kept[k]) > 0 {
			kept[k] = xs[i]
		}
	}
	if kept == nil {
		return xs
	}
	return kept
}

// JobManager is how one configured JobManager answered.
type JobManager struct {
	// URL is the configured address without credentials.
	URL string
	// Up is whether it answered as a JobManager at all, with an error or not.
	Up bool
	// Electing is whether it answered that no leader can be reached.
	Electing bool
	// Jobs is its /jobs/overview by job id; nil if it gave none.
	Jobs map[string]JobSummary
	// TaskManagers is its /taskmanagers; nil if it gave none.
	TaskManagers map[string]bool
	// Err says why there is no leader's view from it; nil if there is one.
	Err error
}

// JobSummary is a job in /jobs/overview.
type JobSummary struct {
	State     JobState
	StartTime time.Time
}

// LeaderView is what the leader says through one JobManager. A part that could not be read is nil or not Known.
type LeaderView struct {
	// JobManager is the URL of the JobManager that served it.
	JobManager string
	// Overview is /overview; nil if it could not be read.
	Overview *Overview
	// Jobs is /jobs/overview with the details of each job that has not ended.
	Jobs []Job
	// TaskManagers is /taskmanagers; nil if it could not be read, empty if none is registered.
	TaskManagers []TaskManager
}

// Overview is /overview.
type Overview struct {
	FlinkVersion, FlinkCommit string
	SlotsTotal, SlotsFree     int
}

// Job is a job the leader knows.
type Job struct {
	ID, Name string
	State    JobState
	// StartTime is when the leader's JobMaster for the job was created: it changes at a failover and not at an ordinary restart.
	StartTime time.Time
	// EndTime is zero for a job that has not ended.
	EndTime time.Time
	// Tasks counts the job's tasks by state, from /jobs/overview, which is never cached.
	Tasks map[ExecutionState]int
	// Vertices is the execution graph, from /jobs/:jobid, which a JobManager may serve up to web.refresh-interval (3 s) late.
	Vertices []Vertex
	// Detailed is whether every vertex and execution of the job was read, so that what should run is known.
	Detailed bool
}

// Vertex is a vertex of a job's execution graph.
type Vertex struct {
	ID, Name    string
	Parallelism int
	// Tasks counts the vertex' tasks by state.
	Tasks map[ExecutionState]int
	// Executions are the current execution of each subtask and those that run beside it on purpose (speculative execution);
	// nil if they could not be read.
	Executions []Execution
}

// Execution is an execution in the leader's execution graph.
type Execution struct {
	// Subtask is 0-based.
	Subtask int
	// Attempt is the attempt number; it starts at 0 again in a new execution graph.
	Attempt int
	State   ExecutionState
	// TaskManager is the id of the TaskManager it was deployed to, or empty.
	TaskManager string
	// StateSince is when it entered its state; zero if the leader does not say (before Flink 1.16).
	StateSince time.Time
}

// TaskManager is a TaskManager registered at the leader's ResourceManager.
type TaskManager struct {
	// ID is its ResourceID, as in REST's taskmanager-id.
	ID string
	// Host is the host of its RPC address.
	Host string
	// SlotsTotal and SlotsFree are as the ResourceManager counts them.
	SlotsTotal, SlotsFree int
	// LastHeartbeat is zero before the first heartbeat.
	LastHeartbeat time.Time
	// AllocatedSlots are the job ids slots are allocated to, one for each slot; nil if unknown. Flink up to 1.17 always answers with an
	// empty list, in which case it is unknown.
	AllocatedSlots []string
}

// Reporter is one reading of a TaskManager's own Prometheus reporter.
type Reporter struct {
	// URL is the address without credentials.
	URL string
	// TaskManager is the label tm_id as the reporter has it, usually with every character but [a-zA-Z0-9:_] replaced; empty if the
	// answer was none of a TaskManager.
	TaskManager string
	// Executions are the executions it exports series of.
	Executions []ReportedExecution
	// Unidentified counts series of tasks that lack the labels which say of which execution they are.
	Unidentified int
	// Err says why it could not be read; nil if it was.
	Err error
}

// ReportedExecution is an execution that a reporter exports series of. Names are as in its labels, usually with characters replaced.
type ReportedExecution struct {
	JobID, JobName       string
	VertexID, VertexName string
	Subtask              int
	AttemptID            AttemptID
	Attempt              int
	// RecordsIn is the records taken in so far: numRecordsIn of the task, or for a source, which has none, numRecordsOut of its head operator.
	RecordsIn float64
	// Source is what it tells of itself as a source; nil if it is none.
	Source *SourceProgress
}

// SourceProgress is what a reporter tells of a source's execution.
type SourceProgress struct {
	// RecordsOut is the records the source has sent so far: numRecordsOut of the operator at the head of the chain. It starts at 0 with each
	// execution.
	RecordsOut float64
	// Splits is the records read so far of each split, by the split's index, from Beam's Kafka source; it has no split of which nothing was
	// read yet.
	Splits map[int]float64
	// Partitions are those the execution reads, from Flink's KafkaSource.
	Partitions []PartitionProgress
	// Topics are those the execution has read a record of, from Beam's KafkaIO, which tells no positions; as in Partitions, sorted.
	Topics []string
}

// PartitionProgress is how far a source has read a partition.
type PartitionProgress struct {
	// Topic is as in the reporter's label, usually with every character but [a-zA-Z0-9:_] replaced.
	Topic     string
	Partition int
	// Offset is that of the last record read; negative before the first.
	Offset float64
}

// ThreadDump is a thread dump of a TaskManager, taken through the JobManager.
type ThreadDump struct {
	// TaskManager is the id in REST.
	TaskManager string
	// Time is when it was taken.
	Time time.Time
	// Fresh is whether it was taken in this scrape. An older one was compared in its own scrape and showed nothing out of order.
	Fresh bool
	// Threads are those whose names matter.
	Threads []Thread
	// Err says why none could be taken; nil if it was.
	Err error
}
