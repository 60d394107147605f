package lineage

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// namedVertex is a vertex that threads of this name may execute.
type namedVertex struct {
	job    JobRef
	vertex string
	// current is whether it is in the leader's view; otherwise it is remembered of a job that has ended or is not known any more.
	current bool
}

// threads compares the task threads of fresh dumps with what should run. Names tell neither job nor execution graph, so the multisets of
// names are compared; an older dump had nothing out of order when it was taken.
func (j *judgement) threads() {
	if j.s.Leader == nil {
		return
	}
	j.named = j.vertices()
	expected := map[string]map[TaskName]int{} // by TaskManager
	deploying := map[string]bool{}            // TaskManagers where the thread of a task may not be there yet
	for _, e := range j.expected {
		e.job.eachExecution(func(v *Vertex, x *Execution) {
			if e.job.State.Ended() || !x.State.Deployed() {
				return
			}
			if x.State == Deploying {
				deploying[x.TaskManager] = true
			}
			if expected[x.TaskManager] == nil {
				expected[x.TaskManager] = map[TaskName]int{}
			}
			expected[x.TaskManager][TaskName{v.Name, x.Subtask, v.Parallelism, x.Attempt}]++
		})
	}
	j.countThreads()
	done := map[string]bool{}
	for i := range j.s.Dumps {
		d := &j.s.Dumps[i]
		tm := j.tms[d.TaskManager]
		if d.Err != nil || tm == nil || done[d.TaskManager] {
			continue
		}
		done[d.TaskManager] = true
		j.read(ViewThreads, d.TaskManager)
		tm.DumpTime = d.Time
		tm.OrphanThreads = outlived(d, expected[d.TaskManager], j.named)
		if !j.allExpected() {
			// A canceler may be at work on a task that is expected.
			delete(tm.OrphanThreads, CancelerThread)
		}
		tm.count(ViewThreads, JobRef{}, 0)
		for k := range d.Threads {
			if t := &d.Threads[k]; t.Kind == TaskThread {
				if ref, ok := threadJob(j.named[t.Task.Vertex]); ok {
					tm.count(ViewThreads, ref, 1)
				}
			}
		}
		if d.Fresh {
			j.matchThreads(d, expected[d.TaskManager])
			if d.cancelsAny() || deploying[d.TaskManager] {
				j.unsettled[d.TaskManager] = true
			}
		} else if outdated(d, expected[d.TaskManager]) {
			j.unsettled[d.TaskManager] = true
		}
	}
}

// vertices finds the vertices of each name: those of the jobs in the leader's view, and those remembered of jobs whose vertices it does not
// tell.
func (j *judgement) vertices() map[string][]namedVertex {
	byName := map[string][]namedVertex{}
	for _, job := range j.s.Leader.Jobs {
		for _, v := range job.Vertices {
			byName[v.Name] = append(byName[v.Name], namedVertex{JobRef{job.ID, job.Name}, v.ID, true})
		}
	}
	for id, known := range j.m.jobs {
		if job := j.jobs[id]; job != nil && job.leader != nil && len(job.leader.Vertices) > 0 {
			continue
		}
		for vertex, name := range known.vertices {
			byName[name] = append(byName[name], namedVertex{JobRef{id, known.name}, vertex, false})
		}
	}
	for _, vs := range byName {
		slices.SortFunc(vs, func(a, b namedVertex) int {
			return cmp.Or(-compareBool(a.current, b.current), cmp.Compare(a.job.ID, b.job.ID), cmp.Compare(a.vertex, b.vertex))
		})
	}
	return byName
}

// owners narrows the vertices a thread may execute: those of the leader's view if there are any.
func owners(vs []namedVertex) []namedVertex {
	if i := slices.IndexFunc(vs, func(v namedVertex) bool { return !v.current }); i > 0 {
		return vs[:i]
	}
	return vs
}

