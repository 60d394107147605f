// Package reporter reads TaskManagers' own Prometheus reporters (flink-metrics-prometheus, Flink 1.15 to 2.3) and keeps of each exposition
// only which executions it has series of.
package reporter

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/flink-lineage/flink-lineage-exporter/internal/lineage"
)

// Names of series. The reporter builds them from the logical scope, which metrics.scope.* does not change.
var (
	prefixTaskManager = []byte("flink_taskmanager_")
	prefixTask        = []byte("flink_taskmanager_job_task_")
	nameRecordsIn     = []byte("flink_taskmanager_job_task_numRecordsIn")
	nameOperatorOut   = []byte("flink_taskmanager_job_task_operator_numRecordsOut")
	// Only source operators of FLIP-27 have it, from the moment on they are there.
	nameSourceErrors = []byte("flink_taskmanager_job_task_operator_numRecordsInErrors")
	// Flink's KafkaSource (flink-connector-kafka), labels topic and partition.
	nameKafkaOffset = []byte("flink_taskmanager_job_task_operator_KafkaSourceReader_topic_partition_currentOffset")
	// Beam's KafkaIO on Flink's runner: the split's index in between.
	prefixBeamSplit = []byte("flink_taskmanager_job_task_operator_source_splits_")
	suffixBeamSplit = []byte("_elements_read")
	// The same, TOPIC_PARTITION following, for each partition a record of which was read.
	prefixBeamPartition = []byte("flink_taskmanager_job_task_operator_KafkaIOReader_rawSize_")
)

const (
	// maxLine bounds a line; Flink's are a few hundred bytes, more with long job and operator names.
	maxLine = 1 << 20
	// maxExecutions and maxTaskManagers bound what one exposition can make the exporter hold.
	maxExecutions   = 100_000
	maxTaskManagers = 10_000
)

// Reading is what one exposition shows of one TaskManager.
type Reading struct {
	// TaskManager is the label tm_id.
	TaskManager  string
	Executions   []lineage.ReportedExecution
	Unidentified int
}

// labels are those of one series that matter, as slices of its line.
type labels struct {
	taskManager, jobID, jobName, vertexID, vertexName, subtask, attemptID, attempt, operatorID, topic, partition []byte
}

// reading is a Reading in the making.
type reading struct {
	Reading
	index map[string]int
	// sources has what each execution tells of itself as a source; whether it is one shows at the end.
	sources []lineage.SourceProgress
	// heads has whether a source of FLIP-27 is at the head of each execution's chain.
	heads []bool
}

// Read reads an exposition line by line and holds no more of it than one line and the executions found. It returns one Reading for each
// TaskManager that it names, none for the reporter of a JobManager or for anything else.
func Read(r io.Reader) ([]Reading, error) {
	lines := bufio.NewReaderSize(r, 64<<10)
	var readings []*reading
	byLabel := map[string]*reading{}
	executions := 0
	var key []byte
	for n := 1; ; n++ {
		line, err := readLine(lines)
		if errors.Is(err, io.EOF) && len(line) == 0 {
			break
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF // every line of an exposition ends with a newline
			}
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		line = bytes.TrimLeft(line, blanks)
		if len(line) > 0 && !startsName(line[0]) && line[0] != '#' {
			return nil, fmt.Errorf("line %d: not the text format of Prometheus", n)
		}
		if !bytes.HasPrefix(line, prefixTaskManager) {
			continue
		}
		name, l, value, err := parseSeries(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if len(l.taskManager) == 0 {
			continue
		}
		rd := byLabel[string(l.taskManager)]
		if rd == nil {
			if len(readings) == maxTaskManagers {
				return nil, fmt.Errorf("line %d: more than %d TaskManagers", n, maxTaskManagers)
			}
			rd = &reading{Reading: Reading{TaskManager: text(l.taskManager)}, index: map[string]int{}}
			byLabel[string(l.taskManager)] = rd
			readings = append(readings, rd)
		}
		if !bytes.HasPrefix(name, prefixTask) {
			continue
		}
		before := len(rd.Executions)
		key = rd.add(name, &l, value, key)
		if executions += len(rd.Executions) - before; executions > maxExecutions {
			return nil, fmt.Errorf("line %d: more than %d executions", n, maxExecutions)
		}
	}
	result := make([]Reading, 0, len(readings))
	for _, rd := range readings {
		rd.settle()
		result = append(result, rd.Reading)
	}
	return result, nil
}

func startsName(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == ':' || c == '\r'
}

// readLine returns the next line without its newline; it is valid until the next call. At the end of input it returns io.EOF with what
// follows the last newline.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		long := bytes.Clone(line)
		for errors.Is(err, bufio.ErrBufferFull) {
			line, err = r.ReadSlice('\n')
			if long = append(long, line...); len(long) > maxLine {
				return nil, errors.New("line too long")
			}
		}
		line = long
	}
	if err != nil {
		return line, err
	}
	return line[:len(line)-1], nil
}

