package lineage

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// reported is an execution that a reporter shows, at the TaskManager it is on.
type reported struct {
	*ReportedExecution
	taskManager string
	graph       string
	firstSeen   time.Time
	key         orphanKey
}

// reporters compares what the TaskManagers' reporters show with what should run.
func (j *judgement) reporters() {
	byJob := map[JobRef][]reported{}
	seen := map[orphanKey]bool{}
	for i := range j.s.Reporters {
		rep := &j.s.Reporters[i]
		if rep.Err != nil || rep.TaskManager == "" {
			continue
		}
		id := cmp.Or(j.ids[Sanitize(rep.TaskManager)], rep.TaskManager)
		if tm := j.tms[id]; tm == nil && len(rep.Executions) == 0 {
			continue // starting or stopping: nothing runs there
		}
		if j.identifies(rep, id) {
			j.read(ViewReporter, id)
			j.taskManager(id).count(ViewReporter, JobRef{}, 0)
		}
		for k := range rep.Executions {
			e := &rep.Executions[k]
			key := reporterKey(rep.TaskManager, e)
			if seen[key] {
				continue
			}
			seen[key] = true
			ref := j.job(j.jobRef(e)).ref
			j.taskManager(id).count(ViewReporter, ref, 1)
			byJob[ref] = append(byJob[ref], reported{
				e, id, e.AttemptID.Graph(), j.m.firstSeen(key, j.s.Time), key,
			})
		}
	}
	for _, ref := range slices.SortedFunc(maps.Keys(byJob), func(a, b JobRef) int { return cmp.Compare(a.ID, b.ID) }) {
		j.matchReported(ref, byJob[ref])
	}
}

// identifies is whether a reading shows every execution of its TaskManager. It does not if labels or series were excluded by the operator,
// in which case nothing is shown of tasks the leader knows to run there, or if the TaskManager lags so far behind.
func (j *judgement) identifies(rep *Reporter, id string) bool {
	if rep.Unidentified > 0 {
		return false
	}
	if len(rep.Executions) > 0 {
		return true
	}
	running := false
	for _, e := range j.expected {
		e.job.eachExecution(func(_ *Vertex, x *Execution) {
			running = running || x.TaskManager == id && x.State == Running
		})
	}
	return !running
}

// jobRef names the job of an execution as the leader does, or else as the reporter does.
func (j *judgement) jobRef(e *ReportedExecution) JobRef {
	if known := j.m.jobs[e.JobID]; known != nil {
		return JobRef{e.JobID, known.name}
	}
	return JobRef{e.JobID, e.JobName}
}

