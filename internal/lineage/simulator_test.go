package lineage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// The simulator is a model of a cluster over time. A script of events lays down when each execution's thread begins and ends and what the
// leader thinks of it; an exporter then samples that history once a second with the delays a real one suffers: a leader's view up to 3 s old,
// reporters and thread dumps read some milliseconds apart, a second look of suspicious TaskManagers only.

const (
	never = time.Duration(1 << 60)
	ms    = time.Millisecond
	// cacheTTL is web.refresh-interval.
	cacheTTL = 3 * time.Second
)

type simState struct {
	at    time.Duration
	state ExecutionState
}

// simExec is one execution's life.
type simExec struct {
	graph                 string
	vertex, subtask       int
	parallelism           int
	attempt               int
	tm                    string
	id                    AttemptID
	thread                int64
	states                []simState    // as the leader sees it
	deployed              time.Duration // when the leader chose its TaskManager
	gone                  time.Duration // when the leader's graph held it no more as a current execution
	begins, ends          time.Duration // its thread and its reporter's series
	canceling             time.Duration // since when a canceler is at work on it
	zombie, ofSpeculation bool
}

func (x *simExec) stateAt(t time.Duration) (ExecutionState, bool) {
	if len(x.states) == 0 || t < x.states[0].at || t >= x.gone {
		return "", false
	}
	s := x.states[0].state
	for _, c := range x.states {
		if c.at <= t {
			s = c.state
		}
	}
	return s, true
}

// simEra is a span in which a job is in one state, in one execution graph, under one leader.
type simEra struct {
	from, started time.Duration
	state         JobState
	graph         string // empty while the leader has none
}

type simJob struct {
	id, name string
	vertices []string
	eras     []simEra
	execs    []*simExec
}

func (j *simJob) eraAt(t time.Duration) *simEra {
	var e *simEra
	for i := range j.eras {
		if j.eras[i].from <= t {
			e = &j.eras[i]
		}
	}
	return e
}

func (j *simJob) set(t time.Duration, state JobState) {
	e := j.eras[len(j.eras)-1]
	e.from, e.state = t, state
	j.eras = append(j.eras, e)
}

func (j *simJob) last() *simEra { return &j.eras[len(j.eras)-1] }

type span struct{ from, to time.Duration }

func (s span) has(t time.Duration) bool { return t >= s.from && t < s.to }

func within(spans []span, t time.Duration) bool {
	return slices.ContainsFunc(spans, func(s span) bool { return s.has(t) })
}

type simTM struct {
	id         string
	registered []span
	answers    []span
}

// sim is the cluster's history and the exporter that samples it.
type sim struct {
	*rand.Rand
	jobs       []*simJob
	tms        []*simTM
	leaderless []span
	ids        int64
	graphs     int
	random     bool // attempt ids of Flink 1.15

	reportersOn, threadsOn bool
	mute                   map[string]bool // TaskManagers without a reporter
	dumpEvery              time.Duration

	memory  Memory
	cache   map[string]time.Duration // when each job's graph was cached
	dumps   map[string]ThreadDump
	dumpDue map[string]bool
}

func newSim(seed uint64) *sim {
	s := &sim{Rand: rand.New(rand.NewPCG(seed, 7)), mute: map[string]bool{}, cache: map[string]time.Duration{}}
	s.random = s.IntN(4) == 0
	switch s.IntN(4) {
	case 0:
		s.reportersOn = true
	case 1:
		s.threadsOn = true
	default:
		s.reportersOn, s.threadsOn = true, true
	}
	s.dumpEvery = []time.Duration{0, 5 * time.Second, time.Minute}[s.IntN(3)]
	s.forget()
	for i := range 2 + s.IntN(3) {
		s.addTM(fmt.Sprintf("tm-%d", i), 0)
	}
	return s
}

// forget is the exporter's restart.
func (s *sim) forget() {
	s.memory, s.dumps, s.dumpDue = Memory{}, map[string]ThreadDump{}, map[string]bool{}
}