// threadJob is the job a task thread belongs to, empty if several have a vertex of its name; ok is false if none has.
func threadJob(vs []namedVertex) (JobRef, bool) {
	vs = owners(vs)
	if len(vs) == 0 {
		return JobRef{}, false
	}
	for _, v := range vs {
		if v.job != vs[0].job {
			return JobRef{}, true
		}
	}
	return vs[0].job, true
}

// countThreads counts the task threads of each subtask over all fresh dumps.
func (j *judgement) countThreads() {
	for i := range j.s.Dumps {
		d := &j.s.Dumps[i]
		if !d.Fresh {
			continue // the task may have moved since
		}
		for _, t := range d.Threads {
			vs := owners(j.named[t.Task.Vertex])
			if t.Kind != TaskThread || len(vs) != 1 {
				continue
			}
			job := j.job(vs[0].job)
			if job.observed[ViewThreads] == nil {
				job.observed[ViewThreads] = map[subtaskKey]int{}
			}
			k := subtaskKey{vs[0].vertex, t.Task.Subtask}
			job.observed[ViewThreads][k]++
			job.threads++
			if e := j.expected[vs[0].job.ID]; e != nil && e.late() && !e.later(k, t.Task.Attempt) && !d.hasYounger(&t) && !d.cancels(&t) {
				job.successors.add(k, j.m.firstSeen(threadKey(d.TaskManager, &t), j.s.Time))
			}
		}
	}
}

func (j *judgement) matchThreads(d *ThreadDump, expected map[TaskName]int) {
	j.fresh[d.TaskManager] = true
	var tasks []*Thread
	for i := range d.Threads {
		if d.Threads[i].Kind == TaskThread {
			tasks = append(tasks, &d.Threads[i])
		}
	}
	// The youngest threads of a name are the expected ones.
	slices.SortFunc(tasks, func(a, b *Thread) int { return cmp.Compare(b.ID, a.ID) })
	left := map[TaskName]int{}
	maps.Copy(left, expected)
	for _, t := range tasks {
		if left[t.Task] > 0 {
			left[t.Task]--
			j.seen[sighting{ViewThreads, d.TaskManager, "", t.Task.Vertex, t.Task.Subtask, t.Task.Attempt}] = true
			continue
		}
		j.surplusThread(d, t)
	}
}

// surplusThread judges a task thread that the leader does not expect at this TaskManager.
func (j *judgement) surplusThread(d *ThreadDump, t *Thread) {
	o := Orphan{
		View: ViewThreads, VertexName: t.Task.Vertex, Subtask: t.Task.Subtask, Attempt: t.Task.Attempt, TaskManager: d.TaskManager,
		Reason: SurplusThread, key: threadKey(d.TaskManager, t),
	}
	vs := owners(j.named[t.Task.Vertex])
	if len(vs) == 0 {
		// The thread of a connector that is named after a task, or a task of a job whose vertices are not known.
		if len(helped(t.Task.Vertex, j.named)) > 0 || !j.allExpected() {
			return
		}
		o.Reason = JobUnknown
		j.orphans = append(j.orphans, o)
		return
	}
	if j.mayBeUntold(t.Task.Vertex) {
		for _, v := range vs {
			if v.current {
				j.job(v.job).candidates = true
			}
		}
		return
	}
	for _, v := range vs {
		job := j.job(v.job)
		e := j.expected[v.job.ID]
		if e == nil && job.leader != nil {
			return // what should run of it is not known
		}
		if e != nil {
			k := subtaskKey{v.vertex, t.Task.Subtask}
			if j.threadMayBeNewer(d, e, k, t, o.key) {
				job.behind[ViewThreads][k]++
				return
			}
		}
	}
	if len(vs) > 1 {
		// The thread could be of any of them.
		sameJob := true
		for _, v := range vs {
			sameJob = sameJob && v.job == vs[0].job
			if v.current {
				j.job(v.job).candidates = true
			}
		}
		if sameJob {
			j.job(vs[0].job).candidates = false
			o.Job = vs[0].job
		}
		j.orphans = append(j.orphans, o)
		return
	}
	o.Job, o.VertexID = vs[0].job, vs[0].vertex
	o.Reason = j.threadReason(vs[0], t, d.TaskManager)
	j.orphans = append(j.orphans, o)
}