func (j *judgement) matchReported(ref JobRef, executions []reported) {
	job := j.job(ref)
	job.observed[ViewReporter] = map[subtaskKey]int{}
	graphs := map[string]time.Time{}
	// Attempts of one subtask that run side by side in one graph count once, as in the leader's count of tasks.
	type task struct {
		subtaskKey
		graph string
	}
	counted := map[task]bool{}
	running := 0
	for _, x := range executions {
		if t := (task{subtaskKey{x.VertexID, x.Subtask}, x.graph}); x.graph == "" || !counted[t] {
			counted[t] = true
			running++
		}
		job.observed[ViewReporter][subtaskKey{x.VertexID, x.Subtask}]++
		if x.graph != "" {
			job.graphs[x.graph] = true
			graphs[x.graph] = j.m.graphFirstSeen(ref.ID, x.graph, j.s.Time)
		}
	}
	if j.s.Leader == nil {
		return
	}
	e := j.expected[ref.ID]
	if e == nil && job.leader != nil {
		return // what should run is not known
	}
	if e == nil {
		e = expect(&Job{ID: ref.ID})
	}
	current := currentGraph(e, executions, graphs)
	// The current graph's executions, and then the youngest, are the expected ones; the rest is too many.
	slices.SortFunc(executions, func(a, b reported) int {
		return cmp.Or(
			-compareBool(a.graph == current, b.graph == current),
			b.firstSeen.Compare(a.firstSeen),
			cmp.Compare(a.AttemptID, b.AttemptID),
			cmp.Compare(a.taskManager, b.taskManager),
		)
	})
	left := maps.Clone(e.places)
	var surplus []reported
	matched := 0
	for _, x := range executions {
		p := place{x.VertexID, x.Subtask, x.Attempt, x.taskManager}
		if left[p] > 0 {
			left[p]--
			matched++
			j.seen[sighting{ViewReporter, x.taskManager, ref.ID, x.VertexID, x.Subtask, x.Attempt}] = true
			continue
		}
		surplus = append(surplus, x)
	}
	newestMatched := time.Time{}
	if matched > 0 {
		newestMatched = graphs[current]
	}
	room := running <= e.job.Deployed()+e.concurrent
	// Attempt numbers only grow within a graph. One that runs beside an older attempt on purpose is not in the leader's count of tasks.
	sure := func(x reported) bool { return x.graph == current && x.graph != "" && matched > 0 }
	mayBeNewer := func(x reported) bool {
		// An execution graph other than the one at work is newer only if it was first seen later.
		plausible := x.graph == current || matched == 0 || graphs[x.graph].After(newestMatched)
		return job.leader != nil && plausible && j.s.Time.Sub(x.firstSeen) < staleness &&
			e.mayBeNewer(subtaskKey{x.VertexID, x.Subtask}, x.Attempt, x.graph == current && x.graph != "")
	}
	successors := newest{}
	for _, x := range surplus {
		if mayBeNewer(x) && !sure(x) {
			successors.add(subtaskKey{x.VertexID, x.Subtask}, x.firstSeen)
		}
	}
	for _, x := range surplus {
		k := subtaskKey{x.VertexID, x.Subtask}
		if mayBeNewer(x) && (sure(x) || room || e.late() && successors.is(k, x.firstSeen)) {
			job.behind[ViewReporter][k]++
			continue
		}
		j.orphans = append(j.orphans, Orphan{
			View: ViewReporter, Job: ref, VertexID: x.VertexID, VertexName: j.vertexName(ref.ID, x.VertexID, x.VertexName),
			Subtask: x.Subtask, Attempt: x.Attempt, AttemptID: x.AttemptID, TaskManager: x.taskManager,
			Reason: j.reportedReason(job, e, x, current), RecordsIn: x.RecordsIn, key: x.key,
		})
	}
}

// currentGraph is the execution graph most of whose executions are where the leader expects them; of several the one first seen last, and
// of those the one with the most executions.
func currentGraph(e *expectation, executions []reported, graphs map[string]time.Time) string {
	matches, sizes := map[string]int{}, map[string]int{}
	for _, x := range executions {
		sizes[x.graph]++
		if e.places[place{x.VertexID, x.Subtask, x.Attempt, x.taskManager}] > 0 {
			matches[x.graph]++
		}
	}
	current := ""
	for _, g := range slices.Sorted(maps.Keys(graphs)) {
		if current == "" || cmp.Or(cmp.Compare(matches[g], matches[current]), graphs[g].Compare(graphs[current]), cmp.Compare(sizes[g], sizes[current])) > 0 {
			current = g
		}
	}
	return current
}

func (j *judgement) reportedReason(job *jobJudgement, e *expectation, x reported, current string) Reason {
	c, known := e.attempts[subtaskKey{x.VertexID, x.Subtask}]
	switch tm := j.tms[x.taskManager]; {
	case j.s.Leader.TaskManagers != nil && (tm == nil || !tm.Registered):
		return TaskManagerUnregistered
	case job.leader == nil:
		return JobUnknown
	case job.leader.State.Ended():
		return JobEnded
	case x.graph != "" && x.graph != current:
		return StaleExecutionGraph
	case known && x.Attempt < c.number:
		return StaleAttempt
	case known && x.Attempt == c.number && c.deployed && !e.expectedAt(x.VertexID, x.Subtask, x.Attempt, x.taskManager):
		return WrongTaskManager
	}
	// The leader has not deployed this attempt, or one of this number is at work here already: it is of another graph.
	return StaleExecutionGraph
}

func (e *expectation) expectedAt(vertex string, subtask, attempt int, taskManager string) bool {
	return e.places[place{vertex, subtask, attempt, taskManager}] > 0
}

// vertexName is the name of a vertex in full, or else as a reporter has it.
func (j *judgement) vertexName(job, vertex, reported string) string {
	if leader := j.jobs[job].leader; leader != nil {
		for i := range leader.Vertices {
			if leader.Vertices[i].ID == vertex {
				return leader.Vertices[i].Name
			}
		}
	}
	if known := j.m.jobs[job]; known != nil && known.vertices[vertex] != "" {
		return known.vertices[vertex]
	}
	return reported
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
