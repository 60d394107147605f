package lineage

// JobState is the state of a job (Flink's JobStatus).
type JobState string

// The states of a job, Flink 1.15 to 2.3.
const (
	JobInitializing JobState = "INITIALIZING"
	JobCreated      JobState = "CREATED"
	JobRunning      JobState = "RUNNING"
	JobFailing      JobState = "FAILING"
	JobFailed       JobState = "FAILED"
	JobCancelling   JobState = "CANCELLING"
	JobCanceled     JobState = "CANCELED"
	JobFinished     JobState = "FINISHED"
	JobRestarting   JobState = "RESTARTING"
	JobSuspended    JobState = "SUSPENDED"
	JobReconciling  JobState = "RECONCILING"
)

// JobStates lists them all.
var JobStates = []JobState{
	JobInitializing, JobCreated, JobRunning, JobFailing, JobFailed, JobCancelling, JobCanceled, JobFinished, JobRestarting, JobSuspended,
	JobReconciling,
}

// Ended is whether a job in this state will never run again (Flink's globally terminal states). SUSPENDED is not among them: another
// JobManager may go on with the job.
func (s JobState) Ended() bool {
	return s == JobFailed || s == JobCanceled || s == JobFinished
}

// ExecutionState is the state of an execution.
type ExecutionState string

// The states of an execution, Flink 1.15 to 2.3.
const (
	Created      ExecutionState = "CREATED"
	Scheduled    ExecutionState = "SCHEDULED"
	Deploying    ExecutionState = "DEPLOYING"
	Initializing ExecutionState = "INITIALIZING"
	Running      ExecutionState = "RUNNING"
	Finished     ExecutionState = "FINISHED"
	Canceling    ExecutionState = "CANCELING"
	Canceled     ExecutionState = "CANCELED"
	Failed       ExecutionState = "FAILED"
	Reconciling  ExecutionState = "RECONCILING"
)

// ExecutionStates lists them all.
var ExecutionStates = []ExecutionState{
	Created, Scheduled, Deploying, Initializing, Running, Finished, Canceling, Canceled, Failed, Reconciling,
}

// TransitionalStates are those an execution should soon leave.
var TransitionalStates = []ExecutionState{Scheduled, Deploying, Initializing, Canceling}

// Deployed is whether an execution in this state has, or is about to have, a thread on a TaskManager.
func (s ExecutionState) Deployed() bool {
	return s == Deploying || s == Initializing || s == Running || s == Canceling
}

// started is whether an execution in this state has been deployed, and none follows it.
func (s ExecutionState) started() bool { return s.Deployed() || s == Finished }

// processes is whether an execution in this state may take in records. One that still deploys or restores its state does not, so an old
// execution beside it does no double work yet.
func (s ExecutionState) processes() bool {
	return s == Running || s == Canceling
}
