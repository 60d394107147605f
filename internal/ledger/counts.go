package ledger

import (
	"cmp"
	"slices"
	"time"
)

// counts carries the records out of a source over all executions, those that ended included.
type counts struct {
	total      float64
	executions map[ExecutionKey]*counted
}

// counted is what was last seen of an execution.
type counted struct {
	records  float64
	reporter string
	seen     time.Time
}

// observe takes in the executions. A counter that went back was reset, and what it shows has come on top; back says whether one did. An
// execution that is missing for a while, because its reporter does not answer, goes on where it was.
func (c *counts) observe(now time.Time, executions []Execution) (back bool) {
	for i := range executions {
		e := &executions[i]
		last := c.executions[e.ExecutionKey]
		switch {
		case last == nil:
			last = &counted{}
			c.executions[e.ExecutionKey] = last
			c.total += e.RecordsOut
		case e.RecordsOut < last.records:
			back = true
			c.total += e.RecordsOut
		default:
			c.total += e.RecordsOut - last.records
		}
		last.records, last.reporter, last.seen = e.RecordsOut, e.Reporter, now
	}
	c.forget(now)
	return back
}

// forget drops executions that ended long ago, and those that ended first if there are too many.
func (c *counts) forget(now time.Time) {
	var gone []ExecutionKey
	for k, e := range c.executions {
		switch {
		case now.Sub(e.seen) > forgetAfter:
			delete(c.executions, k)
		case !e.seen.Equal(now):
			gone = append(gone, k)
		}
	}
	if len(gone) <= maxGone {
		return
	}
	slices.SortFunc(gone, func(a, b ExecutionKey) int {
		return cmp.Or(c.executions[a].seen.Compare(c.executions[b].seen), cmp.Compare(a.TaskManager, b.TaskManager), cmp.Compare(a.Attempt, b.Attempt))
	})
	for _, k := range gone[:len(gone)-maxGone] {
		delete(c.executions, k)
	}
}
