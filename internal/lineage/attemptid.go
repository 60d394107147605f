package lineage

import (
	"regexp"
	"strconv"
)

// AttemptID is the text of Flink's ExecutionAttemptID: 32 random hexadecimal digits in Flink 1.15, GRAPH_VERTEX_SUBTASK_ATTEMPT since 1.16.
type AttemptID string

// ExecutionKey is what an AttemptID since Flink 1.16 says.
type ExecutionKey struct {
	// Graph is the id of the execution graph, 32 hexadecimal digits; a JobManager that takes a job over makes a new one.
	Graph string
	// Vertex is the vertex id, 32 hexadecimal digits.
	Vertex string
	// Subtask is 0-based.
	Subtask int
	Attempt int
}

var attemptIDPattern = regexp.MustCompile(`^([0-9a-f]{32})_([0-9a-f]{32})_(\d{1,9})_(\d{1,9})$`)

// Parse returns what the id says; ok is false for an id of Flink 1.15, which says nothing, and for anything else.
func (id AttemptID) Parse() (key ExecutionKey, ok bool) {
	m := attemptIDPattern.FindStringSubmatch(string(id))
	if m == nil {
		return ExecutionKey{}, false
	}
	// At most nine digits: Atoi cannot fail.
	subtask, _ := strconv.Atoi(m[3])
	attempt, _ := strconv.Atoi(m[4])
	return ExecutionKey{Graph: m[1], Vertex: m[2], Subtask: subtask, Attempt: attempt}, true
}

// Graph returns the id of the execution graph, or "" for an id that does not name one.
func (id AttemptID) Graph() string {
	key, _ := id.Parse()
	return key.Graph
}
