// Package flinktest serves a recorded JobManager one of whose endpoints fails, for tests.
package flinktest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/flink-lineage/flink-lineage-exporter/internal/recording"
	"github.com/flink-lineage/flink-lineage-exporter/recordings"
)

// Endpoints are the templates of the endpoints the exporter asks for.
var Endpoints = []string{
	"/overview", "/jobs/overview", "/jobs/:jobid", "/jobs/:jobid/vertices/:vertexid", "/taskmanagers", "/taskmanagers/:taskmanagerid",
	"/taskmanagers/:taskmanagerid/thread-dump",
}

var templates = map[string]*regexp.Regexp{
	"/overview":                                regexp.MustCompile(`^/overview$`),
	"/jobs/overview":                           regexp.MustCompile(`^/jobs/overview$`),
	"/jobs/:jobid":                             regexp.MustCompile(`^/jobs/[0-9a-f]{32}$`),
	"/jobs/:jobid/vertices/:vertexid":          regexp.MustCompile(`^/jobs/[0-9a-f]{32}/vertices/[0-9a-f]{32}$`),
	"/taskmanagers":                            regexp.MustCompile(`^/taskmanagers$`),
	"/taskmanagers/:taskmanagerid":             regexp.MustCompile(`^/taskmanagers/[^/]+$`),
	"/taskmanagers/:taskmanagerid/thread-dump": regexp.MustCompile(`^/taskmanagers/[^/]+/thread-dump$`),
}

// Template returns the endpoint that a path is of, or "".
func Template(path string) string {
	for template, re := range templates {
		if re.MatchString(path) {
			return template
		}
	}
	return ""
}

// Load returns a recording by its name without .json.gz.
func Load(tb testing.TB, name string) *recording.Recording {
	tb.Helper()
	rec, err := recording.LoadFS(recordings.FS, name+".json.gz")
	if err != nil {
		tb.Fatal(err)
	}
	return rec
}

// Fault is a way for one endpoint to fail. It is given the answer that would be right.
type Fault struct {
	Name  string
	Serve func(w http.ResponseWriter, r *http.Request, good []byte)
}

// Answer is a fault that answers with a status and body.
func Answer(name string, status int, contentType, body string) Fault {
	return Fault{name, func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}}
}

// Flink is a fault that answers with an error in Flink's form.
func Flink(name string, status int, errors ...string) Fault {
	body, err := json.Marshal(map[string][]string{"errors": errors})
	if err != nil {
		panic(err)
	}
	return Answer(name, status, "application/json", string(body))
}

// Errors that Flink answers with.
const (
	Election   = "Service temporarily unavailable due to an ongoing leader election. Please refresh."
	NoResource = "Cannot connect to ResourceManager right now. Please try to refresh."
	LeaderDied = "<Exception on server side:\norg.apache.flink.runtime.rpc.exceptions.RecipientUnreachableException: Could not send message " +
		"[RemoteFencedMessage(00000000000000000000000000000000, RemoteRpcInvocation(...))]"
	UnknownTaskManager = "<Exception on server side:\norg.apache.flink.runtime.resourcemanager.exceptions.UnknownTaskExecutorException: " +
		"No TaskExecutor registered under 127.0.0.1:1-a."
)

// Login is the page of a proxy that wants a login.
const Login = "<!DOCTYPE html>\n<html><head><title>Log in</title></head><body><form action=\"/login\"></form></body></html>\n"

// Hang holds the request until the client gives up.
var Hang = Fault{"timeout", func(_ http.ResponseWriter, r *http.Request, _ []byte) { <-r.Context().Done() }}

// HalfClosed promises the answer and closes the connection after half of it.
var HalfClosed = Fault{"half-closed connection", func(w http.ResponseWriter, _ *http.Request, good []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(good)))
	_, _ = w.Write(good[:len(good)/2])
	panic(http.ErrAbortHandler)
}}

// Truncated answers with half of the JSON, as a whole answer.
var Truncated = Fault{"truncated JSON", func(w http.ResponseWriter, _ *http.Request, good []byte) { _, _ = w.Write(good[:len(good)/2]) }}

// Endless never stops to answer.
var Endless = Fault{"endless body", func(w http.ResponseWriter, r *http.Request, _ []byte) {
	_, _ = w.Write([]byte(`{"padding": "`))
	chunk := []byte(strings.Repeat("x", 1<<16))
	for r.Context().Err() == nil {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}}

// Padded answers right, with so many blanks behind that it has size bytes at least.
func Padded(size int) Fault {
	return Fault{"oversized body", func(w http.ResponseWriter, _ *http.Request, good []byte) {
		_, _ = w.Write(good)
		_, _ = w.Write([]byte(strings.Repeat(" ", size)))
	}}
}

// Redirect sends the client somewhere else.
func Redirect(to string) Fault {
	return Fault{"redirect", func(w http.ResponseWriter, r *http.Request, _ []byte) {
		http.Redirect(w, r, to+r.URL.Path, http.StatusFound)
	}}
}

// Changed answers with the JSON that change makes of the right one.
func Changed(name string, change func(answer any) any) Fault {
	return Fault{name, func(w http.ResponseWriter, _ *http.Request, good []byte) {
		_, _ = w.Write(Change(good, change))
	}}
}

// Change applies change to a JSON text.
func Change(good []byte, change func(any) any) []byte {
	var answer any
	if err := json.Unmarshal(good, &answer); err != nil {
		panic(err)
	}
	out, err := json.Marshal(change(answer))
	if err != nil {
		panic(err)
	}
	return out
}

// Each applies change to every object in answer that a path of keys leads to, with "*" for each element of a list.
func Each(answer any, path string, change func(map[string]any)) {
	key, rest, more := strings.Cut(path, ".")
	switch v := answer.(type) {
	case []any:
		if key == "*" {
			for _, x := range v {
				Each(x, rest, change)
			}
		}
	case map[string]any:
		if path == "" {
			change(v)
		} else if more || key != "" {
			Each(v[key], rest, change)
		}
	}
}

// Server is a recorded JobManager.
type Server struct {
	*httptest.Server
	jm recording.JobManager

	mu       sync.Mutex
	faults   map[string]Fault
	requests map[string]int
}

// Serve serves a recorded JobManager until the test ends.
func Serve(tb testing.TB, jm recording.JobManager) *Server {
	tb.Helper()
	s := &Server{jm: jm, faults: map[string]Fault{}, requests: map[string]int{}}
	s.Server = httptest.NewUnstartedServer(s)
	s.Start()
	tb.Cleanup(s.Close)
	return s
}

// Fail makes an endpoint fail from now on; a Fault without Serve makes it work again.
func (s *Server) Fail(endpoint string, f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[endpoint] = f
}

// Requests returns how many requests there were, by path.
func (s *Server) Requests() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]int{}
	maps.Copy(out, s.requests)
	return out
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resp, ok := s.jm.Responses[r.URL.Path]
	s.mu.Lock()
	s.requests[r.URL.Path]++
	fault := s.faults[Template(r.URL.Path)]
	s.mu.Unlock()
	switch {
	case fault.Serve != nil:
		fault.Serve(w, r, resp.Body)
	case !ok:
		Flink("", http.StatusNotFound, "Not found: "+r.URL.Path).Serve(w, r, nil)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(resp.Status)
		_, _ = w.Write(resp.Body)
	}
}

// Frozen returns the address of a server that accepts connections and never answers.
func Frozen(tb testing.TB) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	// Nobody calls Accept: the kernel completes the handshake and takes in the request.
	tb.Cleanup(func() { _ = l.Close() })
	return fmt.Sprintf("http://%s", l.Addr())
}
