package beam

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/flink-lineage/flink-lineage-exporter/test/lab"
)

// Thread is one thread of a TaskManager's dump.
type Thread struct {
	Name  string `json:"threadName"`
	Stack string `json:"stringifiedThreadInfo"` // a header line and, outermost call last, one line a frame
}

// Threads takes a dump of a TaskManager, through the JobManager.
func (r *Run) Threads(ctx context.Context, tm *lab.TaskManager) ([]Thread, error) {
	id, err := tm.ID(ctx)
	if err != nil {
		return nil, err
	}
	var answer struct {
		ThreadInfos []Thread `json:"threadInfos"`
	}
	err = r.Cluster.Get(ctx, "/taskmanagers/"+url.PathEscape(id)+"/thread-dump", &answer)
	return answer.ThreadInfos, err
}

// sourceThread matches the names of threads that belong to a source's readers, and of the tasks they feed.
var sourceThread = regexp.MustCompile(`^(KafkaConsumerPoll-thread|FlinkSource-Executor-Thread-|Source Data Fetcher for |Kafka Fetcher for |Kafka Partition Discovery|` +
	`Legacy Source Thread - |Source: |SourceCoordinator|kafka-coordinator-heartbeat)`)

// frame matches "at package.Class.method(File.java:123)".
var frame = regexp.MustCompile(`^\s*at (?:[\w.@]+//?)?(?:[\w.]+/)?([\w$.<>]+)\(`)

// telling matches the frames that say what a thread is at, besides the innermost one.
var telling = regexp.MustCompile(`^(org\.apache\.|beamlab)|SynchronousQueue\.|Exchanger`)

// SummarizeThreads describes the threads of sources in a dump: how many have a name and do the same, as Activity
// tells it.
func SummarizeThreads(threads []Thread) map[string]int {
	counts := map[string]int{}
	for _, t := range threads {
		if sourceThread.MatchString(t.Name) {
			counts[t.Name+" | "+Activity(t.Stack)]++
		}
	}
	return counts
}

// threadID matches the JVM's id of a thread in the first line of its stack. Ids only grow: of two threads the one with the smaller id was
// started first.
var threadID = regexp.MustCompile(`" Id=(\d+) `)

// ReadersInOrder lists the threads of Beam's source readers in the order in which they were started, as "id:E" for an executor thread of a
// reader, "id:poll" for a consumer's thread and "id:offer" for one that waits until somebody takes what it read. A consumer older than
// every executor belongs to a reader of a task that has ended.
func ReadersInOrder(threads []Thread) string {
	words := map[int]string{}
	for _, t := range threads {
		m := threadID.FindStringSubmatch(t.Stack)
		if m == nil {
			continue
		}
		id, err := strconv.Atoi(m[1])
		switch {
		case err != nil:
		case strings.HasPrefix(t.Name, "FlinkSource-Executor-Thread-"):
			words[id] = m[1] + ":E"
		case t.Name == "KafkaConsumerPoll-thread" && strings.Contains(t.Stack, "SynchronousQueue.offer"):
			words[id] = m[1] + ":offer"
		case t.Name == "KafkaConsumerPoll-thread":
			words[id] = m[1] + ":poll"
		}
	}
	var ordered []string
	for _, id := range slices.Sorted(maps.Keys(words)) {
		ordered = append(ordered, words[id])
	}
	return strings.Join(ordered, " ")
}

// Activity is what a stack shows: the thread's state and up to twelve frames, the innermost first.
func Activity(stack string) string {
	header, _, _ := strings.Cut(stack, "\n")
	state := "?"
	for _, s := range []string{"RUNNABLE", "TIMED_WAITING", "WAITING", "BLOCKED"} {
		if strings.Contains(header, " "+s) {
			state = s
			break
		}
	}
	var frames []string
	for line := range strings.Lines(stack) {
		m := frame.FindStringSubmatch(line)
		if m == nil || len(frames) == 12 {
			continue
		}
		parts := strings.Split(m[1], ".")
		short := strings.Join(parts[max(0, len(parts)-2):], ".")
		if len(frames) == 0 || telling.MatchString(m[1]) && !slices.Contains(frames, short) {
			frames = append(frames, short)
		}
	}
	return fmt.Sprintf("%s %s", state, strings.Join(frames, " < "))
}
