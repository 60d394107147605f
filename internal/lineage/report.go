package lineage

import "time"

// View is one of the independent ways to see which executions run.
type View string

// The views.
const (
	ViewJobManager View = "jobmanager"
	ViewReporter   View = "reporter"
	ViewThreads    View = "threads"

	// viewReaders is only in the keys of suspects.
	viewReaders View = "readers"
)

// Reason is why an execution should not be where it is seen.
type Reason string

// The reasons, the most telling first.
const (
	TaskManagerUnregistered Reason = "taskmanager_unregistered"
	JobUnknown              Reason = "job_unknown"
	JobEnded                Reason = "job_finished"
	StaleExecutionGraph     Reason = "stale_execution_graph"
	StaleAttempt            Reason = "stale_attempt"
	WrongTaskManager        Reason = "wrong_taskmanager"
	SurplusThread           Reason = "surplus_thread"
	// DuplicateReader is a reason to restart a TaskManager on which every execution is in order.
	DuplicateReader Reason = "duplicate_reader"
)

// Verdict is the judgement on one job.
type Verdict string

// The verdicts.
const (
	// VerdictOK: everything could be looked at, and nothing runs that should not.
	VerdictOK Verdict = "ok"
	// VerdictDuplicate: some subtask runs twice, or some split is read twice.
	VerdictDuplicate Verdict = "duplicate"
	// VerdictOrphan: an old execution goes on, but no second one of its subtask processes records.
	VerdictOrphan Verdict = "orphan"
	// VerdictUnknown: it could not be looked at.
	VerdictUnknown Verdict = "unknown"
)

// Verdicts lists them all.
var Verdicts = []Verdict{VerdictOK, VerdictDuplicate, VerdictOrphan, VerdictUnknown}

// Aspect is something two JobManagers can tell different stories about.
type Aspect string

// The aspects.
const (
	AspectJobs         Aspect = "jobs"
	AspectStartTime    Aspect = "start_time"
	AspectTaskManagers Aspect = "taskmanagers"
)

// Report is the judgement on a Snapshot.
type Report struct {
	Snapshot *Snapshot
	// Jobs are those the leader knows, those it does not know although their executions are seen, and with no leader those last known;
	// by id.
	Jobs []JobReport
	// TaskManagers are those registered and those not registered whose reporter answers with tasks; by id.
	TaskManagers []TaskManagerReport
	// Orphans are the executions that should not be there, in a fixed order.
	Orphans []Orphan
	// Readers are the source readers found, in a fixed order.
	Readers []Readers
	// Coverage is how many of the known TaskManagers each view could read; a view that is turned off has none.
	Coverage map[View]Coverage
	// Disagreement is set for each aspect that two or more JobManagers could be asked about.
	Disagreement map[Aspect]bool
	// SurplusJobs is the number of running jobs of each name beyond the first, for the names that are not allowed to run twice;
	// nil without a leader's view.
	SurplusJobs map[string]int
}

// Coverage is how much of a cluster a view could read.
type Coverage struct{ Read, Known int }

// JobReport is the judgement on one job.
type JobReport struct {
	ID, Name string
	// Leader is the job in the leader's view; nil if the leader does not know it or there is none.
	Leader  *Job
	Verdict Verdict
	// Why says in a sentence what the verdict rests on.
	Why string
	// DuplicateSubtasks is the number of subtasks that run twice, for each view that could look.
	DuplicateSubtasks map[View]int
	// DuplicateReaders is the number of readers beyond one for each split.
	DuplicateReaders int
	// ExecutionGraphs is the number of execution graphs seen alive by the reporter view; 0 if it could not tell.
	ExecutionGraphs int
	// Starved is whether the job waits for slots while executions that should not be there go on.
	Starved bool
	// Restart lists the TaskManagers to restart, by id.
	Restart []Restart
	// StateSince is when the execution longest in each transitional state entered it.
	StateSince map[ExecutionState]time.Time
	// DuplicateSince is the first scrape of an unbroken series that found the verdict duplicate; zero for other verdicts.
	DuplicateSince time.Time
	// Failovers counts the changes of the job's start time seen so far.
	Failovers int
	// RestoredAfterEnd counts how often the job was seen to run again after it had ended.
	RestoredAfterEnd int
}

// Restart is a TaskManager that has to be restarted to end what should not be there.
type Restart struct {
	TaskManager string
	Reason      Reason
}

// TaskManagerReport is what is known of one TaskManager.
type TaskManagerReport struct {
	ID         string
	Registered bool
	// Leader is the TaskManager in the leader's view; nil if it is not registered there.
	Leader *TaskManager
	// Executions counts executions by view and job, for each view that could look. An entry with an empty job id counts threads that
	// could be of several jobs.
	Executions map[View]map[JobRef]int
	// OrphanThreads counts threads that outlived their task by kind; nil if there was no dump.
	OrphanThreads map[ThreadKind]int
	// DumpTime is when the thread dump was taken; zero if there is none.
	DumpTime time.Time
	// Settled is whether everything seen on it could be compared and was in order, so that its thread dump need not be taken again soon.
	Settled bool
	// UnaccountedSlots is the number of slots in use that no job the leader knows explains; -1 if that cannot be told.
	UnaccountedSlots int
}

// JobRef names a job.
type JobRef struct{ ID, Name string }

// Orphan is an execution that is observed but not expected.
type Orphan struct {
	View View
	// Job is empty where only thread names tell and several jobs, or none, have a vertex of that name.
	Job JobRef
	// VertexID is empty where only thread names tell and no job has such a vertex.
	VertexID, VertexName string
	Subtask, Attempt     int
	// AttemptID is empty in the threads view.
	AttemptID   AttemptID
	TaskManager string
	Reason      Reason
	// RecordsIn is the records it has taken in by its own count; only the reporter view knows.
	RecordsIn float64
	// Confirmed is whether it was seen twice, some time apart. One seen once may have been about to end.
	Confirmed bool

	key orphanKey
}

// orphanKey identifies an orphan over several looks.
type orphanKey struct {
	view        View
	taskManager string
	// execution is the attempt id, or the thread's name and JVM id.
	execution string
}
