package ledger

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/flink-lineage/flink-lineage-exporter/internal/lineage"
)

// SourceConfig is what is configured about a source, where it does not tell itself.
type SourceConfig struct {
	// Job and Vertex are names as the JobManager shows them.
	Job, Vertex string
	// Topics are the topics it reads, by name; empty if the source names them itself.
	Topics []string
	// Group is the consumer group with which it commits offsets; empty if it commits none or that is not known.
	Group string
	// ReadCommitted is whether it reads committed records only (isolation.level).
	ReadCommitted bool
}

// SourceObservation is what one scrape saw of a source vertex of a job. There is at most one for each job and vertex in a scrape.
type SourceObservation struct {
	JobID, JobName       string
	VertexID, VertexName string
	// JobStart is the job's start time; zero if the leader was not seen.
	JobStart time.Time
	// FlinkVersion is the leader's, empty if it was not told.
	FlinkVersion string
	// Led is whether names are as the leader has them. Otherwise they are as in the reporter's labels.
	Led bool
	// Executions are all that read as this source, orphans included: that is the point.
	Executions []Execution
	// Missing counts executions that the leader has running and no reporter shows.
	Missing int
	// Unread are the reporters that did not answer; executions may be behind them.
	Unread []string
	// Topics are the names of what it reads, sorted.
	Topics []string
	// TopicsErr says why Topics is not known; nil if it is.
	TopicsErr error
	// Group and ReadCommitted are as configured.
	Group         string
	ReadCommitted bool
	// Committed are the offsets committed by the group; nil if they are not known.
	Committed map[TopicPartition]int64
}

// Execution is one execution of a source.
type Execution struct {
	ExecutionKey
	// Reporter is where it was seen.
	Reporter string
	// RecordsOut is the records it sent so far.
	RecordsOut float64
	// Partitions are those it reads, with the offset of the last record read; negative before the first. Nil if it does not tell.
	Partitions []lineage.PartitionProgress
	// Topics are labels of topics it has read, where it tells no partitions.
	Topics []string
}

// ExecutionKey tells executions apart: in some incidents one attempt id is seen on two TaskManagers.
type ExecutionKey struct {
	// TaskManager is as in the reporter's label tm_id.
	TaskManager string
	Attempt     lineage.AttemptID
}

type sourceKey struct{ job, vertex string }

// Sources returns the sources that the reporters show, in the order of job and vertex id. Topics are those configured; the others are
// known after Fetch. A vertex is a source if one of its executions tells of itself as a source and none takes records in, or if it is
// configured.
func Sources(s *lineage.Snapshot, configured []SourceConfig) []SourceObservation {
	found := map[sourceKey]*SourceObservation{}
	tells := map[sourceKey]bool{}
	takesIn := map[sourceKey]bool{}
	attempts := map[sourceKey]map[[2]int]bool{}
	seen := map[ExecutionKey]bool{}
	var unread []string
	for i := range s.Reporters {
		rep := &s.Reporters[i]
		if rep.Err != nil {
			unread = append(unread, rep.URL)
			continue
		}
		for j := range rep.Executions {
			e := &rep.Executions[j]
			key := ExecutionKey{rep.TaskManager, e.AttemptID}
			if seen[key] {
				continue // the same TaskManager under two addresses
			}
			seen[key] = true
			k := sourceKey{e.JobID, e.VertexID}
			o := found[k]
			if o == nil {
				o = &SourceObservation{JobID: e.JobID, JobName: e.JobName, VertexID: e.VertexID, VertexName: e.VertexName}
				found[k], attempts[k] = o, map[[2]int]bool{}
			}
			execution := Execution{ExecutionKey: key, Reporter: rep.URL}
			if e.Source != nil {
				tells[k] = true
				execution.RecordsOut = e.Source.RecordsOut
				execution.Partitions = slices.Clone(e.Source.Partitions)
				execution.Topics = e.Source.Topics
			}
			takesIn[k] = takesIn[k] || e.Source == nil && e.RecordsIn > 0
			attempts[k][[2]int{e.Subtask, e.Attempt}] = true
			o.Executions = append(o.Executions, execution)
		}
	}
	sources := make([]SourceObservation, 0, len(found))
	for k, o := range found {
		o.Unread = unread
		o.lead(s.Leader, attempts[k])
		isConfigured := o.configure(configured)
		if takesIn[k] || !tells[k] && !isConfigured {
			continue
		}
		sources = append(sources, *o)
	}
	slices.SortFunc(sources, func(a, b SourceObservation) int {
		return cmp.Or(cmp.Compare(a.JobID, b.JobID), cmp.Compare(a.VertexID, b.VertexID))
	})
	return sources
}

// lead takes over what the leader says of the source. shown are subtask and attempt of what the reporters show of it.
func (o *SourceObservation) lead(v *lineage.LeaderView, shown map[[2]int]bool) {
	if v == nil {
		return
	}
	if v.Overview != nil {
		o.FlinkVersion = v.Overview.FlinkVersion
	}
	for i := range v.Jobs {
		job := &v.Jobs[i]
		if job.ID != o.JobID {
			continue
		}
		o.JobName, o.JobStart = job.Name, job.StartTime
		for j := range job.Vertices {
			vertex := &job.Vertices[j]
			if vertex.ID != o.VertexID {
				continue
			}
			o.VertexName, o.Led = vertex.Name, true
			for _, e := range vertex.Executions {
				if e.State == lineage.Running && !shown[[2]int{e.Subtask, e.Attempt}] {
					o.Missing++
				}
			}
		}
	}
}

// configure takes over what is configured of the source, and says whether anything is.
func (o *SourceObservation) configure(configured []SourceConfig) bool {
	known := false
	for _, c := range configured {
		// Without a leader, names are as in the reporter's labels.
		same := c.Job == o.JobName && c.Vertex == o.VertexName
		if !o.Led {
			same = lineage.Sanitize(c.Job) == lineage.Sanitize(o.JobName) && lineage.Sanitize(c.Vertex) == lineage.Sanitize(o.VertexName)
		}
		if !same {
			continue
		}
		known = true
		o.Topics = append(o.Topics, c.Topics...)
		o.Group = cmp.Or(o.Group, c.Group)
		o.ReadCommitted = o.ReadCommitted || c.ReadCommitted
	}
	slices.Sort(o.Topics)
	o.Topics = slices.Compact(o.Topics)
	return known
}

// topicLabel is what balances have as their topic.
func (o *SourceObservation) topicLabel() string { return strings.Join(o.Topics, ",") }