func (s *sim) upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(s.Int64N(int64(d)))
}

func (s *sim) addTM(id string, t time.Duration) *simTM {
	tm := &simTM{id, []span{{t, never}}, []span{{t, never}}}
	s.tms = append(s.tms, tm)
	return tm
}

func (s *sim) tm(id string) *simTM {
	for _, tm := range s.tms {
		if tm.id == id || Sanitize(tm.id) == id {
			return tm
		}
	}
	return nil
}

// registeredAt are the TaskManagers to deploy to.
func (s *sim) registeredAt(t time.Duration) []string {
	var ids []string
	for _, tm := range s.tms {
		if within(tm.registered, t) && within(tm.answers, t) {
			ids = append(ids, tm.id)
		}
	}
	return ids
}

func (s *sim) newGraph() string {
	s.graphs++
	return hexID(0xa000 + s.graphs)
}

// submit starts a job; it runs from the returned time on.
func (s *sim) submit(t time.Duration, id, name string, parallelism int, vertices ...string) (*simJob, time.Duration) {
	j := &simJob{id: id, name: name, vertices: vertices}
	s.jobs = append(s.jobs, j)
	j.eras = []simEra{{from: t, started: t, state: JobInitializing}}
	t += s.upTo(300 * ms)
	j.eras = append(j.eras, simEra{t, j.eras[0].started, JobRunning, s.newGraph()})
	return j, s.deployAll(t, j, parallelism, func(int, int) int { return 0 }, nil)
}

// deployAll deploys every subtask in the job's graph and returns when the last is RUNNING.
func (s *sim) deployAll(t time.Duration, j *simJob, parallelism int, attempt func(vertex, subtask int) int, place func(vertex, subtask int) string) time.Duration {
	end := t
	for v := range j.vertices {
		for i := range parallelism {
			tm := ""
			if place != nil {
				tm = place(v, i)
			}
			x := s.deploy(t, j, v, i, parallelism, attempt(v, i), tm)
			end = max(end, x.states[len(x.states)-1].at)
		}
	}
	return end
}

func (s *sim) deploy(t time.Duration, j *simJob, vertex, subtask, parallelism, attempt int, tm string) *simExec {
	s.ids++
	x := &simExec{graph: j.last().graph, vertex: vertex, subtask: subtask, parallelism: parallelism, attempt: attempt, tm: tm, ends: never, gone: never, canceling: never}
	x.states = append(x.states, simState{t, Created})
	t += s.upTo(20 * ms)
	x.states = append(x.states, simState{t, Scheduled})
	t += s.upTo(300 * ms)
	if x.tm == "" {
		tms := s.registeredAt(t)
		x.tm = tms[s.IntN(len(tms))]
	}
	x.deployed = t
	x.states = append(x.states, simState{t, Deploying})
	x.begins = t + s.upTo(50*ms)
	x.thread = 100 + int64(x.begins/ms)*16 + s.ids%16
	t = x.begins + s.upTo(20*ms)
	x.states = append(x.states, simState{t, Initializing})
	t += s.upTo(400 * ms)
	x.states = append(x.states, simState{t, Running})
	if s.random {
		x.id = AttemptID(fmt.Sprintf("%016x%016x", s.Uint64(), s.Uint64()))
	} else {
		x.id = AttemptID(fmt.Sprintf("%s_%s_%d_%d", x.graph, simVertexID(j, vertex), subtask, attempt))
	}
	j.execs = append(j.execs, x)
	return x
}

func simVertexID(j *simJob, vertex int) string {
	return hexID(0x7000 + len(j.vertices[vertex])*16 + vertex)
}

// current are the executions in the leader's graph that still run at t.
func (j *simJob) current(t time.Duration) []*simExec {
	var xs []*simExec
	for _, x := range j.execs {
		if s, ok := x.stateAt(t); ok && x.graph == j.last().graph && x.ends > t && s != Finished && s != Canceled && s != Failed {
			xs = append(xs, x)
		}
	}
	return xs
}

