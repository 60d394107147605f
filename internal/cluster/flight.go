package cluster

import (
	"context"
	"sync"
	"time"
)

// flight lets concurrent callers share one run of a function. The run does not end with the caller that began it, but when every caller has
// given up.
type flight[T any] struct {
	mu      sync.Mutex
	current *run[T]
}

type run[T any] struct {
	done    chan struct{}
	result  T
	waiting int
	cancel  context.CancelFunc
}

// margin is how long before its callers' deadline a run has to end, so that they still get what it has.
const margin = 100 * time.Millisecond

// do returns the result of the run under way, or of a new one. The run has the deadline of the caller that began it.
func (f *flight[T]) do(ctx context.Context, fn func(context.Context) T) (T, error) {
	f.mu.Lock()
	r := f.current
	if r == nil {
		r = &run[T]{done: make(chan struct{})}
		runCtx := context.WithoutCancel(ctx)
		if deadline, ok := ctx.Deadline(); ok {
			runCtx, r.cancel = context.WithDeadline(runCtx, deadline.Add(-margin))
		} else {
			runCtx, r.cancel = context.WithCancel(runCtx)
		}
		f.current = r
		go func() {
			result := fn(runCtx)
			f.mu.Lock()
			r.result = result
			if f.current == r {
				f.current = nil
			}
			f.mu.Unlock()
			r.cancel()
			close(r.done)
		}()
	}
	r.waiting++
	f.mu.Unlock()

	select {
	case <-r.done:
		return r.result, nil
	case <-ctx.Done():
		f.leave(r)
		var none T
		return none, ctx.Err()
	}
}

// leave ends a run that nobody waits for any more; a later caller begins a new one.
func (f *flight[T]) leave(r *run[T]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r.waiting--
	if r.waiting == 0 {
		r.cancel()
		if f.current == r {
			f.current = nil
		}
	}
}
