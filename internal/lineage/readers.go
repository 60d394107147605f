package lineage

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Readers are the source readers found on one TaskManager, of one vertex where that can be told.
type Readers struct {
	TaskManager string
	// Job and vertex are empty where the readers could be of several.
	Job                  JobRef
	VertexID, VertexName string
	// Beam is whether they are those of Beam's KafkaIO.
	Beam bool
	// Live readers belong to an execution that runs; leaked ones to an earlier one. A leaked reader's records go nowhere.
	Live, Leaked int
	// Duplicates is the number of live readers beyond one for each split; only if Told.
	Duplicates int
	// Told is whether it can be told how many there should be.
	Told bool
	// Confirmed is whether duplicates were seen twice, some time apart.
	Confirmed bool

	key orphanKey
}

// readersRipen is how long after the start of a source its readers are looked at in every scrape: Beam's second reader of a split comes some
// seconds after the restore.
const readersRipen = time.Minute

// source is an execution of a source as its TaskManager's reporter shows it.
type source struct {
	*ReportedExecution
	job         JobRef
	taskManager string
	key         orphanKey
}

// readers compares the readers of sources with the splits they were given.
func (j *judgement) readers() {
	j.reading = j.sources()
	sources := j.reading
	j.kafkaSourceReaders(sources)
	for i := range j.s.Dumps {
		if d := &j.s.Dumps[i]; d.Err == nil && j.readBy[ViewThreads][d.TaskManager] {
			j.beamReaders(d, sources)
			j.fetchers(d)
		}
	}
	slices.SortFunc(j.found, func(a, b Readers) int {
		return cmp.Or(cmp.Compare(a.Job.ID, b.Job.ID), cmp.Compare(a.VertexName, b.VertexName), cmp.Compare(a.VertexID, b.VertexID),
			cmp.Compare(a.TaskManager, b.TaskManager))
	})
	for i := range j.found {
		r := &j.found[i]
		r.Confirmed = r.Duplicates > 0 && j.confirmed(r.key)
	}
}

// sources lists the executions of sources that the reporters show, orphans left out: those are counted as executions.
func (j *judgement) sources() []source {
	orphans := map[orphanKey]bool{}
	for i := range j.orphans {
		orphans[j.orphans[i].key] = true
	}
	seen := map[orphanKey]bool{}
	var found []source
	for i := range j.s.Reporters {
		rep := &j.s.Reporters[i]
		if rep.Err != nil || rep.TaskManager == "" {
			continue
		}
		for k := range rep.Executions {
			e := &rep.Executions[k]
			key := reporterKey(rep.TaskManager, e)
			if seen[key] || orphans[key] {
				continue
			}
			seen[key] = true
			if e.Source != nil || j.beamVertex(e) {
				found = append(found, source{e, j.job(j.jobRef(e)).ref, cmp.Or(j.ids[Sanitize(rep.TaskManager)], rep.TaskManager), key})
			}
		}
	}
	return found
}

type vertexKey struct{ job, vertex string }

// beamVertex is whether the vertex is a Beam KafkaIO source: some execution of it has read a split, now or in an earlier scrape.
func (j *judgement) beamVertex(e *ReportedExecution) bool {
	if j.beam == nil {
		j.beam = map[vertexKey]bool{}
		for id, known := range j.m.jobs {
			for v := range known.beam {
				j.beam[vertexKey{id, v}] = true
			}
		}
		for i := range j.s.Reporters {
			for k := range j.s.Reporters[i].Executions {
				if x := &j.s.Reporters[i].Executions[k]; x.Source != nil && len(x.Source.Splits) > 0 {
					j.beam[vertexKey{x.JobID, x.VertexID}] = true
				}
			}
		}
	}
	return j.beam[vertexKey{e.JobID, e.VertexID}]
}