// add takes in a series of a task or operator; key is scratch space, returned for reuse.
func (rd *reading) add(name []byte, l *labels, value float64, key []byte) []byte {
	// A label that is empty is one that is missing.
	if len(l.jobID) == 0 || len(l.vertexID) == 0 || len(l.subtask) == 0 || len(l.attemptID) == 0 {
		rd.Unidentified++
		return key
	}
	key = append(key[:0], l.jobID...)
	for _, part := range [][]byte{l.vertexID, l.subtask, l.attemptID} {
		key = append(append(key, ' '), part...)
	}
	i, known := rd.index[string(key)]
	if !known {
		e, ok := l.execution()
		if !ok {
			rd.Unidentified++
			return key
		}
		i = len(rd.Executions)
		rd.index[string(key)] = i
		rd.Executions = append(rd.Executions, e)
		rd.sources = append(rd.sources, lineage.SourceProgress{})
		rd.heads = append(rd.heads, false)
	}
	source := &rd.sources[i]
	switch {
	case bytes.Equal(name, nameRecordsIn):
		if count(value) {
			rd.Executions[i].RecordsIn = value
		}
	case bytes.Equal(name, nameOperatorOut) && bytes.Equal(l.operatorID, l.vertexID):
		// The vertex' id is the id of the operator at the head of its chain.
		if count(value) {
			source.RecordsOut = value
		}
	case bytes.Equal(name, nameSourceErrors) && bytes.Equal(l.operatorID, l.vertexID):
		rd.heads[i] = true
	case bytes.Equal(name, nameKafkaOffset):
		partition, err := strconv.Atoi(string(l.partition))
		if err == nil && partition >= 0 && len(l.topic) > 0 && !math.IsNaN(value) && !math.IsInf(value, 0) {
			source.Partitions = append(source.Partitions, lineage.PartitionProgress{Topic: text(l.topic), Partition: partition, Offset: value})
		}
	case bytes.HasPrefix(name, prefixBeamPartition):
		// Topics may hold underscores; the partition is what follows the last one.
		rest := name[len(prefixBeamPartition):]
		if at := bytes.LastIndexByte(rest, '_'); at > 0 {
			if topic := text(rest[:at]); !slices.Contains(source.Topics, topic) {
				source.Topics = append(source.Topics, topic)
			}
		}
	case bytes.HasPrefix(name, prefixBeamSplit) && bytes.HasSuffix(name, suffixBeamSplit):
		// The suffix is cut off what follows the prefix: they share an underscore if there is no index.
		index, _ := bytes.CutSuffix(name[len(prefixBeamSplit):], suffixBeamSplit)
		split, err := strconv.Atoi(string(index))
		if count(value) && err == nil && split >= 0 {
			if source.Splits == nil {
				source.Splits = map[int]float64{}
			}
			source.Splits[split] = value
		}
	}
	return key
}

// count is whether a value can be a number of records; NaN and infinity cannot.
func count(value float64) bool { return value >= 0 && !math.IsInf(value, 0) }

// settle tells sources from other tasks once every series is read. Sources take no records in, but since Flink 1.19 a task counts as taken in
// what its source of FLIP-27 read (FLINK-33681).
func (rd *reading) settle() {
	for i := range rd.Executions {
		e, source := &rd.Executions[i], &rd.sources[i]
		if e.RecordsIn > 0 && !rd.heads[i] || source.RecordsOut == 0 && source.Splits == nil && source.Partitions == nil {
			continue
		}
		e.RecordsIn = source.RecordsOut
		slices.Sort(source.Topics)
		slices.SortFunc(source.Partitions, func(a, b lineage.PartitionProgress) int {
			return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
		})
		e.Source = source
	}
}