// end ends an execution's thread; the leader hears of it up to 20 ms before.
func (s *sim) end(x *simExec, t time.Duration, state ExecutionState) time.Duration {
	x.ends = max(t, x.begins)
	heard := max(x.ends-s.upTo(20*ms), x.states[len(x.states)-1].at)
	x.states = append(x.states, simState{heard, state})
	x.ends = max(x.ends, heard)
	return heard
}

// cancel cancels executions as an ordinary restart does, and returns when the leader has heard of the last one's end.
func (s *sim) cancel(t time.Duration, xs []*simExec) time.Duration {
	end := t
	for _, x := range xs {
		at := max(t, x.states[len(x.states)-1].at)
		x.states = append(x.states, simState{at, Canceling})
		x.canceling = at + s.upTo(10*ms)
		end = max(end, s.end(x, at+s.upTo(400*ms), Canceled))
	}
	return end
}

// failover replaces the leader. Executions that the zombie function picks never end; every other ends within 300 ms of its successor's begin.
func (s *sim) failover(t time.Duration, j *simJob, zombie func(*simExec) bool, place func(vertex, subtask int) string) time.Duration {
	old := j.current(t)
	back := t + 500*ms + s.upTo(8*time.Second)
	s.leaderless = append(s.leaderless, span{t, back})
	parallelism := old[0].parallelism
	j.eras = append(j.eras, simEra{from: back, started: back, state: JobInitializing})
	begin := back + s.upTo(time.Second)
	j.eras = append(j.eras, simEra{begin, back, JobRunning, s.newGraph()})
	s.graphCut(old, t)
	n := len(j.execs)
	end := s.deployAll(begin, j, parallelism, func(int, int) int { return 0 }, place)
	for _, x := range old {
		x.canceling = back + s.upTo(200*ms)
		if zombie != nil && zombie(x) {
			x.zombie = true
			continue
		}
		for _, y := range j.execs[n:] {
			if y.vertex == x.vertex && y.subtask == x.subtask {
				switch s.IntN(3) {
				case 0: // well before
					x.ends = t + s.upTo(y.begins-t)
				case 1:
					x.ends = y.begins
				case 2:
					x.ends = y.begins + s.upTo(300*ms)
				}
				x.canceling = min(x.canceling, x.ends)
			}
		}
	}
	return end
}

// graphCut ends what the leader knows of executions.
func (s *sim) graphCut(xs []*simExec, t time.Duration) {
	for _, x := range xs {
		x.gone = t
	}
}

// attempts continues the attempt numbers of the job's subtasks.
func attempts(xs []*simExec) func(vertex, subtask int) int {
	next := map[[2]int]int{}
	for _, x := range xs {
		k := [2]int{x.vertex, x.subtask}
		next[k] = max(next[k], x.attempt+1)
	}
	return func(vertex, subtask int) int { return next[[2]int{vertex, subtask}] }
}

// restart is what follows a failed task: under full every execution is cancelled, under region the failed one only.
func (s *sim) restart(t time.Duration, j *simJob, full bool) time.Duration {
	xs := j.current(t)
	failed := xs[s.IntN(len(xs))]
	next := attempts(xs)
	j.set(t, JobRestarting)
	end := s.end(failed, t+s.upTo(20*ms), Failed)
	again := []*simExec{failed}
	if full {
		rest := slices.DeleteFunc(slices.Clone(xs), func(x *simExec) bool { return x == failed })
		end = max(end, s.cancel(t, rest))
		again = xs
	}
	begin := end + s.upTo(time.Second)
	s.graphCut(again, begin)
	running := begin
	for _, x := range again {
		y := s.deploy(begin, j, x.vertex, x.subtask, x.parallelism, next(x.vertex, x.subtask), "")
		running = max(running, y.states[len(y.states)-1].at)
	}
	j.set(begin, JobRunning)
	return running
}

