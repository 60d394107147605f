package lineage

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

// chooser makes a snapshot of choices; choose returns a number below n.
type chooser struct{ choose func(n int) int }

func (c chooser) oneIn(n int) bool { return c.choose(n) == n-1 }

func randomChooser(seed uint64) chooser {
	r := rand.New(rand.NewPCG(seed, 11))
	return chooser{r.IntN}
}

var propertyNames = []string{"a", "b (1/2)#0", "a"}

// snapshot is a small cluster in which anything may be seen anywhere.
func (c chooser) snapshot(at time.Duration) *Snapshot {
	s := &Snapshot{Time: start.Add(at), ReportersOn: !c.oneIn(6), ThreadsOn: !c.oneIn(6)}
	tms := 1 + c.choose(3)
	name := func(i int) string { return fmt.Sprintf("tm-%d", i) }
	jobs := 1 + c.choose(2)
	if !c.oneIn(10) {
		s.Leader = &LeaderView{TaskManagers: []TaskManager{}}
		for i := range tms {
			if !c.oneIn(6) {
				s.Leader.TaskManagers = append(s.Leader.TaskManagers, TaskManager{ID: name(i), SlotsTotal: 4, SlotsFree: c.choose(5)})
			}
		}
		if c.oneIn(12) {
			s.Leader.TaskManagers = nil
		}
		for i := range jobs {
			if c.oneIn(8) {
				continue
			}
			s.Leader.Jobs = append(s.Leader.Jobs, c.job(i, tms))
		}
	}
	for i := range tms {
		if s.ReportersOn && !c.oneIn(8) {
			rep := Reporter{URL: name(i), TaskManager: Sanitize(name(i))}
			for range c.choose(5) {
				rep.Executions = append(rep.Executions, c.reported(jobs))
			}
			if c.oneIn(8) {
				rep.Unidentified = 1
			}
			if c.oneIn(10) {
				rep = Reporter{URL: name(i), Err: errSilent}
			}
			s.Reporters = append(s.Reporters, rep)
		}
		// A dump is taken through the leader, of a TaskManager that is registered there.
		registered := s.Leader != nil && slices.ContainsFunc(s.Leader.TaskManagers, func(tm TaskManager) bool { return tm.ID == name(i) })
		if s.ThreadsOn && registered && !c.oneIn(8) {
			d := ThreadDump{TaskManager: name(i), Time: s.Time, Fresh: !c.oneIn(5)}
			for k := range c.choose(5) {
				kind := []ThreadKind{TaskThread, TaskThread, TaskThread, CancelerThread, LegacySourceThread, FetcherThread}[c.choose(6)]
				p := 1 + c.choose(2)
				d.Threads = append(d.Threads, Thread{Kind: kind, ID: int64(10 + k), Task: TaskName{propertyNames[c.choose(3)], c.choose(p), p, c.choose(2)}})
			}
			if c.oneIn(10) {
				d = ThreadDump{TaskManager: name(i), Err: errSilent}
			}
			s.Dumps = append(s.Dumps, d)
		}
	}
	return s
}

func (c chooser) job(i, tms int) Job {
	states := []JobState{JobRunning, JobRunning, JobRunning, JobRestarting, JobInitializing, JobCanceled}
	j := Job{ID: hexID(1 + i), Name: []string{"x", "y"}[c.choose(2)], State: states[c.choose(len(states))], StartTime: start,
		Detailed: !c.oneIn(8), Tasks: map[ExecutionState]int{}}
	for v := range c.choose(3) {
		vertex := Vertex{ID: hexID(0x50 + v), Name: propertyNames[v], Parallelism: 1 + c.choose(2)}
		for subtask := range vertex.Parallelism {
			for range 1 + c.choose(5)/4 {
				x := Execution{Subtask: subtask, Attempt: c.choose(2), State: ExecutionStates[c.choose(len(ExecutionStates))]}
				if c.choose(2) == 0 {
					x.State = Running
				}
				if x.State != Created && x.State != Scheduled {
					x.TaskManager = fmt.Sprintf("tm-%d", c.choose(tms))
				}
				vertex.Executions = append(vertex.Executions, x)
			}
			j.Tasks[vertex.Executions[len(vertex.Executions)-1].State]++
		}
		j.Vertices = append(j.Vertices, vertex)
	}
	return j
}

