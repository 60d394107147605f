package recording

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// timeKeys are the keys of the REST API, Flink 1.15 to 2.3, whose numbers are milliseconds since the epoch; 0 and -1 stand for never.
// timeSinceLastHeartbeat is one in spite of its name. Every number in an object timestamps is one too.
var timeKeys = map[string]bool{
	"now":                    true,
	"start-time":             true,
	"start_time":             true,
	"end-time":               true,
	"last-modification":      true,
	"timestamp":              true,
	"trigger_timestamp":      true,
	"latest_ack_timestamp":   true,
	"failure_timestamp":      true,
	"restore_timestamp":      true,
	"timeSinceLastHeartbeat": true,
}

// Now returns when the recording was made by the JobManagers' clocks: the latest now of their answers, else the latest heartbeat of a
// TaskManager; zero if neither was answered.
func (r *Recording) Now() time.Time {
	var now, heartbeat int64
	for _, jm := range r.JobManagers {
		for path, resp := range jm.Responses {
			if !hasTimes(path) {
				continue
			}
			eachTime(resp.Body, func(key string, ms int64) int64 {
				switch key {
				case "now":
					now = max(now, ms)
				case "timeSinceLastHeartbeat":
					heartbeat = max(heartbeat, ms)
				}
				return ms
			})
		}
	}
	switch {
	case now != 0:
		return time.UnixMilli(now)
	case heartbeat != 0:
		return time.UnixMilli(heartbeat)
	}
	return time.Time{}
}

// Shift returns a copy of the recording that was made now: every time the REST API tells is moved by the same amount, so that Now is now.
// Reporters' series and free text stay as they are, and so does a recording that tells no time.
func (r *Recording) Shift(now time.Time) *Recording {
	out := r.clone()
	made := r.Now()
	if made.IsZero() {
		return out
	}
	by := now.UnixMilli() - made.UnixMilli()
	for _, jm := range out.JobManagers {
		for path, resp := range jm.Responses {
			if hasTimes(path) {
				resp.Body = eachTime(resp.Body, func(_ string, ms int64) int64 { return ms + by })
				jm.Responses[path] = resp
			}
		}
	}
	return out
}

// hasTimes is whether the answers at a path may tell times: those that only list options do not, whatever the options are called.
func hasTimes(path string) bool {
	return (strings.HasPrefix(path, "/jobs") || strings.HasPrefix(path, "/taskmanagers")) &&
		!strings.HasSuffix(path, "/config") && !strings.HasSuffix(path, "/thread-dump")
}

// eachTime calls f for each time in a JSON text and returns the text with the times that f returned. What is no JSON stays as it is.
func eachTime(body json.RawMessage, f func(key string, ms int64) int64) json.RawMessage {
	v, err := decode(body)
	if err != nil {
		return body
	}
	walkTimes(v, false, f)
	out, err := encode(v)
	if err != nil {
		return body
	}
	return out
}

// walkTimes is eachTime for a decoded value; in an object timestamps every number is a time.
func walkTimes(v any, timestamps bool, f func(key string, ms int64) int64) {
	switch v := v.(type) {
	case map[string]any:
		for key, member := range v {
			n, isNumber := member.(json.Number)
			if !isNumber {
				walkTimes(member, key == "timestamps", f)
				continue
			}
			if ms, err := n.Int64(); err == nil && ms > 0 && (timestamps || timeKeys[key]) {
				v[key] = json.Number(strconv.FormatInt(f(key, ms), 10))
			}
		}
	case []any:
		for _, element := range v {
			walkTimes(element, false, f)
		}
	}
}

// clone returns a copy that shares nothing that is changed in place.
func (r *Recording) clone() *Recording {
	out := *r
	out.JobManagers = make([]JobManager, len(r.JobManagers))
	for i, jm := range r.JobManagers {
		responses := make(map[string]Response, len(jm.Responses))
		for path, resp := range jm.Responses {
			resp.Body = append(json.RawMessage{}, resp.Body...)
			responses[path] = resp
		}
		out.JobManagers[i] = JobManager{URL: jm.URL, Responses: responses}
	}
	out.TaskManagers = append([]TaskManager{}, r.TaskManagers...)
	return &out
}