// kafkaSourceReaders finds partitions that two subtasks of one KafkaSource read: Flink's connector names them in its series.
func (j *judgement) kafkaSourceReaders(sources []source) {
	type partition struct {
		vertexKey
		topic     string
		partition int
	}
	readers := map[partition]map[int]bool{} // subtasks
	for _, s := range sources {
		if s.Source == nil {
			continue
		}
		for _, p := range s.Source.Partitions {
			k := partition{vertexKey{s.JobID, s.VertexID}, p.Topic, p.Partition}
			if readers[k] == nil {
				readers[k] = map[int]bool{}
			}
			readers[k][s.Subtask] = true
		}
	}
	type spot struct {
		vertexKey
		taskManager string
	}
	found := map[spot]*Readers{}
	for _, s := range sources {
		if s.Source == nil || len(s.Source.Partitions) == 0 {
			continue
		}
		k := spot{vertexKey{s.JobID, s.VertexID}, s.taskManager}
		r := found[k]
		if r == nil {
			r = &Readers{
				TaskManager: s.taskManager, Job: s.job, VertexID: s.VertexID, VertexName: j.vertexName(s.JobID, s.VertexID, s.VertexName),
				Told: j.complete(ViewReporter), key: readersKey(s.taskManager, s.JobID+" "+s.VertexID),
			}
			found[k] = r
		}
		r.Live++
		for _, p := range s.Source.Partitions {
			if len(readers[partition{k.vertexKey, p.Topic, p.Partition}]) > 1 {
				r.Duplicates++
				r.Told = true
			}
		}
	}
	for _, r := range found {
		j.found = append(j.found, *r)
	}
}

func readersKey(taskManager, whose string) orphanKey {
	return orphanKey{viewReaders, Sanitize(taskManager), whose}
}

// beamReaders judges the threads of Beam's KafkaIO sources on one TaskManager. Their names tell no task, but the JVM's thread ids ascend: a
// reader older than every source task's thread belonged to an earlier attempt and is leaked; one younger than all of them is at work.
func (j *judgement) beamReaders(d *ThreadDump, all []source) {
	var readers []*Thread
	for i := range d.Threads {
		if d.Threads[i].Kind == BeamKafkaThread {
			readers = append(readers, &d.Threads[i])
		}
	}
	var sources []source
	for _, s := range all {
		if s.taskManager == d.TaskManager && j.beamVertex(s.ReportedExecution) {
			sources = append(sources, s)
			if j.s.Time.Sub(j.m.firstSeen(s.key, j.s.Time)) < readersRipen {
				j.unsettled[d.TaskManager] = true
			}
		}
	}
	if len(readers) == 0 && len(sources) == 0 {
		return
	}
	r := Readers{TaskManager: d.TaskManager, Beam: true, key: readersKey(d.TaskManager, "beam")}
	r.attribute(j, sources)
	defer func() { j.found = append(j.found, r) }()
	first, last, ok := d.ages(sources)
	switch {
	case !ok:
		// The dump is of before or after the executions shown: look again.
		j.unsettled[d.TaskManager] = true
		r.Live = len(readers)
		return
	case len(sources) == 0:
		// No source is known to read by such threads; if none runs at all they are left over.
		tasks := d.sourceTasks()
		if len(tasks) == 0 {
			r.Leaked, r.Told = len(readers), true
			return
		}
		if r.Live = len(readers); r.Live > len(tasks) {
			for _, t := range tasks {
				for _, v := range owners(j.named[t.Task.Vertex]) {
					j.job(v.job).untold = true
				}
			}
		}
		return
	}
	sure, unsure, unsurePolls := 0, 0, 0
	for _, t := range readers {
		switch {
		case t.ID > last:
			sure++
		case t.ID < first:
			r.Leaked++
		default:
			// Of a task that kept running while another restarted, or left over from the one that restarted.
			unsure++
			if t.Polls {
				unsurePolls++
			}
		}
	}
	r.count(j.splitsOf(sources), sure, unsure, unsurePolls)
	// Before a restore every source that runs has a split and so a reader, after one it may have none. With as many readers as sources
	// nothing points to a restore; with fewer, the one a silent source lacks may be another's second.
	if !r.Told && r.Live != len(sources) {
		for _, s := range sources {
			j.job(s.job).untold = true
		}
	}
}