func (c chooser) reported(jobs int) ReportedExecution {
	v := c.choose(2)
	x := ReportedExecution{JobID: hexID(1 + c.choose(jobs)), JobName: "x", VertexID: hexID(0x50 + v), VertexName: Sanitize(propertyNames[v]),
		Subtask: c.choose(2), Attempt: c.choose(2)}
	if c.oneIn(4) {
		x.AttemptID = AttemptID(hexID(0x9000 + v<<8 + x.Subtask<<6 + x.Attempt<<4 + c.choose(3)))
	} else {
		x.AttemptID = AttemptID(fmt.Sprintf("%s_%s_%d_%d", hexID(0xa+c.choose(2)), x.VertexID, x.Subtask, x.Attempt))
	}
	return x
}

// invariants are what holds of every report, whatever was seen.
func invariants(t testing.TB, r *Report) {
	t.Helper()
	tms := map[string]bool{}
	for i := range r.TaskManagers {
		tms[r.TaskManagers[i].ID] = true
	}
	if len(tms) != len(r.TaskManagers) {
		t.Errorf("a TaskManager is reported twice")
	}
	confirmed, unconfirmed := map[string]map[string]bool{}, map[string]bool{}
	for i := range r.Orphans {
		o := &r.Orphans[i]
		if !tms[o.TaskManager] {
			t.Errorf("an orphan on %q, which is not reported", o.TaskManager)
		}
		if o.Reason == "" || reasonRank(o.Reason) < 0 {
			t.Errorf("reason %q", o.Reason)
		}
		if !o.Confirmed {
			unconfirmed[o.Job.ID] = true
			continue
		}
		if confirmed[o.Job.ID] == nil {
			confirmed[o.Job.ID] = map[string]bool{}
		}
		confirmed[o.Job.ID][o.TaskManager] = true
	}
	if r.Snapshot.Leader == nil && len(r.Orphans) > 0 {
		t.Errorf("orphans although there is no leader")
	}
	jobs := map[string]bool{}
	for i := range r.Jobs {
		j := &r.Jobs[i]
		if jobs[j.ID] {
			t.Errorf("job %s is reported twice", j.ID)
		}
		jobs[j.ID] = true
		twice := j.DuplicateReaders > 0
		for v, n := range j.DuplicateSubtasks {
			twice = twice || n > 0
			if n < 0 || v != ViewReporter && v != ViewThreads {
				t.Errorf("job %s: %d duplicates by %s", j.ID, n, v)
			}
			if on := map[View]bool{ViewReporter: r.Snapshot.ReportersOn, ViewThreads: r.Snapshot.ThreadsOn}[v]; !on {
				t.Errorf("job %s: %d duplicates by %s, which is turned off", j.ID, n, v)
			}
			if c := r.Coverage[v]; n == 0 && c.Read < c.Known {
				t.Errorf("job %s: no duplicates by %s, which could read %d of %d TaskManagers", j.ID, v, c.Read, c.Known)
			}
		}
		if twice && j.Verdict != VerdictDuplicate {
			t.Errorf("job %s: %v, yet %s (%s)", j.ID, j.DuplicateSubtasks, j.Verdict, j.Why)
		}
		switch j.Verdict {
		case VerdictDuplicate:
			if len(confirmed[j.ID]) == 0 && j.DuplicateReaders == 0 {
				t.Errorf("job %s: duplicate without an orphan or a reader too many", j.ID)
			}
			if len(j.Restart) == 0 || j.DuplicateSince.IsZero() {
				t.Errorf("job %s: duplicate, restart %v, since %v", j.ID, j.Restart, j.DuplicateSince)
			}
		case VerdictOrphan:
			if len(confirmed[j.ID]) == 0 {
				t.Errorf("job %s: orphan without one", j.ID)
			}
		case VerdictOK:
			if len(confirmed[j.ID]) > 0 || unconfirmed[j.ID] || len(j.Restart) > 0 {
				t.Errorf("job %s: ok, orphans %v, unconfirmed %v, restart %v", j.ID, confirmed[j.ID], unconfirmed[j.ID], j.Restart)
			}
			if r.Snapshot.Leader == nil || j.Leader != nil && !j.Leader.Expected() {
				t.Errorf("job %s: ok although it is not known what should run", j.ID)
			}
		case VerdictUnknown:
		default:
			t.Errorf("job %s: verdict %q", j.ID, j.Verdict)
		}
		if j.Why == "" {
			t.Errorf("job %s: %s, and not why", j.ID, j.Verdict)
		}
		var restart []string
		for _, x := range j.Restart {
			restart = append(restart, x.TaskManager)
		}
		if j.DuplicateReaders == 0 && j.Verdict != VerdictUnknown && !slices.Equal(restart, slices.Sorted(maps.Keys(confirmed[j.ID]))) {
			t.Errorf("job %s: restart %v, orphans on %v", j.ID, restart, confirmed[j.ID])
		}
	}
}

