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

// Play shows the moments one after the other, again and again, until ctx ends, which is no error. Each is shown with its times shifted
// so that it happens when it is shown. onShow, which may be nil, is told the index of each moment once it is shown.
func (s *Server) Play(ctx context.Context, moments []Moment, onShow func(i int)) error {
	if len(moments) == 0 {
		return errors.New("replay: no moments to play")
	}
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
		if err := s.Show(moments[i].Recording.Shift(time.Now())); err != nil {
			return err
		}
		if onShow != nil {
			onShow(i)
		}
		timer.Reset(moments[i].For)
	}
}
