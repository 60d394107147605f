package recording

import (
	"context"
	"errors"
	"time"
)

// Moment is a recording and for how long it is shown.
type Moment struct {
	Recording *Recording
	For       time.Duration
}

// Play shows the moments one after the other, again and again, until ctx ends, which is no error. All their times are shifted by the same
// span, by which the earliest happens now: what was the same time in two moments of one cluster stays the same. onShow, which may be nil, is told the index of each moment once it is shown.
func (s *Server) Play(ctx context.Context, moments []Moment, onShow func(i int)) error {
	if len(moments) == 0 {
		return errors.New("replay: no moments to play")
	}
	var first time.Time
	for _, m := range moments {
		if now := m.Recording.Now(); first.IsZero() || !now.IsZero() && now.Before(first) {
			first = now
		}
	}
	span := time.Since(first)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i := 0; ; i = (i + 1) % len(moments) {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		if ctx.Err() != nil {
			return nil
		}
		if err := s.Show(moments[i].Recording.Shift(moments[i].Recording.Now().Add(span))); err != nil {
			return err
		}
		if onShow != nil {
			onShow(i)
		}
		timer.Reset(moments[i].For)
	}
}