// execution makes an execution of the labels; ok is false if they do not tell subtask and attempt.
func (l *labels) execution() (lineage.ReportedExecution, bool) {
	subtask, err := strconv.Atoi(string(l.subtask))
	if err != nil || subtask < 0 {
		return lineage.ReportedExecution{}, false
	}
	e := lineage.ReportedExecution{
		JobID: text(l.jobID), JobName: text(l.jobName), VertexID: text(l.vertexID), VertexName: text(l.vertexName),
		Subtask: subtask, AttemptID: lineage.AttemptID(text(l.attemptID)),
	}
	if k, ok := e.AttemptID.Parse(); ok {
		e.Attempt = k.Attempt
		return e, k.Vertex == e.VertexID && k.Subtask == subtask
	}
	// Flink 1.15: the id is random, the number is in a label of its own.
	e.Attempt, err = strconv.Atoi(string(l.attempt))
	return e, err == nil && e.Attempt >= 0
}

// text makes a label's value one that Prometheus takes.
func text(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }

var errSeries = errors.New("malformed series")

// blanks may stand between the parts of a line.
const blanks = " \t"

// parseSeries splits a line NAME{LABEL="VALUE",...} VALUE [TIMESTAMP].
func parseSeries(line []byte) (name []byte, l labels, value float64, err error) {
	i := bytes.IndexAny(line, "{ \t")
	if i < 0 {
		return nil, l, 0, errSeries
	}
	name, rest := line[:i], bytes.TrimLeft(line[i:], blanks)
	if len(rest) > 0 && rest[0] == '{' {
		if rest, err = parseLabels(rest[1:], &l); err != nil {
			return nil, l, 0, err
		}
	}
	number := bytes.TrimSpace(rest)
	if j := bytes.IndexAny(number, blanks); j >= 0 {
		number = number[:j]
	}
	if value, err = strconv.ParseFloat(string(number), 64); err != nil && !errors.Is(err, strconv.ErrRange) {
		return nil, l, 0, errSeries
	}
	return name, l, value, nil
}

// parseLabels reads LABEL="VALUE",...} and returns what follows. A trailing comma, which Flink writes, is allowed.
func parseLabels(s []byte, l *labels) ([]byte, error) {
	for {
		s = bytes.TrimLeft(s, blanks)
		if len(s) > 0 && s[0] == '}' {
			return s[1:], nil
		}
		name, rest, ok := bytes.Cut(s, []byte{'='})
		if !ok {
			return nil, errSeries
		}
		rest = bytes.TrimLeft(rest, blanks)
		if len(rest) == 0 || rest[0] != '"' {
			return nil, errSeries
		}
		value, rest, ok := quoted(rest[1:])
		if !ok {
			return nil, errSeries
		}
		l.set(bytes.TrimRight(name, blanks), value)
		rest = bytes.TrimLeft(rest, blanks)
		switch {
		case len(rest) > 0 && rest[0] == ',':
			rest = rest[1:]
		case len(rest) == 0 || rest[0] != '}':
			return nil, errSeries
		}
		s = rest
	}
}

// quoted reads up to the closing quote and undoes escapes, which are rare.
func quoted(s []byte) (value, rest []byte, ok bool) {
	before, after, ok := bytes.Cut(s, []byte{'"'})
	if !ok {
		return nil, nil, false
	}
	if bytes.IndexByte(before, '\\') < 0 {
		return before, after, true
	}
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			return value, s[i+1:], true
		case '\\':
			if i++; i == len(s) {
				return nil, nil, false
			}
			if s[i] == 'n' {
				value = append(value, '\n')
			} else {
				value = append(value, s[i])
			}
		default:
			value = append(value, s[i])
		}
	}
	return nil, nil, false
}

func (l *labels) set(name, value []byte) {
	switch string(name) {
	case "tm_id":
		l.taskManager = value
	case "job_id":
		l.jobID = value
	case "job_name":
		l.jobName = value
	case "task_id":
		l.vertexID = value
	case "task_name":
		l.vertexName = value
	case "subtask_index":
		l.subtask = value
	case "task_attempt_id":
		l.attemptID = value
	case "task_attempt_num":
		l.attempt = value
	case "operator_id":
		l.operatorID = value
	case "topic":
		l.topic = value
	case "partition":
		l.partition = value
	}
}