// withoutSnapshot is a report to compare: what was concluded, not what it was concluded from.
func withoutSnapshot(r *Report) Report {
	c := *r
	c.Snapshot = nil
	c.Jobs = slices.Clone(r.Jobs)
	for i := range c.Jobs {
		c.Jobs[i].Leader = nil
	}
	c.Readers = slices.Clone(r.Readers)
	for i := range c.Readers {
		c.Readers[i].key = orphanKey{}
	}
	c.TaskManagers = slices.Clone(r.TaskManagers)
	for i := range c.TaskManagers {
		c.TaskManagers[i].Leader = nil
	}
	return c
}

func shuffle[T any](c chooser, xs []T) []T {
	xs = slices.Clone(xs)
	for i := len(xs) - 1; i > 0; i-- {
		k := c.choose(i + 1)
		xs[i], xs[k] = xs[k], xs[i]
	}
	return xs
}

// twice sometimes repeats entries.
func twice[T any](c chooser, xs []T) []T {
	for i := range len(xs) {
		if c.oneIn(3) {
			xs = append(xs, xs[i])
		}
	}
	return xs
}

// shuffled is the same snapshot in another order, with entries told more than once.
func (c chooser) shuffled(s *Snapshot) *Snapshot {
	p := *s
	p.Reporters = shuffle(c, twice(c, slices.Clone(s.Reporters)))
	for i := range p.Reporters {
		p.Reporters[i].Executions = shuffle(c, twice(c, slices.Clone(p.Reporters[i].Executions)))
	}
	p.Dumps = shuffle(c, twice(c, slices.Clone(s.Dumps)))
	for i := range p.Dumps {
		p.Dumps[i].Threads = shuffle(c, p.Dumps[i].Threads)
	}
	if s.Leader != nil {
		l := *s.Leader
		l.Jobs = shuffle(c, twice(c, slices.Clone(l.Jobs)))
		for i := range l.Jobs {
			l.Jobs[i].Vertices = shuffle(c, l.Jobs[i].Vertices)
			for k := range l.Jobs[i].Vertices {
				l.Jobs[i].Vertices[k].Executions = shuffle(c, l.Jobs[i].Vertices[k].Executions)
			}
		}
		if l.TaskManagers != nil {
			l.TaskManagers = append([]TaskManager{}, shuffle(c, twice(c, slices.Clone(l.TaskManagers)))...)
		}
		p.Leader = &l
	}
	return &p
}

