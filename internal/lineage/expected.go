package lineage

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Sanitize is what Flink's Prometheus reporter does to label values unless filterLabelValueCharacters is off: every character outside
// [a-zA-Z0-9:_] becomes '_' (flink-metrics-prometheus, 1.15 to 2.3).
func Sanitize(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == ':' || r == '_' {
			return r
		}
		return '_'
	}, s)
}

func formatID(id int64) string { return strconv.FormatInt(id, 10) }

// vertexName is the name of one of j's vertices.
func (j *Job) vertexName(id string) string {
	for i := range j.Vertices {
		if j.Vertices[i].ID == id {
			return j.Vertices[i].Name
		}
	}
	return ""
}

// Deployed counts the tasks of j that have, or are about to have, a thread, by the leader's uncached count.
func (j *Job) Deployed() int {
	n := 0
	for state, count := range j.Tasks {
		if state.Deployed() {
			n += count
		}
	}
	return n
}

// Expected is whether it is known what should run of j. A job that has ended should not run at all; one that the leader is still
// initialising, or whose graph another leader holds, has no vertices to tell.
func (j *Job) Expected() bool {
	return j.State.Ended() || j.Detailed && len(j.Vertices) > 0
}

func (j *Job) eachExecution(visit func(*Vertex, *Execution)) {
	for i := range j.Vertices {
		v := &j.Vertices[i]
		for k := range v.Executions {
			visit(v, &v.Executions[k])
		}
	}
}

// place identifies an expected execution: where it should run.
type place struct {
	vertex           string
	subtask, attempt int
	taskManager      string
}

type subtaskKey struct {
	vertex  string
	subtask int
}

// expectation is what should run of one job.
type expectation struct {
	job *Job
	// places counts the deployed executions.
	places map[place]int
	// attempts has the highest attempt number of each subtask, and whether any execution of it was deployed.
	attempts map[subtaskKey]currentAttempt
	// processing has the executions of each subtask that may take in records.
	processing map[subtaskKey][]place
	// started is the number of subtasks that do not wait to be deployed, for the first time or again.
	started int
	// concurrent is the number of executions that run, or wait to run, beside another of their subtask on purpose.
	concurrent int
}

type currentAttempt struct {
	number   int
	deployed bool
}

func expect(j *Job) *expectation {
	e := &expectation{job: j, places: map[place]int{}, attempts: map[subtaskKey]currentAttempt{}, processing: map[subtaskKey][]place{}}
	if j.State.Ended() {
		return e
	}
	live := map[subtaskKey]int{}
	started := map[subtaskKey]bool{}
	j.eachExecution(func(v *Vertex, x *Execution) {
		k := subtaskKey{v.ID, x.Subtask}
		waiting := x.State == Created || x.State == Scheduled
		if c, ok := e.attempts[k]; !ok || x.Attempt > c.number || x.Attempt == c.number && !waiting {
			e.attempts[k] = currentAttempt{x.Attempt, !waiting}
		}
		if x.State.started() && !started[k] {
			started[k] = true
			e.started++
		}
		if waiting || x.State.Deployed() {
			if live[k]++; live[k] > 1 {
				e.concurrent++
			}
		}
		if !x.State.Deployed() {
			return
		}
		p := place{v.ID, x.Subtask, x.Attempt, x.TaskManager}
		e.places[p]++
		if x.State.processes() {
			e.processing[k] = append(e.processing[k], p)
		}
	})
	return e
}

// mayBeNewer is whether an execution that is not expected could be one the leader has deployed since the view of the job was made, as far
// as the attempt number tells.
func (e *expectation) mayBeNewer(k subtaskKey, attempt int, sameGraph bool) bool {
	c, known := e.attempts[k]
	switch {
	case !known:
		return true
	case attempt > c.number:
		return true
	case attempt == c.number:
		return !c.deployed || !sameGraph
	}
	return false
}

// newest finds, of the executions of each subtask that may be newer than the leader's view, the one that was seen first last: the view may
// be late, but has one successor at most.
type newest map[subtaskKey]struct {
	firstSeen time.Time
	n         int
}

func (m newest) add(k subtaskKey, firstSeen time.Time) {
	x := m[k]
	switch c := firstSeen.Compare(x.firstSeen); {
	case x.n == 0 || c > 0:
		x.firstSeen, x.n = firstSeen, 1
	case c == 0:
		x.n++
	}
	m[k] = x
}

// is whether the newest execution of the subtask, and the only one, was first seen then.
func (m newest) is(k subtaskKey, firstSeen time.Time) bool {
	return m[k].n == 1 && m[k].firstSeen.Equal(firstSeen)
}

// late is whether the leader has deployed more tasks than its view of the job has: by its count of tasks, which is not cached.
func (e *expectation) late() bool {
	n := 0
	for state, count := range e.job.Tasks {
		if state.started() {
			n += count
		}
	}
	return e.started < n
}

// later is whether an attempt's number is higher than any the leader's view has of its subtask.
func (e *expectation) later(k subtaskKey, attempt int) bool {
	c, known := e.attempts[k]
	return known && attempt > c.number
}

// processes is whether an expected execution of the subtask, one that is not absent, may take in records. Where only thread names tell,
// k.vertex is a name, and the subtask of each vertex of that name has to.
func (e *expectation) processes(k subtaskKey, absent func(place) bool) bool {
	present := func(p place) bool { return !absent(p) }
	if slices.ContainsFunc(e.processing[k], present) {
		return true
	}
	named := false
	for i := range e.job.Vertices {
		if v := &e.job.Vertices[i]; v.Name == k.vertex {
			named = true
			if !slices.ContainsFunc(e.processing[subtaskKey{v.ID, k.subtask}], present) {
				return false
			}
		}
	}
	return named
}

// staleness bounds how old the leader's view of a job can be: web.refresh-interval (3 s by default) and the scrape itself.
const staleness = 5 * time.Second

// settle is how long an execution that should not be there has to be seen before it counts: one that is about to end, or was deployed
// between two requests of a scrape, is gone or explained by then.
const settle = time.Second

// Settle is how long to wait before looking a second time at what a first look found suspicious.
const Settle = settle
