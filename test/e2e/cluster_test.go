package main

import (
	"testing"
	"time"

	"github.com/flink-lineage/flink-lineage-exporter/test/lab"
)

func TestHandover(t *testing.T) {
	one, two := &lab.TaskManager{Sink: "one"}, &lab.TaskManager{Sink: "two"}
	write := func(second int, writer string) lab.Write {
		return lab.Write{Time: time.Unix(int64(second), 0), Writer: writer}
	}
	at := time.Unix(10, 0)
	for name, test := range map[string]struct {
		one, two []lab.Write
		gap      time.Duration
		begun    int
		late     *lab.TaskManager
	}{
		"clean, on another TaskManager": {
			one: []lab.Write{write(1, "w (1/1)#0@1"), write(11, "w (1/1)#0@1")},
			two: []lab.Write{write(14, "w (1/1)#0@1"), write(15, "w (1/1)#0@1")},
			gap: 3 * time.Second, begun: 1,
		},
		"an old execution goes on beside the new one": {
			one: []lab.Write{write(9, "w (1/1)#0@1"), write(12, "w (1/1)#0@2"), write(13, "w (1/1)#0@1"), write(14, "w (1/1)#0@2")},
			two: []lab.Write{write(8, "w (1/1)#0@1")},
			gap: -time.Second, begun: 1, late: one,
		},
		"two new executions": {
			two: []lab.Write{write(9, "w (1/1)#0@1"), write(12, "w (1/2)#0@2"), write(13, "w (2/2)#0@3")},
			gap: 3 * time.Second, begun: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := handoverOf(map[*lab.TaskManager][]lab.Write{one: test.one, two: test.two}, at)
			if h.gap() != test.gap || h.begun != test.begun {
				t.Errorf("got a gap of %s and %d executions, want %s and %d", h.gap(), h.begun, test.gap, test.begun)
			}
			if test.late == nil && len(h.late) != 0 || test.late != nil && (len(h.late) != 1 || h.late[0] != test.late) {
				t.Errorf("old executions are late on %v, want %v", h.late, test.late)
			}
		})
	}
	if h := handoverOf(map[*lab.TaskManager][]lab.Write{one: {write(9, "w"), write(12, "w")}}, at); !h.first.IsZero() || h.late != nil {
		t.Errorf("without a new execution there is no handover, got %v", h)
	}
}