// The order in which things are told, and whether they are told more than once, changes nothing.
func TestPropertyOrderChangesNothing(t *testing.T) {
	verdicts := map[Verdict]int{}
	for seed := range uint64(runs(6000)) {
		c := randomChooser(seed)
		var m1, m2 Memory
		for i := range 3 {
			s := c.snapshot(time.Duration(i) * time.Second)
			a, b := look(&scene{Snapshot: s}, &m1), look(&scene{Snapshot: c.shuffled(s)}, &m2)
			invariants(t, a)
			if x, y := withoutSnapshot(a), withoutSnapshot(b); !reflect.DeepEqual(x, y) { //nolint:govet // errors and all
				vx, vy := reflect.ValueOf(x), reflect.ValueOf(y)
				for k := range vx.NumField() {
					if fx, fy := vx.Field(k).Interface(), vy.Field(k).Interface(); !reflect.DeepEqual(fx, fy) {
						t.Errorf("%s:\n%+v\n%+v", vx.Type().Field(k).Name, fx, fy)
					}
				}
				t.Fatalf("seed %d, look %d:\n%s\n%s", seed, i, describe(a), describe(b))
			}
			if t.Failed() {
				t.Fatalf("seed %d, look %d\n%s", seed, i, describe(a))
			}
			for k := range a.Jobs {
				verdicts[a.Jobs[k].Verdict]++
			}
		}
	}
	for _, v := range Verdicts {
		if !testing.Short() && verdicts[v] < 100 {
			t.Errorf("only %d jobs were %s: %v", verdicts[v], v, verdicts)
		}
	}
}

// Where nothing can be newer than the leader's view, the orphans are what is observed less what is expected, as multisets.
func TestPropertyOrphansAreObservedLessExpected(t *testing.T) {
	found := 0
	for seed := range uint64(runs(5000)) {
		c := randomChooser(seed)
		const vertex = "v"
		s := newScene("tm-0", "tm-1", "tm-2")
		j := s.job(j1, "pipeline", JobRunning, 0)
		tm := func() string { return fmt.Sprintf("tm-%d", c.choose(3)) }
		type where struct {
			subtask, attempt int
			tm               string
		}
		expected, reported, threads := map[where]int{}, map[where]int{}, map[where]int{}
		parallelism := 1 + c.choose(3)
		var xs []Execution
		for i := range parallelism {
			x := exec(i, c.choose(3), Running, tm())
			xs = append(xs, x)
			expected[where{i, x.Attempt, x.TaskManager}]++
		}
		s.expect(j, vertex, xs...)
		for range c.choose(8) {
			w := where{c.choose(parallelism), c.choose(3), tm()}
			n := len(s.Reporters)
			s.report(w.tm, j1, "pipeline", []string{graphA, graphB, graphC}[reported[w]%3], vertex, w.subtask, w.attempt)
			if len(s.Reporters) != n {
				t.Fatal("no such reporter")
			}
			if reported[w]++; reported[w] > 3 {
				reported[w] = 3 // the same attempt id once more
			}
			// Threads see other things.
			w = where{c.choose(parallelism), c.choose(3), tm()}
			s.thread(t, w.tm, TaskName{vertex, w.subtask, parallelism, w.attempt}.String())
			threads[w]++
		}
		want := map[View]map[where]int{ViewReporter: {}, ViewThreads: {}}
		for view, observed := range map[View]map[where]int{ViewReporter: reported, ViewThreads: threads} {
			for w, n := range observed {
				if n > expected[w] {
					want[view][w] = n - expected[w]
				}
			}
		}
		for _, only := range []View{ViewReporter, ViewThreads} {
			one := s.at(0)
			if only == ViewReporter {
				one.noThreads()
			} else {
				one.noReporters()
			}
			var m Memory
			look(one, &m)
			r := look(one.at(staleness), &m)
			got := map[where]int{}
			for _, o := range r.Orphans {
				if !o.Confirmed || o.View != only || o.Job.ID != j1 {
					t.Fatalf("seed %d: %+v", seed, o)
				}
				got[where{o.Subtask, o.Attempt, o.TaskManager}]++
				found++
			}
			if !maps.Equal(got, want[only]) {
				t.Fatalf("seed %d: orphans by %s %v, want %v", seed, only, got, want[only])
			}
		}
	}
	if found == 0 {
		t.Error("there was no orphan")
	}
}