// rescale is the adaptive scheduler's: a new graph with other parallelism, attempt numbers go on.
func (s *sim) rescale(t time.Duration, j *simJob, parallelism int) time.Duration {
	xs := j.current(t)
	j.set(t, JobRestarting)
	end := s.cancel(t, xs) + s.upTo(200*ms)
	s.graphCut(xs, end)
	next := attempts(j.execs)
	e := *j.last()
	e.from, e.state, e.graph = end, JobRunning, s.newGraph()
	j.eras = append(j.eras, e)
	return s.deployAll(end, j, parallelism, next, nil)
}

// resubmit cancels a job and submits it anew under another id.
func (s *sim) resubmit(t time.Duration, j *simJob) (*simJob, time.Duration) {
	xs := j.current(t)
	j.set(t, JobCancelling)
	end := s.cancel(t, xs)
	j.set(end, JobCanceled)
	return s.submit(end+s.upTo(200*ms), hexID(0x900+len(s.jobs)), j.name, xs[0].parallelism, j.vertices...)
}

// speculate starts a second attempt of a subtask beside the first; later one of the two finishes and the other is cancelled.
func (s *sim) speculate(t time.Duration, j *simJob) time.Duration {
	xs := j.current(t)
	x := xs[s.IntN(len(xs))]
	tms := slices.DeleteFunc(s.registeredAt(t), func(id string) bool { return id == x.tm })
	if len(tms) == 0 {
		return t
	}
	y := s.deploy(t, j, x.vertex, x.subtask, x.parallelism, x.attempt+1, tms[s.IntN(len(tms))])
	y.ofSpeculation = true
	done := y.states[len(y.states)-1].at + s.upTo(6*time.Second)
	winner, loser := x, y
	if s.IntN(2) == 0 {
		winner, loser = y, x
	}
	s.end(winner, done, Finished)
	s.cancel(done, []*simExec{loser})
	// What has ended beside another attempt is no current execution any more.
	loser.gone = loser.states[len(loser.states)-1].at
	return max(done, loser.ends)
}

// lose kills a TaskManager and starts another in its stead; the leader notices later.
func (s *sim) lose(t time.Duration, id string) time.Duration {
	tm := s.tm(id)
	tm.answers[len(tm.answers)-1].to = t
	for _, job := range s.jobs {
		for _, x := range job.execs {
			if x.tm == id && x.ends > t {
				x.ends = max(t, x.begins)
				if x.begins > t {
					x.ends = x.begins
				}
			}
		}
	}
	noticed := t + s.upTo(5*time.Second)
	if last := &tm.registered[len(tm.registered)-1]; last.to == never {
		last.to = noticed
	}
	s.addTM(fmt.Sprintf("%s-%d", id, len(s.tms)), t+s.upTo(6*time.Second))
	running := noticed
	for _, job := range s.jobs {
		if !job.last().state.Ended() {
			running = max(running, s.redeployWithout(noticed, job, id))
		}
	}
	return running
}

// redeployWithout restarts a job whose executions on one TaskManager the leader gives up.
func (s *sim) redeployWithout(t time.Duration, j *simJob, id string) time.Duration {
	var xs, lost, rest []*simExec
	for _, x := range j.execs {
		if st, ok := x.stateAt(t); ok && x.graph == j.last().graph && st != Finished && st != Canceled && st != Failed {
			xs = append(xs, x)
			if x.tm == id {
				lost = append(lost, x)
			} else {
				rest = append(rest, x)
			}
		}
	}
	if len(lost) == 0 {
		return t
	}
	next := attempts(xs)
	j.set(t, JobRestarting)
	for _, x := range lost {
		x.states = append(x.states, simState{max(t, x.states[len(x.states)-1].at), Failed})
	}
	end := s.cancel(t, rest)
	begin := end + s.upTo(time.Second)
	for len(s.registeredAt(begin)) == 0 {
		begin += time.Second
	}
	s.graphCut(xs, begin)
	running := begin
	for _, x := range xs {
		tms := slices.DeleteFunc(s.registeredAt(begin), func(other string) bool { return other == id })
		y := s.deploy(begin, j, x.vertex, x.subtask, x.parallelism, next(x.vertex, x.subtask), tms[s.IntN(len(tms))])
		running = max(running, y.states[len(y.states)-1].at)
	}
	j.set(begin, JobRunning)
	return running
}

