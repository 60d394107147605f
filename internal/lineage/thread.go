package lineage

import (
	"regexp"
	"strconv"
	"strings"
)

// ThreadKind is what a thread of a TaskManager is for, as its name tells.
type ThreadKind int

// The kinds of thread that matter. Names are constant from Flink 1.15 to 2.3.
const (
	// TaskThread executes a task: "VERTEX (SUBTASK+1/PARALLELISM)#ATTEMPT".
	TaskThread ThreadKind = iota + 1
	// CancelerThread cancels a task, interrupts it or watches that it ends; it lives as long as the task's thread.
	CancelerThread
	// LegacySourceThread runs a SourceFunction (up to Flink 1.20).
	LegacySourceThread
	// FetcherThread fetches for a source of FLIP-27.
	FetcherThread
	// KafkaFetcherThread fetches for the legacy FlinkKafkaConsumer.
	KafkaFetcherThread
	// BeamKafkaThread polls Kafka for one split of a Beam KafkaIO source. Its name tells no task.
	BeamKafkaThread
	// UserThread was started by a connector or a user function and is named after its task, "ANYTHING VERTEX (SUBTASK+1/PARALLELISM)#ATTEMPT".
	// Its name alone is that of a TaskThread: it takes the names of the vertices to tell.
	UserThread
)

// Thread is a thread of a TaskManager whose name matters.
type Thread struct {
	Kind ThreadKind
	// ID is the JVM's id of the thread, higher for a younger one; 0 if the dump does not tell.
	ID int64
	// Task is the task the thread executes or works for.
	Task TaskName
	// AttemptID is the execution a canceler names; empty for other kinds.
	AttemptID AttemptID
	// Polls is whether a BeamKafkaThread waits for records, rather than for somebody to take those it has.
	Polls bool
}

// TaskName is the name of the thread that executes a task. It says nothing of the job.
type TaskName struct {
	// Vertex is the vertex' name, in full.
	Vertex string
	// Subtask is 0-based; the text counts from 1.
	Subtask     int
	Parallelism int
	Attempt     int
}

// of is the task of the same subtask and attempt of a vertex.
func (t TaskName) of(vertex string) TaskName {
	t.Vertex = vertex
	return t
}

// String returns the name as the thread bears it.
func (t TaskName) String() string {
	return t.Vertex + " (" + strconv.Itoa(t.Subtask+1) + "/" + strconv.Itoa(t.Parallelism) + ")#" + strconv.Itoa(t.Attempt)
}

var (
	// A vertex' name may hold parentheses, '#', " -> " and line breaks: only the end is fixed.
	taskNamePattern = regexp.MustCompile(`(?s)^(.*) \((\d{1,9})/(\d{1,9})\)#(\d{1,9})$`)
	cancelerPattern = regexp.MustCompile(`(?s)^(?:Canceler|Canceler/Interrupts|Cancellation Watchdog) for (.*\(\d{1,9}/\d{1,9}\)#\d{1,9}) \(([0-9a-f_]+)\)\.$`)
)

// Beam's KafkaUnboundedReader has one thread of this name for each split it reads; it polls, unless SynchronousQueue.offer is in its stack
// because nobody takes its records (Beam 2.56). KafkaConsumer.poll itself is too deep for the eight frames of a dump of Flink 1.15 and 1.16.
const (
	beamKafkaThread = "KafkaConsumerPoll-thread"
	beamKafkaOffers = "java.util.concurrent.SynchronousQueue.offer"
)

// helperPrefixes begin the names of threads that work for a task but tell nothing about what runs.
var helperPrefixes = []string{
	"OutputFlusher for ", "Time Trigger for ", "System Time Trigger for ", "Channel state writer ", "Async calls on ",
}

// ParseTaskName parses the name of a thread that executes a task.
func ParseTaskName(name string) (TaskName, bool) {
	m := taskNamePattern.FindStringSubmatch(name)
	if m == nil {
		return TaskName{}, false
	}
	// At most nine digits: Atoi cannot fail.
	subtask, _ := strconv.Atoi(m[2])
	parallelism, _ := strconv.Atoi(m[3])
	attempt, _ := strconv.Atoi(m[4])
	if subtask < 1 || subtask > parallelism {
		return TaskName{}, false
	}
	return TaskName{Vertex: m[1], Subtask: subtask - 1, Parallelism: parallelism, Attempt: attempt}, true
}

// ParseThread tells what a thread is for; ok is false for one whose name does not matter.
func ParseThread(name string) (Thread, bool) {
	if m := cancelerPattern.FindStringSubmatch(name); m != nil {
		task, ok := ParseTaskName(m[1])
		return Thread{Kind: CancelerThread, Task: task, AttemptID: AttemptID(m[2])}, ok
	}
	kind, rest := TaskThread, name
	if r, ok := strings.CutPrefix(name, "Legacy Source Thread - "); ok {
		kind, rest = LegacySourceThread, r
	} else if r, ok := strings.CutPrefix(name, "Source Data Fetcher for "); ok {
		kind, rest = FetcherThread, r
	} else if r, ok := strings.CutPrefix(name, "Kafka Fetcher for "); ok {
		kind, rest = KafkaFetcherThread, r
	} else if name == beamKafkaThread {
		return Thread{Kind: BeamKafkaThread}, true
	} else {
		for _, p := range helperPrefixes {
			if strings.HasPrefix(name, p) {
				return Thread{}, false
			}
		}
	}
	task, ok := ParseTaskName(rest)
	return Thread{Kind: kind, Task: task}, ok
}

// ReadThread tells what a thread of a dump is for, by its name and its text: a first line with name, id and state, then the stack. ok is
// false for one whose name does not matter.
func ReadThread(name, text string) (Thread, bool) {
	t, ok := ParseThread(name)
	if !ok {
		return Thread{}, false
	}
	t.ID = ParseThreadID(name, text)
	t.Polls = t.Kind == BeamKafkaThread && !strings.Contains(text, beamKafkaOffers)
	return t, true
}

// ParseThreadID returns the JVM's thread id from the first line of a thread in a dump, `"NAME" Id=N STATE ...`; 0 if there is none.
func ParseThreadID(name, stringified string) int64 {
	rest, ok := strings.CutPrefix(stringified, `"`+name+`" Id=`)
	if !ok {
		return 0
	}
	digits, _, _ := strings.Cut(rest, " ")
	id, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || id < 0 {
		return 0
	}
	return id
}