// A view that is turned off takes its evidence with it, but leaves no ok behind that the other view does not bear out alone: it read every
// TaskManager, counts no duplicate and has no orphan of the job, with or without the view that is gone.
func TestPropertyViewRemoved(t *testing.T) {
	oks, lost := 0, 0
	for seed := range uint64(runs(10000)) {
		c := randomChooser(seed)
		s := c.snapshot(0)
		if !s.ReportersOn || !s.ThreadsOn {
			continue
		}
		both := look(&scene{Snapshot: s}, &Memory{})
		for _, left := range []View{ViewReporter, ViewThreads} {
			one := *s
			if left == ViewReporter {
				one.ThreadsOn, one.Dumps = false, nil
			} else {
				one.ReportersOn, one.Reporters = false, nil
			}
			r := look(&scene{Snapshot: &one}, &Memory{})
			invariants(t, r)
			for i := range r.Jobs {
				j := &r.Jobs[i]
				if j.Verdict != VerdictOK {
					continue
				}
				oks++
				if n, ok := j.DuplicateSubtasks[left]; !ok || n != 0 {
					t.Fatalf("seed %d, %s left: ok, duplicates %d %v\n%s", seed, left, n, ok, describe(r))
				}
				if k := slices.IndexFunc(both.Jobs, func(x JobReport) bool { return x.ID == j.ID }); k >= 0 && both.Jobs[k].Verdict == VerdictDuplicate {
					lost++
				}
				for _, o := range both.Orphans {
					if o.Job.ID == j.ID && o.View == left {
						t.Fatalf("seed %d, %s left: ok, yet with both views it had %+v\n%s", seed, left, o, describe(r))
					}
				}
			}
			if t.Failed() {
				t.Fatalf("seed %d\n%s", seed, describe(r))
			}
		}
	}
	if oks == 0 || !testing.Short() && !slow && lost == 0 {
		t.Errorf("%d ok with one view, %d of them duplicate with both", oks, lost)
	}
}

// Views that fail to read one TaskManager never turn a verdict into ok, unless the other view read it.
func TestPropertyReadingFails(t *testing.T) {
	for seed := range uint64(runs(4000)) {
		c := randomChooser(seed)
		s := c.snapshot(0)
		failed := *s
		failed.Reporters, failed.Dumps = slices.Clone(s.Reporters), slices.Clone(s.Dumps)
		for i := range failed.Reporters {
			failed.Reporters[i] = Reporter{URL: failed.Reporters[i].URL, Err: errors.New("refused")}
		}
		for i := range failed.Dumps {
			failed.Dumps[i] = ThreadDump{TaskManager: failed.Dumps[i].TaskManager, Err: errors.New("timed out")}
		}
		r := look(&scene{Snapshot: &failed}, &Memory{})
		for i := range r.Jobs {
			if len(r.TaskManagers) > 0 && r.Jobs[i].Verdict != VerdictUnknown {
				t.Fatalf("seed %d: %s although nothing could be read\n%s", seed, r.Jobs[i].Verdict, describe(r))
			}
		}
	}
}

