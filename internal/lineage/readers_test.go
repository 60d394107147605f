package lineage

import (
	"fmt"
	"testing"
	"time"
)

const beamSource = "Source: Read orders/KafkaIO.Read"

// beamScene is a job whose one vertex is a Beam KafkaIO source on tm-1. splits has the number of splits each subtask has read, and readers the
// number of reader threads each subtask has started.
func beamScene(t *testing.T, graph string, attempt int, splits, readers []int) *scene {
	t.Helper()
	s := newScene("tm-1")
	j := s.job(j1, "beam", JobRunning, 0)
	executions := make([]Execution, len(splits))
	for i := range splits {
		executions[i] = exec(i, attempt, Running, "tm-1")
	}
	s.expect(j, beamSource, executions...)
	split := 0
	for i, n := range splits {
		s.run(t, "tm-1", j1, "beam", graph, beamSource, i, len(splits), attempt)
		x := &s.Reporters[0].Executions[len(s.Reporters[0].Executions)-1]
		x.Source = &SourceProgress{}
		for range n {
			if x.Source.Splits == nil {
				x.Source.Splits = map[int]float64{}
			}
			x.Source.Splits[split] = 10
			split++
		}
	}
	for _, n := range readers {
		s.pollers(n, true)
	}
	return s
}

// pollers adds reader threads to tm-1's dump, younger than every thread so far.
func (s *scene) pollers(n int, polls bool) {
	for range n {
		threadID++
		s.Dumps[0].Threads = append(s.Dumps[0].Threads, Thread{Kind: BeamKafkaThread, ID: threadID, Polls: polls})
	}
}

// oldPollers adds reader threads older than every thread so far, as earlier attempts leave them.
func (s *scene) oldPollers(n int, polls bool) {
	for range n {
		s.Dumps[0].Threads = append(s.Dumps[0].Threads, Thread{Kind: BeamKafkaThread, ID: 1, Polls: polls})
	}
}

func beamReaders(t *testing.T, r *Report) Readers {
	t.Helper()
	for _, x := range r.Readers {
		if x.Beam {
			return x
		}
	}
	t.Fatal("no Beam readers are reported")
	return Readers{}
}

func TestBeamReaders(t *testing.T) {
	for _, c := range []struct {
		name            string
		splits, readers []int
		old             int
		verdict         Verdict
		live, leaked    int
		duplicates      int
		told            bool
	}{
		{"one for each split", []int{1, 1}, []int{1, 1}, 0, VerdictOK, 2, 0, 0, true},
		{"L5: two for each split", []int{1, 1}, []int{2, 2}, 0, VerdictDuplicate, 4, 0, 2, true},
		{"L6: left over from earlier attempts", []int{1, 1}, []int{1, 1}, 4, VerdictOK, 2, 4, 0, true},
		{"two for each split and some left over", []int{1, 1}, []int{2, 2}, 2, VerdictDuplicate, 4, 2, 2, true},
		{"several splits in a subtask", []int{2, 2}, []int{2, 2}, 0, VerdictOK, 4, 0, 0, true},
		{"several splits in a subtask, twice", []int{2, 2}, []int{4, 4}, 0, VerdictDuplicate, 8, 0, 4, true},
		{"a split that has no record yet", []int{1, 0}, []int{1, 1}, 0, VerdictOK, 2, 0, 0, false},
		{"no record of any split", []int{0, 0}, []int{1, 1}, 0, VerdictOK, 2, 0, 0, false},
		{"no record of any split, twice", []int{0, 0}, []int{2, 2}, 0, VerdictUnknown, 4, 0, 0, false},
		{"fewer splits than subtasks, twice", []int{1, 0, 0}, []int{2, 0, 0}, 0, VerdictUnknown, 2, 0, 0, false},
		{"a subtask without a split", []int{1, 0}, []int{1, 0}, 0, VerdictOK, 1, 0, 0, true},
		{"all but one silent, twice", []int{1, 0}, []int{2, 2}, 0, VerdictDuplicate, 4, 0, 2, true},
		{"a reader not started yet", []int{1, 1}, []int{1, 0}, 0, VerdictOK, 1, 0, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m Memory
			s := beamScene(t, graphA, 0, c.splits, c.readers)
			s.oldPollers(c.old, true)
			r := look(s, &m)
			j := wantVerdict(t, r, j1, c.verdict)
			x := beamReaders(t, r)
			if x.Live != c.live || x.Leaked != c.leaked || x.Duplicates != c.duplicates || x.Told != c.told {
				t.Errorf("got %+v", x)
			}
			if (j.DuplicateReaders > 0) != (c.verdict == VerdictDuplicate) {
				t.Errorf("%d duplicate readers", j.DuplicateReaders)
			}
			if c.verdict == VerdictDuplicate && (len(j.Restart) != 1 || j.Restart[0] != (Restart{"tm-1", DuplicateReader})) {
				t.Errorf("restart %v", j.Restart)
			}
		})
	}
}

