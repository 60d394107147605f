package lineage

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Rules are the operator's settings that bear on a judgement.
type Rules struct {
	// AllowSameName tells whether jobs of this name may run more than once at a time; nil allows none.
	AllowSameName func(jobName string) bool
}

// Judge compares what should run with what is seen. An orphan counts only once it has been seen for Settle; with one that has not, the job's
// verdict is unknown and Report.Suspicious tells to look again.
func Judge(s *Snapshot, m *Memory, rules Rules) *Report {
	return judge(s, m, rules, nil)
}

// Confirm judges a second look, taken Settle after the first: what both looks saw counts.
func Confirm(second *Snapshot, m *Memory, rules Rules, first *Report) *Report {
	seen := map[orphanKey]bool{}
	for i := range first.Orphans {
		seen[first.Orphans[i].key] = true
	}
	for i := range first.Readers {
		if first.Readers[i].Duplicates > 0 {
			seen[first.Readers[i].key] = true
		}
	}
	return judge(second, m, rules, seen)
}

// Suspicious returns the TaskManagers on which the report saw something that a second look has to confirm, sorted.
func (r *Report) Suspicious() []string {
	ids := map[string]bool{}
	for i := range r.Orphans {
		if !r.Orphans[i].Confirmed {
			ids[r.Orphans[i].TaskManager] = true
		}
	}
	for i := range r.Readers {
		if r.Readers[i].Duplicates > 0 && !r.Readers[i].Confirmed {
			ids[r.Readers[i].TaskManager] = true
		}
	}
	return slices.Sorted(maps.Keys(ids))
}

// judgement is a Report in the making.
type judgement struct {
	s     *Snapshot
	m     *Memory
	rules Rules
	first map[orphanKey]bool

	expected map[string]*expectation // by job id, for the jobs whose expectation is known
	jobs     map[string]*jobJudgement
	tms      map[string]*TaskManagerReport
	ids      map[string]string // sanitised TaskManager id to the id in REST

	seen  map[sighting]bool
	fresh map[string]bool // TaskManagers of which there is a fresh thread dump

	readBy    map[View]map[string]bool // TaskManagers each view could read
	unsettled map[string]bool          // TaskManagers to be looked at again soon
	beam      map[vertexKey]bool       // vertices that are Beam KafkaIO sources
	named     map[string][]namedVertex // vertices by name, as vertices() finds them
	reading   []source                 // executions of sources, as sources() finds them
	orphans   []Orphan
	found     []Readers
}

// jobJudgement is what is gathered of one job before the verdict.
type jobJudgement struct {
	ref    JobRef
	leader *Job
	graphs map[string]bool
	// behind is the subtasks of which an execution was seen that the leader may have deployed since its view was made.
	behind map[View]map[subtaskKey]int
	// observed counts executions seen by subtask, whatever they are, for each view.
	observed map[View]map[subtaskKey]int
	// threads is the sum of what the threads view observed, successors the youngest of it.
	threads    int
	successors newest
	// candidates is whether threads that should not be there could be this job's, or another's.
	candidates bool
	// untold is whether more readers than source executions were found, and it cannot be told how many there should be.
	untold bool
}

func judge(s *Snapshot, m *Memory, rules Rules, first map[orphanKey]bool) *Report {
	s = unique(s)
	j := &judgement{
		s: s, m: m, rules: rules, first: first,
		expected: map[string]*expectation{},
		jobs:     map[string]*jobJudgement{},
		tms:      map[string]*TaskManagerReport{},
		ids:      map[string]string{},
		readBy:   map[View]map[string]bool{},
		seen:     map[sighting]bool{},
		fresh:    map[string]bool{},

		unsettled: map[string]bool{},
	}
	j.leader()
	j.reporters()
	j.threads()
	j.refuteByThreads()
	j.confirm()
	j.readers()
	return j.report()
}

// leader takes over what should run.
func (j *judgement) leader() {
	for id := range j.m.taskManagers {
		j.ids[Sanitize(id)] = id
	}
	v := j.s.Leader
	if v == nil {
		for id, known := range j.m.jobs {
			if !known.ended {
				j.job(JobRef{id, known.name})
			}
		}
		return
	}
	for i := range v.TaskManagers {
		tm := &v.TaskManagers[i]
		j.ids[Sanitize(tm.ID)] = tm.ID
		r := j.taskManager(tm.ID)
		r.Registered, r.Leader = true, tm
	}
	for i := range v.Jobs {
		// The ids of TaskManagers, even if /taskmanagers could not be read.
		v.Jobs[i].eachExecution(func(_ *Vertex, x *Execution) {
			if x.TaskManager != "" {
				j.ids[Sanitize(x.TaskManager)] = x.TaskManager
			}
		})
	}
	for i := range v.Jobs {
		job := &v.Jobs[i]
		ref := JobRef{job.ID, job.Name}
		j.job(ref).leader = job
		if !job.Expected() {
			continue
		}
		e := expect(job)
		j.expected[job.ID] = e
		for p, n := range e.places {
			if p.taskManager != "" {
				j.taskManager(p.taskManager).count(ViewJobManager, ref, n)
			}
		}
	}
	// A TaskManager without executions is seen to have none, provided the leader's view is whole.
	for _, tm := range j.tms {
		if tm.Registered && j.allExpected() {
			tm.count(ViewJobManager, JobRef{}, 0)
		}
	}
}