// splitCount is what is known of the splits that sources were given.
type splitCount struct {
	// read is the number of splits of which something was read.
	read int
	// silent is the number of executions that read nothing yet, most the largest number of splits one execution is known to have, 1 at least.
	silent, most int
	// all is the number of splits of the sources' vertices on all TaskManagers; 0 if it is not known.
	all int
}

// limit is the largest number of splits there can be.
func (c splitCount) limit() int {
	n := c.read + c.silent*c.most
	if c.all > 0 {
		n = min(n, max(c.all, c.read))
	}
	return n
}

func (j *judgement) splitsOf(sources []source) splitCount {
	c := splitCount{most: 1}
	vertices := map[vertexKey]int{}
	for _, s := range sources {
		n := 0
		if s.Source != nil {
			n = len(s.Source.Splits)
		}
		c.read += n
		c.most = max(c.most, n)
		if n == 0 {
			c.silent++
		}
		vertices[vertexKey{s.JobID, s.VertexID}] = 0
		if known := j.m.jobs[s.JobID]; known != nil {
			vertices[vertexKey{s.JobID, s.VertexID}] = known.beam[s.VertexID]
		}
	}
	for _, n := range vertices {
		if n == 0 {
			return c
		}
	}
	for _, n := range vertices {
		c.all += n
	}
	return c
}

// count compares readers with splits. Readers between the ages of two source tasks count as live as far as there are splits for them; more
// than that are live only if they poll, which one that is left over does not once its partitions have had a record.
func (r *Readers) count(c splitCount, sure, unsure, unsurePolls int) {
	r.Live = sure + unsure
	if sure+unsure > c.read && unsure > 0 {
		live := max(min(sure+unsure, c.read), sure+unsurePolls)
		r.Live, r.Leaked = live, r.Leaked+sure+unsure-live
	}
	switch {
	case r.Live <= c.read:
		r.Told = true
	case c.silent == 0:
		r.Duplicates, r.Told = r.Live-c.read, true
	case r.Live > c.limit():
		r.Duplicates, r.Told = r.Live-c.limit(), true
	}
	// Otherwise the readers too many may be of executions that read nothing yet.
}

// attribute names job and vertex if all sources are of one.
func (r *Readers) attribute(j *judgement, sources []source) {
	if len(sources) == 0 {
		return
	}
	s := sources[0]
	sameVertex := true
	for _, x := range sources[1:] {
		if x.job != s.job {
			return
		}
		sameVertex = sameVertex && x.VertexID == s.VertexID
	}
	r.Job = s.job
	if sameVertex {
		r.VertexID, r.VertexName = s.VertexID, j.vertexName(s.JobID, s.VertexID, s.VertexName)
	}
}

// ages finds the ids of the oldest and youngest task thread of the sources; ok is false if the dump lacks one of them.
func (d *ThreadDump) ages(sources []source) (first, last int64, ok bool) {
	for _, s := range sources {
		found := false
		for i := range d.Threads {
			t := &d.Threads[i]
			if t.Kind != TaskThread || t.Task.Subtask != s.Subtask || t.Task.Attempt != s.Attempt || Sanitize(t.Task.Vertex) != Sanitize(s.VertexName) {
				continue
			}
			if found = true; first == 0 || t.ID < first {
				first = t.ID
			}
			last = max(last, t.ID)
		}
		if !found {
			return 0, 0, false
		}
	}
	return first, last, true
}

// sourceTasks are the threads of source tasks: Flink begins the name of a vertex that holds a source with "Source: ".
func (d *ThreadDump) sourceTasks() []*Thread {
	var found []*Thread
	for i := range d.Threads {
		if t := &d.Threads[i]; t.Kind == TaskThread && strings.HasPrefix(t.Task.Vertex, "Source: ") {
			found = append(found, t)
		}
	}
	return found
}