// finish lets a job end.
func (s *sim) finish(t time.Duration, j *simJob) time.Duration {
	end := t
	for _, x := range j.current(t) {
		end = max(end, s.end(x, t+s.upTo(2*time.Second), Finished))
	}
	j.set(end, JobFinished)
	return end
}

// leaderView is /jobs/overview and /taskmanagers at t, with the details of each job's graph as cached.
func (s *sim) leaderView(t time.Duration) *LeaderView {
	if within(s.leaderless, t) {
		return nil
	}
	v := &LeaderView{TaskManagers: []TaskManager{}}
	for _, tm := range s.tms {
		if within(tm.registered, t) {
			v.TaskManagers = append(v.TaskManagers, TaskManager{ID: tm.id})
		}
	}
	t += s.upTo(30 * ms)
	for _, j := range s.jobs {
		era := j.eraAt(t)
		if era == nil {
			continue
		}
		job := Job{ID: j.id, Name: j.name, State: era.state, StartTime: start.Add(era.started), Tasks: map[ExecutionState]int{}}
		// The overview counts one execution of each subtask, also when two run side by side.
		for _, x := range j.execs {
			if st, ok := x.stateAt(t); ok && x.graph == era.graph && !x.ofSpeculation {
				job.Tasks[st]++
			}
		}
		if !job.State.Ended() {
			at, ok := s.cache[j.id]
			if read := t + s.upTo(50*ms); !ok || read-at > cacheTTL {
				at = read
				s.cache[j.id] = at
			}
			if era := j.eraAt(at); era != nil && start.Add(era.started).Equal(job.StartTime) {
				job.Detailed = true
				if era.graph != "" {
					job.Vertices = j.detail(era.graph, at)
				}
			}
		}
		v.Jobs = append(v.Jobs, job)
	}
	return v
}

func (j *simJob) detail(graph string, at time.Duration) []Vertex {
	vs := make([]Vertex, len(j.vertices))
	for i, name := range j.vertices {
		vs[i] = Vertex{ID: simVertexID(j, i), Name: name}
	}
	for _, x := range j.execs {
		st, ok := x.stateAt(at)
		if !ok || x.graph != graph {
			continue
		}
		e := Execution{Subtask: x.subtask, Attempt: x.attempt, State: st}
		if at >= x.deployed {
			e.TaskManager = x.tm
		}
		vs[x.vertex].Parallelism = x.parallelism
		vs[x.vertex].Executions = append(vs[x.vertex].Executions, e)
	}
	return vs
}

var errSilent = errors.New("no answer")

func (s *sim) reading(tm *simTM, t time.Duration) (Reporter, bool) {
	r := Reporter{URL: "http://" + tm.id, TaskManager: Sanitize(tm.id)}
	if s.mute[tm.id] || !within(tm.answers, t) {
		r.TaskManager, r.Err = "", errSilent
		return r, len(tm.answers) > 0 && t >= tm.answers[0].from
	}
	for _, j := range s.jobs {
		for _, x := range j.execs {
			// Series appear and vanish a few milliseconds late.
			if x.tm == tm.id && t >= x.begins+s.upTo(10*ms) && t < x.ends+s.upTo(10*ms) {
				r.Executions = append(r.Executions, ReportedExecution{
					JobID: j.id, JobName: Sanitize(j.name), VertexID: simVertexID(j, x.vertex), VertexName: Sanitize(j.vertices[x.vertex]),
					Subtask: x.subtask, Attempt: x.attempt, AttemptID: x.id,
				})
			}
		}
	}
	return r, true
}

