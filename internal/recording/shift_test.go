package recording

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestShift(t *testing.T) {
	r := tiny(map[string]Response{
		"/jobs/j": ok(`{"now":1000000,"start-time":900000,"end-time":-1,"duration":100000,"timestamps":{"RUNNING":950000,"FAILED":0},` +
			`"vertices":[{"start-time":960000,"end-time":-1,"tasks":{"RUNNING":2}}]}`),
		"/jobs/j/vertices/v":      ok(`{"now":999000,"subtasks":[{"start-time":960000,"start_time":960000,"end-time":970000,"status-duration":{"RUNNING":5000}}]}`),
		"/jobs/j/checkpoints":     ok(`{"history":[{"trigger_timestamp":1,"latest_ack_timestamp":2,"failure_timestamp":3,"id":4}],"latest":{"restored":{"restore_timestamp":5}}}`),
		"/jobs/j/exceptions":      ok(`{"timestamp":7,"exceptionHistory":{"entries":[{"timestamp":8}]}}`),
		"/jobs/j/config":          ok(`{"execution-config":{"user-config":{"now":9}}}`),
		"/jobs/overview":          ok(`{"jobs":[{"start-time":900000,"last-modification":990000,"end-time":-1}]}`),
		"/taskmanagers":           ok(`{"taskmanagers":[{"timeSinceLastHeartbeat":998000,"dataPort":1234},{"timeSinceLastHeartbeat":0}]}`),
		"/taskmanagers/tm":        {Status: 0, Body: text("now")},
		"/jobs/j/vertices/v/oops": ok(`"now"`),
	})
	before, _ := json.Marshal(r)
	if got := r.Now(); got != time.UnixMilli(1000000) {
		t.Errorf("now %v", got)
	}
	shifted := r.Shift(time.UnixMilli(3000000))
	for path, want := range map[string]string{
		"/jobs/j": `{"duration":100000,"end-time":-1,"now":3000000,"start-time":2900000,"timestamps":{"FAILED":0,"RUNNING":2950000},` +
			`"vertices":[{"end-time":-1,"start-time":2960000,"tasks":{"RUNNING":2}}]}`,
		"/jobs/j/vertices/v":      `{"now":2999000,"subtasks":[{"end-time":2970000,"start-time":2960000,"start_time":2960000,"status-duration":{"RUNNING":5000}}]}`,
		"/jobs/j/checkpoints":     `{"history":[{"failure_timestamp":2000003,"id":4,"latest_ack_timestamp":2000002,"trigger_timestamp":2000001}],"latest":{"restored":{"restore_timestamp":2000005}}}`,
		"/jobs/j/exceptions":      `{"exceptionHistory":{"entries":[{"timestamp":2000008}]},"timestamp":2000007}`,
		"/jobs/j/config":          `{"execution-config":{"user-config":{"now":9}}}`,
		"/jobs/overview":          `{"jobs":[{"end-time":-1,"last-modification":2990000,"start-time":2900000}]}`,
		"/taskmanagers":           `{"taskmanagers":[{"dataPort":1234,"timeSinceLastHeartbeat":2998000},{"timeSinceLastHeartbeat":0}]}`,
		"/taskmanagers/tm":        `"now"`,
		"/jobs/j/vertices/v/oops": `"now"`,
	} {
		if got := string(shifted.JobManagers[0].Responses[path].Body); got != want {
			t.Errorf("%s: %s\nwant %s", path, got, want)
		}
	}
	if after, _ := json.Marshal(r); string(after) != string(before) {
		t.Error("the recording itself changed")
	}
}

func TestShiftRecordings(t *testing.T) {
	forEachRecording(t, func(t *testing.T, r *Recording) {
		made := r.Now()
		there := r.Shift(time.UnixMilli(1_900_000_000_000))
		if made.IsZero() {
			if !strings.Contains(r.Scenario, "no-leader") && !strings.Contains(r.Scenario, "leader-just-died") {
				t.Error("tells no time")
			}
			if !reflect.DeepEqual(there, r) {
				t.Error("a recording without times changed")
			}
			return
		}
		if got := there.Now().UnixMilli(); got != 1_900_000_000_000 {
			t.Errorf("now is %d", got)
		}
		// The recordings were made in one era, and nothing of it is left.
		era := fmt.Sprint(made.UnixMilli())[:4]
		for _, jm := range there.JobManagers {
			for path, resp := range jm.Responses {
				v, err := decode(resp.Body)
				if err != nil {
					t.Fatal(err)
				}
				eachNumber(v, func(n json.Number) {
					if len(n) == 13 && strings.HasPrefix(string(n), era) {
						t.Errorf("%s: %s is left", path, n)
					}
				})
			}
		}
		if back := there.Shift(made); !reflect.DeepEqual(back, r) {
			t.Error("shifting back gives another recording")
		}
	})
}

func eachNumber(v any, f func(json.Number)) {
	switch v := v.(type) {
	case json.Number:
		f(v)
	case []any:
		for _, e := range v {
			eachNumber(e, f)
		}
	case map[string]any:
		for _, e := range v {
			eachNumber(e, f)
		}
	}
}