// fetchers counts the fetcher threads of FLIP-27 sources and of the legacy FlinkKafkaConsumer by vertex. How many a task should have is not
// known of every connector, so that nothing is said of duplicates.
func (j *judgement) fetchers(d *ThreadDump) {
	found := map[namedVertex]*Readers{}
	for i := range d.Threads {
		t := &d.Threads[i]
		if t.Kind != FetcherThread && t.Kind != KafkaFetcherThread {
			continue
		}
		v := namedVertex{}
		if vs := owners(j.named[t.Task.Vertex]); len(vs) == 1 {
			v = vs[0]
		}
		r := found[v]
		if r == nil {
			r = &Readers{TaskManager: d.TaskManager, Job: v.job, VertexID: v.vertex, key: readersKey(d.TaskManager, "fetchers "+v.job.ID+" "+v.vertex)}
			if v.vertex != "" {
				r.VertexName = t.Task.Vertex
			}
			found[v] = r
		}
		if d.works(t, t.Task) {
			r.Live++
		} else {
			r.Leaked++
		}
	}
	for _, r := range found {
		j.merge(r)
	}
}

// merge adds what threads tell of a vertex' readers to what the reporter told.
func (j *judgement) merge(r *Readers) {
	for i := range j.found {
		x := &j.found[i]
		if !x.Beam && x.TaskManager == r.TaskManager && x.Job == r.Job && x.VertexID == r.VertexID {
			x.Live = max(x.Live, r.Live)
			x.Leaked += r.Leaked
			return
		}
	}
	j.found = append(j.found, *r)
}

// duplicateReaders adds up the confirmed duplicate readers of a job, by TaskManager.
func (j *judgement) duplicateReaders(job string) (total int, restart map[string]bool) {
	restart = map[string]bool{}
	for i := range j.found {
		if r := &j.found[i]; r.Job.ID == job && r.Confirmed {
			total += r.Duplicates
			restart[r.TaskManager] = true
		}
	}
	return total, restart
}

// unconfirmedReaders is whether duplicate readers that may be this job's were seen only once so far, or could be another's too.
func (j *judgement) unconfirmedReaders(job string) bool {
	for i := range j.found {
		r := &j.found[i]
		if r.Duplicates > 0 && (r.Job.ID == job && !r.Confirmed || r.Job.ID == "" && j.reads(job, r.TaskManager)) {
			return true
		}
	}
	return false
}

// reads is whether a Beam KafkaIO source of the job runs on the TaskManager.
func (j *judgement) reads(job, taskManager string) bool {
	return slices.ContainsFunc(j.reading, func(s source) bool {
		return s.JobID == job && s.taskManager == taskManager && j.beamVertex(s.ReportedExecution)
	})
}

// rememberBeam keeps which vertices are Beam KafkaIO sources and how many splits they have. KafkaIO makes at most one split for each subtask
// (Beam 2.56); a subtask without one finishes at once, but after a restore goes on running with nothing to do. So the subtasks that do not
// finish are the splits, as long as some do.
func (m *Memory) rememberBeam(s *Snapshot) {
	for i := range s.Reporters {
		for k := range s.Reporters[i].Executions {
			e := &s.Reporters[i].Executions[k]
			if j := m.jobs[e.JobID]; j != nil && e.Source != nil && len(e.Source.Splits) > 0 {
				if j.beam == nil {
					j.beam = map[string]int{}
				}
				j.beam[e.VertexID] += 0
			}
		}
	}
	if s.Leader == nil {
		return
	}
	for i := range s.Leader.Jobs {
		job := &s.Leader.Jobs[i]
		known := m.jobs[job.ID]
		if known == nil || !job.Detailed {
			continue
		}
		for k := range job.Vertices {
			v := &job.Vertices[k]
			if _, ok := known.beam[v.ID]; ok && v.Tasks[Finished] > 0 {
				known.beam[v.ID] = v.Parallelism - v.Tasks[Finished]
			}
		}
	}
}