// allExpected is whether it is known of every job what should run.
func (j *judgement) allExpected() bool {
	return j.s.Leader != nil && len(j.expected) == len(j.s.Leader.Jobs)
}

func (j *judgement) job(ref JobRef) *jobJudgement {
	job := j.jobs[ref.ID]
	if job == nil {
		job = &jobJudgement{
			ref: ref, graphs: map[string]bool{},
			behind: map[View]map[subtaskKey]int{ViewReporter: {}, ViewThreads: {}}, observed: map[View]map[subtaskKey]int{},
			successors: newest{},
		}
		j.jobs[ref.ID] = job
	}
	return job
}

func (j *judgement) taskManager(id string) *TaskManagerReport {
	tm := j.tms[id]
	if tm == nil {
		tm = &TaskManagerReport{ID: id, Executions: map[View]map[JobRef]int{}, UnaccountedSlots: -1}
		j.tms[id] = tm
	}
	return tm
}

// count adds n executions; a view that looked and saw none counts zero of no job.
func (tm *TaskManagerReport) count(v View, job JobRef, n int) {
	if tm.Executions[v] == nil {
		tm.Executions[v] = map[JobRef]int{}
	}
	if n > 0 || job.ID != "" {
		tm.Executions[v][job] += n
	}
}

func (j *judgement) read(v View, taskManager string) {
	if j.readBy[v] == nil {
		j.readBy[v] = map[string]bool{}
	}
	j.readBy[v][taskManager] = true
}

// confirm marks the orphans that have been seen for long enough.
func (j *judgement) confirm() {
	for i := range j.orphans {
		j.orphans[i].Confirmed = j.confirmed(j.orphans[i].key)
	}
}

// confirmed is whether what the key stands for was seen in a first look, or long enough ago and in every scrape since.
func (j *judgement) confirmed(k orphanKey) bool {
	since, remembered := j.m.suspects[k]
	return j.first[k] || remembered && j.s.Time.Sub(since) >= settle
}

