package lineage

import (
	"slices"
	"time"
)

// Memory is the little that has to be kept between the scrapes of one cluster. Its zero value is empty and ready. It is not safe for
// concurrent use.
type Memory struct {
	jobs         map[string]*rememberedJob
	taskManagers map[string]rememberedTaskManager
	// suspects are the orphans of the last scrape, with the time of the first look of an unbroken series that saw them.
	suspects map[orphanKey]time.Time
	// executions says when an execution or thread was seen; those that were looked for in the last scrape and not found are dropped.
	executions map[orphanKey]seen
}

// seen is when something was first and last seen.
type seen struct{ first, last time.Time }

// rememberUnread is how long it is remembered what ran on a TaskManager that could not be looked at since: it may have been cut off, and
// what comes back with it is old.
const rememberUnread = time.Hour

type rememberedJob struct {
	name      string
	startTime time.Time
	// ended is whether the job was last seen in a state from which it should never run again.
	ended     bool
	vertices  map[string]string
	graphs    map[string]seen
	stateAges map[executionState]time.Time
	// beam has the vertices that are Beam KafkaIO sources, with the number of their splits; 0 if that is not known.
	beam map[string]int

	failovers, restoredAfterEnd int
	duplicateSince              time.Time
	lastSeen                    time.Time
}

type rememberedTaskManager struct {
	lastSeen time.Time
}

type executionState struct {
	vertex           string
	subtask, attempt int
	state            ExecutionState
}

// forgetAfter is how long what is no longer seen is remembered: long enough for a cluster that is down overnight to be recognised.
const forgetAfter = 24 * time.Hour

// StartTimeChanged is whether some job's start time differs from the one remembered, or the job was not known: what was compared before
// no longer holds.
func (m *Memory) StartTimeChanged(v *LeaderView) bool {
	for i := range v.Jobs {
		j := &v.Jobs[i]
		if known := m.jobs[j.ID]; !j.State.Ended() && (known == nil || !known.startTime.Equal(j.StartTime)) {
			return true
		}
	}
	return false
}

// Remember takes over what the next scrape has to know of r.
func (m *Memory) Remember(r *Report) {
	now := r.Snapshot.Time
	if m.jobs == nil {
		m.jobs = map[string]*rememberedJob{}
		m.taskManagers = map[string]rememberedTaskManager{}
	}
	if v := r.Snapshot.Leader; v != nil {
		for _, tm := range v.TaskManagers {
			m.taskManagers[tm.ID] = rememberedTaskManager{lastSeen: now}
		}
	}
	for i := range r.Jobs {
		m.rememberJob(&r.Jobs[i], now)
	}
	for id, j := range m.jobs {
		if now.Sub(j.lastSeen) > forgetAfter {
			delete(m.jobs, id)
		}
	}
	for id, tm := range m.taskManagers {
		if now.Sub(tm.lastSeen) > forgetAfter {
			delete(m.taskManagers, id)
		}
	}
	m.rememberExecutions(r, now)
}

func (m *Memory) rememberJob(r *JobReport, now time.Time) {
	j := m.jobs[r.ID]
	if j == nil {
		j = &rememberedJob{name: r.Name, lastSeen: now}
		m.jobs[r.ID] = j
	}
	j.failovers, j.restoredAfterEnd = r.Failovers, r.RestoredAfterEnd
	// A scrape that could not look neither proves nor ends a series.
	if r.Verdict != VerdictUnknown {
		j.duplicateSince, j.lastSeen = r.DuplicateSince, now
	}
	if r.Leader == nil {
		return
	}
	j.lastSeen = now
	if r.Leader.StartTime.Before(j.startTime) {
		return // a leader that has been replaced answers once more
	}
	j.name, j.startTime, j.ended = r.Name, r.Leader.StartTime, r.Leader.State.Ended()
	if r.Leader.Detailed && len(r.Leader.Vertices) > 0 {
		j.vertices = make(map[string]string, len(r.Leader.Vertices))
		for _, v := range r.Leader.Vertices {
			j.vertices[v.ID] = v.Name
		}
	}
	ages := map[executionState]time.Time{}
	r.Leader.eachExecution(func(v *Vertex, e *Execution) {
		k := executionState{v.ID, e.Subtask, e.Attempt, e.State}
		if slices.Contains(TransitionalStates, e.State) {
			ages[k] = now
			if t, ok := j.stateAges[k]; ok {
				ages[k] = t
			}
		}
	})
	j.stateAges = ages
}