func (s *sim) dump(id string, t time.Duration) ThreadDump {
	d := ThreadDump{TaskManager: id, Time: start.Add(t), Fresh: true}
	if tm := s.tm(id); !within(tm.answers, t) {
		d.Err = errSilent
		return d
	}
	for _, j := range s.jobs {
		for _, x := range j.execs {
			if x.tm != id || t < x.begins || t >= x.ends {
				continue
			}
			name := TaskName{j.vertices[x.vertex], x.subtask, x.parallelism, x.attempt}
			d.Threads = append(d.Threads, Thread{Kind: TaskThread, ID: x.thread, Task: name})
			if t >= x.canceling {
				d.Threads = append(d.Threads, Thread{Kind: CancelerThread, ID: x.thread + 1, Task: name, AttemptID: x.id})
			}
		}
	}
	return d
}

// scrape takes one scrape that begins at t, as the exporter does, and returns its report and when it ended.
func (s *sim) scrape(t time.Duration) (*Report, time.Duration) {
	first := &Snapshot{Time: start.Add(t), ReportersOn: s.reportersOn, ThreadsOn: s.threadsOn}
	first.Leader = s.leaderView(t + s.upTo(50*ms))
	if s.reportersOn {
		for _, tm := range s.tms {
			if r, ok := s.reading(tm, t+s.upTo(200*ms)); ok {
				first.Reporters = append(first.Reporters, r)
			}
		}
	}
	if first.Leader != nil && s.threadsOn {
		changed := s.memory.StartTimeChanged(first.Leader)
		for _, tm := range first.Leader.TaskManagers {
			last, ok := s.dumps[tm.ID]
			if ok && !changed && !s.dumpDue[tm.ID] && first.Time.Sub(last.Time) < s.dumpEvery {
				last.Fresh = false
				first.Dumps = append(first.Dumps, last)
				continue
			}
			first.Dumps = append(first.Dumps, s.takeDump(tm.ID, t+s.upTo(300*ms)))
		}
	}
	r := Judge(first, &s.memory, Rules{})
	end := t + 300*ms
	if ids := r.Suspicious(); len(ids) > 0 {
		again := end + Settle
		second := *first
		second.Time = start.Add(again)
		if s.reportersOn {
			second.Reporters = slices.DeleteFunc(slices.Clone(first.Reporters), func(x Reporter) bool {
				id := x.URL[len("http://"):]
				return slices.Contains(ids, id) || slices.Contains(ids, Sanitize(id))
			})
			for _, id := range ids {
				if reading, ok := s.reading(s.tm(id), again+s.upTo(50*ms)); ok {
					second.Reporters = append(second.Reporters, reading)
				}
			}
		}
		if s.threadsOn {
			second.Dumps = nil
			for _, d := range first.Dumps {
				if slices.Contains(ids, d.TaskManager) {
					d = s.takeDump(d.TaskManager, again+s.upTo(50*ms))
				}
				second.Dumps = append(second.Dumps, d)
			}
		}
		if second.Leader = s.leaderView(again + 100*ms + s.upTo(50*ms)); second.Leader != nil {
			r = Confirm(&second, &s.memory, Rules{}, r)
		}
		end = again + 200*ms
	}
	s.memory.Remember(r)
	known := map[string]bool{}
	for _, tm := range r.TaskManagers {
		known[tm.ID] = true
		s.dumpDue[tm.ID] = !tm.Settled
	}
	for id := range s.dumps {
		if !known[id] {
			delete(s.dumps, id)
		}
	}
	return r, end
}

func (s *sim) takeDump(id string, t time.Duration) ThreadDump {
	d := s.dump(id, t)
	if d.Err != nil {
		delete(s.dumps, id)
	} else {
		s.dumps[id] = d
	}
	return d
}