func FuzzJudge(f *testing.F) {
	f.Add([]byte{})
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 3))
		b := make([]byte, 200)
		for i := range b {
			b[i] = byte(r.UintN(256))
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		i := 0
		c := chooser{func(n int) int {
			if i >= len(b) {
				return 0
			}
			i++
			return int(b[i-1]) % n
		}}
		var m1, m2 Memory
		for at := range 3 {
			s := c.snapshot(time.Duration(at) * 700 * time.Millisecond)
			first := Judge(s, &m1, Rules{})
			invariants(t, first)
			if again := Judge(s, &m1, Rules{}); !reflect.DeepEqual(withoutSnapshot(first), withoutSnapshot(again)) { //nolint:govet // errors and all
				t.Errorf("judged twice, differently")
			}
			if at == 0 {
				for i := range first.Orphans {
					if first.Orphans[i].Confirmed {
						t.Errorf("confirmed at first sight: %+v", first.Orphans[i])
					}
				}
			}
			second := Confirm(s, &m1, Rules{}, first)
			invariants(t, second)
			if ids := second.Suspicious(); len(ids) > 0 {
				t.Errorf("still suspicious after the second look: %v", ids)
			}
			m1.Remember(second)
			invariants(t, look(&scene{Snapshot: s}, &m2))
		}
	})
}

// BenchmarkJudge judges 200 TaskManagers with 10,000 tasks that both views see.
func BenchmarkJudge(b *testing.B) {
	const tms, perTM = 200, 50
	s := &Snapshot{Time: start, Leader: &LeaderView{}, ReportersOn: true, ThreadsOn: true}
	job := Job{ID: j1, Name: "pipeline", State: JobRunning, StartTime: start, Detailed: true, Tasks: map[ExecutionState]int{Running: tms * perTM}}
	for v := range perTM {
		job.Vertices = append(job.Vertices, Vertex{ID: hexID(0x1000 + v), Name: fmt.Sprintf("Operator %d -> Map", v), Parallelism: tms})
	}
	for i := range tms {
		id := fmt.Sprintf("10.0.0.%d:6122-abcdef", i)
		s.Leader.TaskManagers = append(s.Leader.TaskManagers, TaskManager{ID: id, SlotsTotal: perTM})
		rep := Reporter{URL: id, TaskManager: Sanitize(id)}
		d := ThreadDump{TaskManager: id, Time: start, Fresh: true}
		for v := range perTM {
			vertex := &job.Vertices[v]
			vertex.Executions = append(vertex.Executions, exec(i, 0, Running, id))
			rep.Executions = append(rep.Executions, ReportedExecution{
				JobID: j1, JobName: "pipeline", VertexID: vertex.ID, VertexName: Sanitize(vertex.Name), Subtask: i,
				AttemptID: AttemptID(fmt.Sprintf("%s_%s_%d_0", graphA, vertex.ID, i)),
			})
			d.Threads = append(d.Threads, Thread{Kind: TaskThread, ID: int64(v + 1), Task: TaskName{vertex.Name, i, tms, 0}})
		}
		s.Reporters, s.Dumps = append(s.Reporters, rep), append(s.Dumps, d)
	}
	s.Leader.Jobs = []Job{job}
	zombies := *s
	zombies.Reporters, zombies.Dumps = slices.Clone(s.Reporters), slices.Clone(s.Dumps)
	for i := range tms {
		rep, d := &zombies.Reporters[i], &zombies.Dumps[i]
		rep.Executions, d.Threads = slices.Clone(rep.Executions), slices.Clone(d.Threads)
		for v := range perTM {
			old := rep.Executions[v]
			old.AttemptID = AttemptID(graphB + string(old.AttemptID[32:]))
			rep.Executions = append(rep.Executions, old)
			thread := d.Threads[v]
			thread.ID += perTM
			d.Threads = append(d.Threads, thread)
		}
	}
	for _, c := range []struct {
		name string
		s    *Snapshot
		want Verdict
	}{{"healthy", s, VerdictOK}, {"everything twice", &zombies, VerdictDuplicate}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			var m Memory
			look(&scene{Snapshot: c.s}, &m)
			for b.Loop() {
				r := Judge(c.s, &m, Rules{})
				m.Remember(r)
				if v := r.Jobs[0].Verdict; v != c.want && v != VerdictUnknown {
					b.Fatalf("%s, want %s", v, c.want)
				}
			}
		})
	}
}