// rememberExecutions keeps when the executions seen now were first seen.
func (m *Memory) rememberExecutions(r *Report, now time.Time) {
	suspects := map[orphanKey]time.Time{}
	for i := range r.Orphans {
		k := r.Orphans[i].key
		suspects[k] = firstOf(m.suspects, k, now)
	}
	for i := range r.Readers {
		if r.Readers[i].Duplicates > 0 {
			k := r.Readers[i].key
			suspects[k] = firstOf(m.suspects, k, now)
		}
	}
	m.suspects = suspects
	m.rememberBeam(r.Snapshot)

	type reading struct {
		view        View
		taskManager string
	}
	read := map[reading]bool{}
	executions := map[orphanKey]seen{}
	graphs := map[string]map[string]seen{}
	for i := range r.Snapshot.Reporters {
		rep := &r.Snapshot.Reporters[i]
		if rep.Err == nil {
			read[reading{ViewReporter, Sanitize(rep.TaskManager)}] = true
		}
		for j := range rep.Executions {
			e := &rep.Executions[j]
			k := reporterKey(rep.TaskManager, e)
			executions[k] = seen{m.firstSeen(k, now), now}
			if g := e.AttemptID.Graph(); g != "" {
				if graphs[e.JobID] == nil {
					graphs[e.JobID] = map[string]seen{}
				}
				graphs[e.JobID][g] = seen{m.graphFirstSeen(e.JobID, g, now), now}
			}
		}
	}
	for i := range r.Snapshot.Dumps {
		d := &r.Snapshot.Dumps[i]
		if d.Err == nil {
			read[reading{ViewThreads, Sanitize(d.TaskManager)}] = true
		}
		for j := range d.Threads {
			k := threadKey(d.TaskManager, &d.Threads[j])
			executions[k] = seen{m.firstSeen(k, now), now}
		}
	}
	for k, x := range m.executions {
		if !read[reading{k.view, k.taskManager}] && now.Sub(x.last) < rememberUnread {
			executions[k] = x
		}
	}
	m.executions = executions
	for id, j := range m.jobs {
		for g, x := range j.graphs {
			if _, ok := graphs[id][g]; !ok && now.Sub(x.last) < rememberUnread {
				if graphs[id] == nil {
					graphs[id] = map[string]seen{}
				}
				graphs[id][g] = x
			}
		}
		j.graphs = graphs[id]
	}
}

// graphFirstSeen is when an execution graph was first seen, or now.
func (m *Memory) graphFirstSeen(job, graph string, now time.Time) time.Time {
	if j := m.jobs[job]; j != nil {
		if x, ok := j.graphs[graph]; ok {
			return x.first
		}
	}
	return now
}

// firstSeen is when an execution or thread was first seen, or now.
func (m *Memory) firstSeen(k orphanKey, now time.Time) time.Time {
	if x, ok := m.executions[k]; ok {
		return x.first
	}
	return now
}

func firstOf[K comparable](seen map[K]time.Time, k K, now time.Time) time.Time {
	if t, ok := seen[k]; ok {
		return t
	}
	return now
}

func reporterKey(taskManagerLabel string, e *ReportedExecution) orphanKey {
	return orphanKey{ViewReporter, Sanitize(taskManagerLabel), e.JobID + " " + string(e.AttemptID)}
}

func threadKey(taskManager string, t *Thread) orphanKey {
	return orphanKey{ViewThreads, Sanitize(taskManager), t.Task.String() + " " + formatID(t.ID)}
}
