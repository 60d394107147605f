package lineage

import "maps"

// disagreement compares the stories of the JobManagers that tell one. An aspect that fewer than two tell of is left out.
func disagreement(jms []JobManager) map[Aspect]bool {
	d := map[Aspect]bool{}
	var first, firstTM *JobManager
	for i := range jms {
		jm := &jms[i]
		switch {
		case jm.Jobs == nil:
		case first == nil:
			first = jm
		default:
			jobs, startTime := compareJobs(first.Jobs, jm.Jobs)
			d[AspectJobs] = d[AspectJobs] || jobs
			d[AspectStartTime] = d[AspectStartTime] || startTime
		}
		switch {
		case jm.TaskManagers == nil:
		case firstTM == nil:
			firstTM = jm
		default:
			d[AspectTaskManagers] = d[AspectTaskManagers] || !maps.Equal(firstTM.TaskManagers, jm.TaskManagers)
		}
	}
	return d
}

func compareJobs(a, b map[string]JobSummary) (jobs, startTime bool) {
	jobs = len(a) != len(b)
	for id, x := range a {
		y, ok := b[id]
		if !ok {
			jobs = true
			continue
		}
		startTime = startTime || !x.StartTime.Equal(y.StartTime)
	}
	return jobs, startTime
}

// surplusJobs counts the jobs of each name that run beside another of that name, for the names that may not.
func surplusJobs(jobs []Job, rules Rules) map[string]int {
	surplus := map[string]int{}
	for i := range jobs {
		j := &jobs[i]
		if j.State.Ended() || rules.AllowSameName != nil && rules.AllowSameName(j.Name) {
			continue
		}
		if n, ok := surplus[j.Name]; ok {
			surplus[j.Name] = n + 1
		} else {
			surplus[j.Name] = 0
		}
	}
	return surplus
}

// unaccountedSlots finds the slots in use that no job the leader knows explains. With allocations known (Flink 1.18 and later) these are the
// slots of jobs the leader does not know or that have ended; otherwise the slots in use beyond the executions the leader expects there,
// since each slot in use has one at least. A job that waits for slots may have been given some already, so nothing is said then.
func (j *judgement) unaccountedSlots() {
	waiting := 0
	for i := range j.s.Leader.Jobs {
		if job := &j.s.Leader.Jobs[i]; !job.State.Ended() {
			waiting += job.Tasks[Scheduled] + job.Tasks[Created]
		}
	}
	for _, tm := range j.tms {
		if tm.Leader == nil {
			continue
		}
		if slots := tm.Leader.AllocatedSlots; slots != nil {
			tm.UnaccountedSlots = 0
			for _, id := range slots {
				if job := j.jobs[id]; job == nil || job.leader == nil || job.leader.State.Ended() {
					tm.UnaccountedSlots++
				}
			}
			continue
		}
		if !j.allExpected() {
			continue
		}
		tm.UnaccountedSlots = 0
		if waiting == 0 {
			expected := 0
			for _, n := range tm.Executions[ViewJobManager] {
				expected += n
			}
			tm.UnaccountedSlots = max(0, tm.Leader.SlotsTotal-tm.Leader.SlotsFree-expected)
		}
	}
}