// mayBeUntold is whether a job of which it is not known what should run may have a vertex of this name.
func (j *judgement) mayBeUntold(vertex string) bool {
	for i := range j.s.Leader.Jobs {
		id := j.s.Leader.Jobs[i].ID
		if j.expected[id] != nil {
			continue
		}
		known := j.m.jobs[id]
		if known == nil || len(known.vertices) == 0 {
			return true
		}
		for _, name := range known.vertices {
			if name == vertex {
				return true
			}
		}
	}
	return false
}

// threadMayBeNewer is whether the leader may have deployed the thread's task since its view of the job was made.
func (j *judgement) threadMayBeNewer(d *ThreadDump, e *expectation, k subtaskKey, t *Thread, key orphanKey) bool {
	job := j.jobs[e.job.ID]
	firstSeen := j.m.firstSeen(key, j.s.Time)
	if j.s.Time.Sub(firstSeen) >= staleness || !e.mayBeNewer(k, t.Task.Attempt, true) || d.hasYounger(t) || d.cancels(t) {
		return false
	}
	// An attempt that runs beside an older one on purpose is not in the leader's count of tasks.
	return job.threads <= e.job.Deployed()+e.concurrent || e.later(k, t.Task.Attempt) || e.late() && job.successors.is(k, firstSeen)
}

// cancelsAny is whether some task of the dump is being cancelled.
func (d *ThreadDump) cancelsAny() bool {
	return slices.ContainsFunc(d.Threads, func(t Thread) bool { return t.Kind == CancelerThread })
}

// outdated is whether a dump that is used again shows a task that is not expected any more, or lacks one that is.
func outdated(d *ThreadDump, expected map[TaskName]int) bool {
	n := map[TaskName]int{}
	for i := range d.Threads {
		if t := &d.Threads[i]; t.Kind == TaskThread {
			n[t.Task]++
		}
	}
	return !maps.Equal(n, expected)
}

// hasYounger is whether a younger thread executes the same subtask on the same TaskManager.
func (d *ThreadDump) hasYounger(t *Thread) bool {
	return slices.ContainsFunc(d.Threads, func(x Thread) bool {
		return x.Kind == TaskThread && x.Task.Vertex == t.Task.Vertex && x.Task.Subtask == t.Task.Subtask && x.ID > t.ID
	})
}

// cancels is whether a canceler is at work on the thread's task. Of several threads of one name it is the oldest.
func (d *ThreadDump) cancels(t *Thread) bool {
	older, canceled := 0, map[AttemptID]bool{}
	for i := range d.Threads {
		switch x := &d.Threads[i]; {
		case x.Task != t.Task:
		case x.Kind == CancelerThread:
			canceled[x.AttemptID] = true
		case x.Kind == TaskThread && x.ID < t.ID:
			older++
		}
	}
	return older < len(canceled)
}

func (j *judgement) threadReason(v namedVertex, t *Thread, taskManager string) Reason {
	job := j.jobs[v.job.ID]
	switch {
	case job == nil || job.leader == nil:
		return JobUnknown
	case job.leader.State.Ended():
		return JobEnded
	}
	e := j.expected[v.job.ID]
	c, known := e.attempts[subtaskKey{v.vertex, t.Task.Subtask}]
	switch {
	case known && t.Task.Attempt < c.number:
		return StaleAttempt
	case known && (t.Task.Attempt > c.number || !c.deployed):
		return StaleExecutionGraph
	case known && !e.expectedAt(v.vertex, t.Task.Subtask, t.Task.Attempt, taskManager):
		return WrongTaskManager
	}
	return SurplusThread
}

// helped are the known vertices for one of which a thread of this name may work, such as "X Fetcher for VERTEX".
func helped(name string, vertices map[string][]namedVertex) []string {
	var names []string
	for vertex := range vertices {
		if vertex != "" && strings.HasSuffix(name, " "+vertex) {
			names = append(names, vertex)
		}
	}
	return names
}