func (j *judgement) report() *Report {
	r := &Report{Snapshot: j.s, Orphans: j.orphans, Readers: j.found, Coverage: map[View]Coverage{}, Disagreement: disagreement(j.s.JobManagers)}
	slices.SortFunc(r.Orphans, compareOrphans)
	for _, o := range r.Orphans {
		if o.Job.ID != "" {
			j.job(o.Job)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(j.jobs)) {
		r.Jobs = append(r.Jobs, j.verdict(j.jobs[id]))
	}
	if j.s.Leader != nil {
		j.unaccountedSlots()
		r.SurplusJobs = surplusJobs(j.s.Leader.Jobs, j.rules)
	}
	j.settled()
	for _, id := range slices.Sorted(maps.Keys(j.tms)) {
		r.TaskManagers = append(r.TaskManagers, *j.tms[id])
	}
	if j.s.Leader != nil && j.s.Leader.TaskManagers != nil {
		for v, on := range map[View]bool{ViewReporter: j.s.ReportersOn, ViewThreads: j.s.ThreadsOn} {
			if on {
				r.Coverage[v] = j.coverage(v)
			}
		}
	}
	return r
}

// settled marks the TaskManagers on which nothing was out of order; none is while some job's view is not up to date.
func (j *judgement) settled() {
	whole := j.allExpected()
	for _, job := range j.jobs {
		whole = whole && len(job.behind[ViewReporter])+len(job.behind[ViewThreads]) == 0
	}
	for _, tm := range j.tms {
		tm.Settled = whole && tm.OrphanThreads[CancelerThread] == 0
	}
	for i := range j.orphans {
		j.taskManager(j.orphans[i].TaskManager).Settled = false
	}
	for i := range j.found {
		if j.found[i].Duplicates > 0 {
			j.unsettled[j.found[i].TaskManager] = true
		}
	}
	for id := range j.unsettled {
		j.taskManager(id).Settled = false
	}
}

func (j *judgement) coverage(v View) Coverage {
	c := Coverage{Known: len(j.tms)}
	for id := range j.tms {
		if j.readBy[v][id] {
			c.Read++
		}
	}
	return c
}

func compareOrphans(a, b Orphan) int {
	return cmp.Or(
		cmp.Compare(a.View, b.View), cmp.Compare(a.Job.ID, b.Job.ID), cmp.Compare(a.VertexName, b.VertexName),
		cmp.Compare(a.VertexID, b.VertexID), cmp.Compare(a.Subtask, b.Subtask), cmp.Compare(a.TaskManager, b.TaskManager),
		cmp.Compare(a.key.execution, b.key.execution),
	)
}

// verdict judges one job.
func (j *judgement) verdict(job *jobJudgement) JobReport {
	r := JobReport{
		ID: job.ref.ID, Name: job.ref.Name, Leader: job.leader,
		DuplicateSubtasks: map[View]int{}, ExecutionGraphs: len(job.graphs),
	}
	j.history(&r)
	if job.leader != nil {
		r.StateSince = j.stateSince(job.leader)
	}
	expected := j.expected[job.ref.ID]
	if j.s.Leader == nil {
		r.Verdict, r.Why = VerdictUnknown, "no JobManager gave a leader's view"
		return r
	}
	if job.leader != nil && expected == nil {
		r.Verdict, r.Why = VerdictUnknown, "the leader does not tell which executions of the job should run"
		return r
	}
	unconfirmed := map[View]int{}
	confirmed := 0
	restart := map[string]Reason{}
	for i := range j.orphans {
		o := &j.orphans[i]
		switch {
		case o.Job.ID != job.ref.ID:
		case !o.Confirmed:
			unconfirmed[o.View]++
		default:
			confirmed++
			if known, ok := restart[o.TaskManager]; !ok || reasonRank(o.Reason) < reasonRank(known) {
				restart[o.TaskManager] = o.Reason
			}
		}
	}
	for _, v := range []View{ViewReporter, ViewThreads} {
		n := j.duplicates(job, expected, v)
		if n > 0 || unconfirmed[v] == 0 && j.complete(v) && !job.contested(v) && !(v == ViewThreads && job.candidates) {
			r.DuplicateSubtasks[v] = n
		}
	}
	duplicates := j.duplicates(job, expected, ViewReporter, ViewThreads)
	readers, rereading := j.duplicateReaders(job.ref.ID)
	r.DuplicateReaders = readers
	for id := range rereading {
		if _, ok := restart[id]; !ok {
			restart[id] = DuplicateReader
		}
	}
	for _, id := range slices.Sorted(maps.Keys(restart)) {
		r.Restart = append(r.Restart, Restart{id, restart[id]})
	}
	r.Starved = confirmed > 0 && job.leader != nil && job.leader.Tasks[Scheduled] > 0
	blind := j.unread()
	switch {
	case duplicates > 0 || readers > 0:
		r.Verdict = VerdictDuplicate
		r.Why = fmt.Sprintf("%d subtasks run twice, %d source readers read a split that another reads", duplicates, readers)
		if r.DuplicateSince.IsZero() {
			r.DuplicateSince = j.s.Time
		}
		return r
	case len(unconfirmed) > 0:
		r.Verdict, r.Why = VerdictUnknown, "executions that should not be there were seen once and not yet a second time"
	case j.unconfirmedReaders(job.ref.ID):
		r.Verdict, r.Why = VerdictUnknown, "more source readers than splits were seen once and not yet a second time"
	case job.contested(ViewReporter) || job.contested(ViewThreads):
		r.Verdict, r.Why = VerdictUnknown, "a subtask was seen twice, but the leader's view of the job is not up to date"
	case confirmed > 0:
		r.Verdict = VerdictOrphan
		r.Why = "executions that should not be there go on, but no second one of their subtasks processes records"
	case job.candidates && !j.complete(ViewReporter):
		r.Verdict, r.Why = VerdictUnknown, "a thread too many could be of this job or of another with vertices of the same name"
	case job.untold:
		r.Verdict, r.Why = VerdictUnknown, "there are more source readers than splits known, and how many splits there are is not known yet"
	case blind != "":
		r.Verdict, r.Why = VerdictUnknown, blind
	default:
		r.Verdict, r.Why = VerdictOK, "every execution seen is one the leader expects"
	}
	if r.Verdict != VerdictUnknown {
		r.DuplicateSince = time.Time{}
	}
	return r
}

// contested is whether a subtask of which a newer execution seems to run was seen by a view to run a second time.
func (job *jobJudgement) contested(v View) bool {
	for k := range job.behind[v] {
		if job.observed[v][k] > 1 {
			return true
		}
	}
	return false
}

// duplicates counts the subtasks that run twice as the given views see it together. An orphan that two views see counts once.
func (j *judgement) duplicates(job *jobJudgement, expected *expectation, views ...View) int {
	type spot struct {
		subtaskKey
		taskManager string
	}
	spots := map[spot]map[View]int{}
	for i := range j.orphans {
		o := &j.orphans[i]
		if o.Job.ID != job.ref.ID || !o.Confirmed || !slices.Contains(views, o.View) {
			continue
		}
		k := spot{subtaskKey{cmp.Or(o.VertexID, o.VertexName), o.Subtask}, o.TaskManager}
		if spots[k] == nil {
			spots[k] = map[View]int{}
		}
		spots[k][o.View]++
	}
	orphans := map[subtaskKey]int{}
	for k, byView := range spots {
		orphans[k.subtaskKey] += slices.Max(slices.Collect(maps.Values(byView)))
	}
	// Of an execution newer than the leader's view, seen beside an orphan, it is known that it processes if every task does by the leader's count.
	succeeded := map[subtaskKey]bool{}
	if job.leader != nil && job.leader.Tasks[Running] > 0 && job.leader.Tasks[Deploying]+job.leader.Tasks[Initializing] == 0 {
		for k, byView := range spots {
			for v := range byView {
				succeeded[k.subtaskKey] = succeeded[k.subtaskKey] || job.behind[v][k.subtaskKey] > 0
			}
		}
	}
	n := 0
	absent := func(p place) bool { return j.absent(expected, p) }
	for k, count := range orphans {
		if succeeded[k] || expected != nil && expected.processes(k, absent) {
			count++
		}
		if count > 1 {
			n++
		}
	}
	return n
}

// sighting is an expected execution that a view saw: by vertex id in the reporter's, by vertex name in that of threads.
type sighting struct {
	view                     View
	taskManager, job, vertex string
	subtask, attempt         int
}

// absent is whether an expected execution was not seen although its TaskManager was looked at, or although by the leader's count of tasks,
// which is not cached, fewer process records than its view has. The view can be so late that what it expects has ended.
func (j *judgement) absent(e *expectation, p place) bool {
	reported := j.seen[sighting{ViewReporter, p.taskManager, e.job.ID, p.vertex, p.subtask, p.attempt}]
	thread := j.seen[sighting{ViewThreads, p.taskManager, "", e.job.vertexName(p.vertex), p.subtask, p.attempt}]
	if reported || thread {
		return false
	}
	return j.readBy[ViewReporter][p.taskManager] || j.fresh[p.taskManager] ||
		e.job.Tasks[Running]+e.job.Tasks[Canceling] < len(e.processing)
}

// complete is whether a view is turned on and could read every TaskManager that is known.
func (j *judgement) complete(v View) bool {
	on := v == ViewReporter && j.s.ReportersOn || v == ViewThreads && j.s.ThreadsOn
	if !on || j.s.Leader == nil || j.s.Leader.TaskManagers == nil {
		return false
	}
	for id := range j.tms {
		if !j.readBy[v][id] {
			return false
		}
	}
	return true
}

// unread says which TaskManager no view could read; empty if each was read by one at least.
func (j *judgement) unread() string {
	if j.s.Leader.TaskManagers == nil {
		return "the leader does not tell which TaskManagers are registered"
	}
	if !j.s.ReportersOn && !j.s.ThreadsOn {
		return "no view of the TaskManagers is turned on"
	}
	for _, id := range slices.Sorted(maps.Keys(j.tms)) {
		if !j.readBy[ViewReporter][id] && !j.readBy[ViewThreads][id] {
			return "no view could read TaskManager " + id
		}
	}
	return ""
}

// history continues what is remembered of a job.
func (j *judgement) history(r *JobReport) {
	known := j.m.jobs[r.ID]
	if known == nil {
		return
	}
	r.Failovers, r.RestoredAfterEnd, r.DuplicateSince = known.failovers, known.restoredAfterEnd, known.duplicateSince
	// While two JobManagers tell different stories the older start time may be seen once more: only a later one is a failover.
	if r.Leader == nil || known.startTime.IsZero() || !r.Leader.StartTime.After(known.startTime) {
		return
	}
	if known.ended {
		r.RestoredAfterEnd++
	} else {
		r.Failovers++
	}
}

func (j *judgement) stateSince(job *Job) map[ExecutionState]time.Time {
	since := map[ExecutionState]time.Time{}
	known := j.m.jobs[job.ID]
	job.eachExecution(func(v *Vertex, e *Execution) {
		if !slices.Contains(TransitionalStates, e.State) {
			return
		}
		t := e.StateSince
		if t.IsZero() {
			t = j.s.Time
			if known != nil {
				t = firstOf(known.stateAges, executionState{v.ID, e.Subtask, e.Attempt, e.State}, t)
			}
		}
		if old, ok := since[e.State]; !ok || t.Before(old) {
			since[e.State] = t
		}
	})
	return since
}

func reasonRank(r Reason) int {
	return slices.Index([]Reason{
		TaskManagerUnregistered, JobUnknown, JobEnded, StaleExecutionGraph, StaleAttempt, WrongTaskManager, SurplusThread, DuplicateReader,
	}, r)
}
