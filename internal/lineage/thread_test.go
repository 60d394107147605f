package lineage

import (
	"strings"
	"testing"
)

func TestParseThread(t *testing.T) {
	id116 := hexID(0xa) + "_" + hexID(0xb) + "_0_0"
	task := func(vertex string, subtask, parallelism, attempt int) TaskName {
		return TaskName{vertex, subtask, parallelism, attempt}
	}
	for _, c := range []struct {
		name string
		want Thread // Kind 0: does not matter
	}{
		{"map (1/3)#0", Thread{Kind: TaskThread, Task: task("map", 0, 3, 0)}},
		{"map (3/3)#12", Thread{Kind: TaskThread, Task: task("map", 2, 3, 12)}},
		{"Source: a -> (b, c -> d) (2/2)#0", Thread{Kind: TaskThread, Task: task("Source: a -> (b, c -> d)", 1, 2, 0)}},
		{"[vertex-3]Sink: out (1/1)#0", Thread{Kind: TaskThread, Task: task("[vertex-3]Sink: out", 0, 1, 0)}},
		{"odd (1/2)#0 (2/2)#1", Thread{Kind: TaskThread, Task: task("odd (1/2)#0", 1, 2, 1)}},
		{" (1/1)#0", Thread{Kind: TaskThread, Task: task("", 0, 1, 0)}},
		{"two\nlines (1/1)#0", Thread{Kind: TaskThread, Task: task("two\nlines", 0, 1, 0)}},
		{"Größe → 東京 (1/1)#0", Thread{Kind: TaskThread, Task: task("Größe → 東京", 0, 1, 0)}},
		{"#1 (1/1)#0", Thread{Kind: TaskThread, Task: task("#1", 0, 1, 0)}},
		{"trailing  (1/1)#0", Thread{Kind: TaskThread, Task: task("trailing ", 0, 1, 0)}},
		{"Canceler for map (1/3)#0 (" + id116 + ").", Thread{Kind: CancelerThread, Task: task("map", 0, 3, 0), AttemptID: AttemptID(id116)}},
		{"Canceler/Interrupts for map (1/3)#0 (" + id116 + ").", Thread{Kind: CancelerThread, Task: task("map", 0, 3, 0), AttemptID: AttemptID(id116)}},
		{"Cancellation Watchdog for map (1/3)#0 (" + id116 + ").", Thread{Kind: CancelerThread, Task: task("map", 0, 3, 0), AttemptID: AttemptID(id116)}},
		{"Canceler for map (1/3)#0 (" + hexID(7) + ").", Thread{Kind: CancelerThread, Task: task("map", 0, 3, 0), AttemptID: AttemptID(hexID(7))}},
		{"Canceler for odd (1/2)#0 (2/2)#1 (" + id116 + ").", Thread{Kind: CancelerThread, Task: task("odd (1/2)#0", 1, 2, 1), AttemptID: AttemptID(id116)}},
		{"Legacy Source Thread - Source: a (1/1)#0", Thread{Kind: LegacySourceThread, Task: task("Source: a", 0, 1, 0)}},
		{"Source Data Fetcher for Source: a -> b (1/1)#3", Thread{Kind: FetcherThread, Task: task("Source: a -> b", 0, 1, 3)}},
		// A vertex may be called like a canceler; without the id at its end the thread executes it.
		{"Canceler for map (1/3)#0", Thread{Kind: TaskThread, Task: task("Canceler for map", 0, 3, 0)}},

		{"OutputFlusher for map (1/3)#0", Thread{}},
		{"Time Trigger for map (1/3)#0", Thread{}},
		{"System Time Trigger for map (1/3)#0", Thread{}},
		{"Channel state writer map (1/3)#0", Thread{}},
		{"Async calls on map (1/3)#0", Thread{}},
		{"map (1/3)", Thread{}},
		{"map (0/3)#0", Thread{}},
		{"map (4/3)#0", Thread{}},
		{"map (1/3)#-1", Thread{}},
		{"map (1/3)#", Thread{}},
		{"map(1/3)#0", Thread{}},
		{"map (1/3)#0 ", Thread{}},
		{"map (1/3)#1234567890", Thread{}},
		{"map (1/1234567890)#0", Thread{}},
		{"map (१/3)#0", Thread{}},
		{"(1/1)#0", Thread{}},
		{"flink-akka.actor.default-dispatcher-4", Thread{}},
		{"", Thread{}},
		{"Canceler for map (4/3)#0 (" + id116 + ").", Thread{}},
		{"Canceler for map (1/3)#0 (" + id116 + ")", Thread{}},
		{"Legacy Source Thread - no task", Thread{}},
	} {
		got, ok := ParseThread(c.name)
		if ok != (c.want.Kind != 0) {
			t.Errorf("%q: matters %v", c.name, ok)
		} else if ok && got != c.want {
			t.Errorf("%q: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestParseThreadID(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       int64
	}{
		{"map (1/3)#0", "\"map (1/3)#0\" Id=93 RUNNABLE\n\tat x", 93},
		{"map (1/3)#0", `"map (1/3)#0" Id=93 WAITING on java.lang.Object@1`, 93},
		{`a "quoted" Id=7 x (1/1)#0`, `"a "quoted" Id=7 x (1/1)#0" Id=93 RUNNABLE`, 93},
		{"map (1/3)#0", `"other" Id=93 RUNNABLE`, 0},
		{"map (1/3)#0", `"map (1/3)#0" Id=x RUNNABLE`, 0},
		{"map (1/3)#0", `"map (1/3)#0" Id=-3 RUNNABLE`, 0},
		{"map (1/3)#0", `"map (1/3)#0" Id=99999999999999999999 RUNNABLE`, 0},
		{"map (1/3)#0", "", 0},
	} {
		if got := ParseThreadID(c.name, c.text); got != c.want {
			t.Errorf("%q in %q: got %d, want %d", c.name, c.text, got, c.want)
		}
	}
}

func TestAttemptID(t *testing.T) {
	g, v := hexID(0xabc), hexID(0xdef)
	for _, c := range []struct {
		id   AttemptID
		want ExecutionKey
		ok   bool
	}{
		{AttemptID(g + "_" + v + "_0_0"), ExecutionKey{g, v, 0, 0}, true},
		{AttemptID(g + "_" + v + "_127_3"), ExecutionKey{g, v, 127, 3}, true},
		{AttemptID(g), ExecutionKey{}, false}, // 1.15
		{"", ExecutionKey{}, false},
		{AttemptID(g + "_" + v + "_0"), ExecutionKey{}, false},
		{AttemptID(g + "_" + v + "_0_0_0"), ExecutionKey{}, false},
		{AttemptID(g + "_" + v + "_-1_0"), ExecutionKey{}, false},
		{AttemptID(g + "_" + v + "_0_1234567890"), ExecutionKey{}, false},
		{AttemptID(strings.ToUpper(g) + "_" + v + "_0_0"), ExecutionKey{}, false},
		{AttemptID(g[1:] + "_" + v + "_0_0"), ExecutionKey{}, false},
		{AttemptID(g + "_" + v + "_0_0\n"), ExecutionKey{}, false},
		{AttemptID(g + "-" + v + "-0-0"), ExecutionKey{}, false},
	} {
		got, ok := c.id.Parse()
		if ok != c.ok || got != c.want {
			t.Errorf("%q: got %+v %v, want %+v %v", c.id, got, ok, c.want, c.ok)
		}
		if c.id.Graph() != c.want.Graph {
			t.Errorf("%q: graph %q", c.id, c.id.Graph())
		}
	}
}

func FuzzParseThread(f *testing.F) {
	for _, name := range []string{
		"map (1/3)#0", "odd (1/2)#0 (2/2)#1", " (1/1)#0", "two\nlines (1/1)#0", "Legacy Source Thread - Source: a (1/1)#0",
		"Source Data Fetcher for Source: a -> b (1/1)#3", "Canceler for map (1/3)#0 (" + hexID(7) + ").",
		"Cancellation Watchdog for map (1/3)#0 (" + hexID(1) + "_" + hexID(2) + "_0_0).", "OutputFlusher for map (1/3)#0",
	} {
		f.Add(name, `"`+name+`" Id=12 RUNNABLE`)
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		if id := ParseThreadID(name, text); id < 0 {
			t.Errorf("id %d", id)
		}
		thread, ok := ParseThread(name)
		if !ok {
			return
		}
		if thread.Kind == 0 {
			t.Fatalf("%q matters but is of no kind", name)
		}
		if thread.Task == (TaskName{}) {
			return // a kind whose name tells no task
		}
		again, ok := ParseTaskName(thread.Task.String())
		if !ok || again != thread.Task {
			t.Errorf("%q: %+v is written as %q, which is read as %+v", name, thread.Task, thread.Task.String(), again)
		}
		if (thread.Kind == CancelerThread) != (thread.AttemptID != "") {
			t.Errorf("%q: kind %d with attempt id %q", name, thread.Kind, thread.AttemptID)
		}
		if !strings.Contains(name, thread.Task.Vertex) {
			t.Errorf("%q: vertex %q", name, thread.Task.Vertex)
		}
	})
}

func FuzzAttemptID(f *testing.F) {
	f.Add(hexID(1) + "_" + hexID(2) + "_0_0")
	f.Add(hexID(1))
	f.Add(hexID(1) + "_" + hexID(2) + "_00_999999999")
	f.Fuzz(func(t *testing.T, s string) {
		id := AttemptID(s)
		key, ok := id.Parse()
		if id.Graph() != key.Graph {
			t.Errorf("%q: graph %q and %q", s, id.Graph(), key.Graph)
		}
		if !ok {
			if key != (ExecutionKey{}) {
				t.Errorf("%q: not an id, yet %+v", s, key)
			}
			return
		}
		if len(key.Graph) != 32 || len(key.Vertex) != 32 || key.Subtask < 0 || key.Attempt < 0 {
			t.Errorf("%q: %+v", s, key)
		}
		if !strings.HasPrefix(s, key.Graph+"_"+key.Vertex+"_") {
			t.Errorf("%q: %+v", s, key)
		}
	})
}