// outlived counts the threads of a dump that work for a task that is not there any more, or was to end. The JVM's thread ids ascend, so that
// a thread older than every task thread of its name worked for an earlier execution.
func outlived(d *ThreadDump, expected map[TaskName]int, vertices map[string][]namedVertex) map[ThreadKind]int {
	tasks := map[TaskName]int{}
	for i := range d.Threads {
		if d.Threads[i].Kind == TaskThread {
			tasks[d.Threads[i].Task]++
		}
	}
	n := map[ThreadKind]int{CancelerThread: 0, LegacySourceThread: 0, FetcherThread: 0, KafkaFetcherThread: 0, UserThread: 0}
	surplusTasks := map[TaskName]map[AttemptID]bool{}
	for i := range d.Threads {
		switch t := &d.Threads[i]; t.Kind {
		case CancelerThread:
			// Canceler, interrupter and watchdog of one execution are one sign.
			if tasks[t.Task] > expected[t.Task] && !surplusTasks[t.Task][t.AttemptID] {
				if surplusTasks[t.Task] == nil {
					surplusTasks[t.Task] = map[AttemptID]bool{}
				}
				surplusTasks[t.Task][t.AttemptID] = true
				n[CancelerThread]++
			}
		case LegacySourceThread, FetcherThread, KafkaFetcherThread:
			if !d.works(t, t.Task) {
				n[t.Kind]++
			}
		case TaskThread:
			if len(vertices[t.Task.Vertex]) > 0 {
				continue
			}
			names := helped(t.Task.Vertex, vertices)
			if len(names) > 0 && !slices.ContainsFunc(names, func(vertex string) bool { return d.works(t, t.Task.of(vertex)) }) {
				n[UserThread]++
			}
		}
	}
	return n
}

// works is whether the task of this name is there for which a thread works.
func (d *ThreadDump) works(t *Thread, name TaskName) bool {
	for i := range d.Threads {
		if task := &d.Threads[i]; task.Kind == TaskThread && task.Task == name && (task.ID < t.ID || t.ID == 0) {
			return true
		}
	}
	return false
}

// refuteByThreads drops executions that a reporter still shows although a fresh dump has no thread for them: series of a task whose end the
// reporter missed (FLINK-9665).
func (j *judgement) refuteByThreads() {
	type spot struct {
		taskManager, vertex string
		subtask, attempt    int
	}
	threads := map[spot]int{}
	fresh := map[string]bool{}
	for i := range j.s.Dumps {
		d := &j.s.Dumps[i]
		if d.Err != nil || !d.Fresh {
			continue
		}
		fresh[d.TaskManager] = true
		for _, t := range d.Threads {
			if t.Kind == TaskThread {
				threads[spot{d.TaskManager, Sanitize(t.Task.Vertex), t.Task.Subtask, t.Task.Attempt}]++
			}
		}
	}
	if len(fresh) == 0 {
		return
	}
	shown := map[spot]int{}
	counted := map[orphanKey]bool{} // a reporter may have been read at two addresses
	at := func(x *ReportedExecution, tm string) spot {
		return spot{tm, Sanitize(x.VertexName), x.Subtask, x.Attempt}
	}
	for i := range j.s.Reporters {
		rep := &j.s.Reporters[i]
		id := cmp.Or(j.ids[Sanitize(rep.TaskManager)], rep.TaskManager)
		for k := range rep.Executions {
			x := &rep.Executions[k]
			if key := reporterKey(rep.TaskManager, x); !counted[key] {
				counted[key] = true
				shown[at(x, id)]++
			}
		}
	}
	j.orphans = slices.DeleteFunc(j.orphans, func(o Orphan) bool {
		if o.View != ViewReporter || !fresh[o.TaskManager] {
			return false
		}
		k := spot{o.TaskManager, Sanitize(o.VertexName), o.Subtask, o.Attempt}
		if shown[k] <= threads[k] {
			return false
		}
		shown[k]--
		return true
	})
}
