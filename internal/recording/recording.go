// Package recording holds what a Flink cluster answered at one moment: it reads and writes recordings, makes them from a live cluster,
// strips secrets and names from them, and serves them again on loopback as JobManagers and reporters.
//
// A recording is gzipped JSON, format 1:
//
//	{"format": 1, "flink_version": "1.17.2", "scenario": "...", "note": "...",
//	 "jobmanagers":  [{"url": "...", "responses": {"/overview": {"status": 200, "body": JSON or string}, ...}}],
//	 "taskmanagers": [{"metrics_url": "...", "status": 200, "metrics": "Prometheus text"}]}
package recording

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Format is the version of the format that this package reads and writes.
const Format = 1

// Recording is what one cluster answered at one moment.
type Recording struct {
	// Format is the version of the format.
	Format int `json:"format"`
	// FlinkVersion is flink-version of the first JobManager that told it, or empty.
	FlinkVersion string `json:"flink_version"`
	// Scenario is a short name of what was going on, Note a sentence about it.
	Scenario string `json:"scenario"`
	Note     string `json:"note"`
	// JobManagers are the JobManagers of the cluster, leader or not.
	JobManagers []JobManager `json:"jobmanagers"`
	// TaskManagers are the Prometheus reporters of its TaskManagers.
	TaskManagers []TaskManager `json:"taskmanagers"`
}

// JobManager is what one JobManager's REST API answered.
type JobManager struct {
	// URL is where it was, without credentials.
	URL string `json:"url"`
	// Responses are its answers by path.
	Responses map[string]Response `json:"responses"`
}

// Response is one answer of the REST API.
type Response struct {
	// Status is the HTTP status; 0 if there was no answer.
	Status int `json:"status"`
	// Body is the JSON answer, or a JSON string where the answer was no JSON or, with status 0, what went wrong.
	Body json.RawMessage `json:"body"`
}

// TaskManager is what one TaskManager's Prometheus reporter answered.
type TaskManager struct {
	// MetricsURL is where the reporter was, without credentials.
	MetricsURL string `json:"metrics_url"`
	// Status is the HTTP status; 0 if there was no answer.
	Status int `json:"status"`
	// Metrics is the answer in Prometheus' text format or, with status 0, what went wrong.
	Metrics string `json:"metrics"`
}

// validate says what is wrong with a recording that could not be served.
func (r *Recording) validate() error {
	if r.Format != Format {
		return fmt.Errorf("recording has format %d, only format %d is known", r.Format, Format)
	}
	for i, jm := range r.JobManagers {
		for path, resp := range jm.Responses {
			if !strings.HasPrefix(path, "/") {
				return fmt.Errorf("jobmanagers[%d]: path %q does not begin with a slash", i, path)
			}
			if !validStatus(resp.Status) {
				return fmt.Errorf("jobmanagers[%d]: %s: %d is no HTTP status", i, path, resp.Status)
			}
			if len(resp.Body) == 0 {
				return fmt.Errorf("jobmanagers[%d]: %s: has no body", i, path)
			}
		}
	}
	for i, tm := range r.TaskManagers {
		if !validStatus(tm.Status) {
			return fmt.Errorf("taskmanagers[%d]: %d is no HTTP status", i, tm.Status)
		}
	}
	return nil
}

// validStatus is whether a final answer can have this status, or it stands for no answer.
func validStatus(status int) bool {
	return status == 0 || status >= 200 && status <= 599
}

// canonical returns a JSON text without insignificant white space and with the keys of its objects sorted. Numbers keep their digits.
func canonical(text []byte) (json.RawMessage, error) {
	v, err := decode(text)
	if err != nil {
		return nil, err
	}
	return encode(v)
}

// decode parses one JSON text, keeping the digits of numbers.
func decode(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, fmt.Errorf("more than one JSON value")
	}
	return v, nil
}

// encode is json.Marshal without the escapes for HTML.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// text returns a string as a JSON string.
func text(s string) json.RawMessage {
	b, err := encode(s)
	if err != nil {
		// Every string can be encoded.
		panic(err)
	}
	return b
}