// A subtask without a split finishes, but not after a restore: what was known before tells that its second reader is no split's first.
func TestBeamMoreSubtasksThanPartitions(t *testing.T) {
	var m Memory
	before := beamScene(t, graphA, 0, []int{1, 0, 0}, []int{1, 0, 0})
	v := &before.Leader.Jobs[0].Vertices[0]
	v.Tasks = map[ExecutionState]int{Running: 1, Finished: 2}
	for i := 1; i < 3; i++ {
		v.Executions[i].State = Finished
	}
	before.Leader.Jobs[0].Tasks = v.Tasks
	before.Reporters[0].Executions = before.Reporters[0].Executions[:1]
	before.Dumps[0].Threads = append(before.Dumps[0].Threads[:1:1], before.Dumps[0].Threads[3:]...)
	wantVerdict(t, look(before, &m), j1, VerdictOK)

	double := beamScene(t, graphB, 0, []int{1, 0, 0}, []int{2, 0, 0}).at(time.Minute)
	double.Leader.Jobs[0].StartTime = start.Add(30 * time.Second)
	r := look(double, &m)
	wantVerdict(t, r, j1, VerdictDuplicate)
	if x := beamReaders(t, r); x.Duplicates != 1 {
		t.Errorf("got %+v, want one duplicate", x)
	}
}

// One job's source restarted while another's on the same TaskManager did not: its leftover is younger than the other's task.
func TestBeamTwoJobsOnOneTaskManager(t *testing.T) {
	for _, c := range []struct {
		name    string
		readers int
		polls   bool
		verdict Verdict
	}{
		{"each once", 1, true, VerdictOK},
		{"a leftover stuck with its records", 0, false, VerdictOK},
		{"the younger one twice", 2, true, VerdictUnknown}, // which of the two it is cannot be told
	} {
		t.Run(c.name, func(t *testing.T) {
			var m Memory
			s := beamScene(t, graphA, 0, []int{1}, []int{1})
			if c.readers == 0 {
				s.pollers(1, c.polls)
				c.readers = 1
			}
			j := s.job(j2, "other", JobRunning, 0)
			s.expect(j, "Source: Read payments", exec(0, 1, Running, "tm-1"))
			s.run(t, "tm-1", j2, "other", graphC, "Source: Read payments", 0, 1, 1)
			s.Reporters[0].Executions[1].Source = &SourceProgress{Splits: map[int]float64{0: 5}}
			s.pollers(c.readers, true)
			r := look(s, &m)
			wantVerdict(t, r, j1, c.verdict)
			wantVerdict(t, r, j2, c.verdict)
			if x := beamReaders(t, r); x.Job.ID != "" {
				t.Errorf("attributed to %v although it could be of two", x.Job)
			}
		})
	}
}

// A dump of before the executions shown says nothing of them.
func TestBeamOutdatedDump(t *testing.T) {
	var m Memory
	s := beamScene(t, graphA, 1, []int{1, 1}, []int{2, 2})
	for i := range s.Dumps[0].Threads {
		s.Dumps[0].Threads[i].Task.Attempt = 0
	}
	r := look(s, &m)
	if x := beamReaders(t, r); x.Told {
		t.Errorf("told from a dump of before: %+v", x)
	}
	if r.TaskManagers[0].Settled {
		t.Error("the dump would be used again")
	}
}

// Two subtasks of a KafkaSource that read one partition.
func TestKafkaSourcePartitionReadTwice(t *testing.T) {
	for _, twice := range []bool{false, true} {
		t.Run(fmt.Sprint(twice), func(t *testing.T) {
			var m Memory
			s := newScene("tm-1", "tm-2")
			j := s.job(j1, "flink", JobRunning, 0)
			s.expect(j, "Source: orders", exec(0, 0, Running, "tm-1"), exec(1, 0, Running, "tm-2"))
			for i, tm := range []string{"tm-1", "tm-2"} {
				s.run(t, tm, j1, "flink", graphA, "Source: orders", i, 2, 0)
				s.thread(t, tm, "Source Data Fetcher for "+TaskName{"Source: orders", i, 2, 0}.String())
				s.Reporters[i].Executions[0].Source = &SourceProgress{Partitions: []PartitionProgress{{"orders", i, 7}}}
			}
			if twice {
				p := &s.Reporters[1].Executions[0].Source.Partitions
				*p = append(*p, PartitionProgress{"orders", 0, 6})
			}
			r := look(s, &m)
			want := VerdictOK
			if twice {
				want = VerdictDuplicate
			}
			j1r := wantVerdict(t, r, j1, want)
			if len(r.Readers) != 2 || !r.Readers[0].Told || r.Readers[0].Live != 1 {
				t.Errorf("readers %+v", r.Readers)
			}
			if twice && len(j1r.Restart) != 2 {
				t.Errorf("restart %v, want both: either may be the one too many", j1r.Restart)
			}
		})
	}
}
