package recording

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log" //nolint:depguard // net/http wants one
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Server serves a recording again: one listener on loopback for each JobManager and each reporter.
type Server struct {
	jobManagers, reporters []*listener
	// now is what all listeners show. One pointer, so that they change together.
	now atomic.Pointer[moment]

	mu       sync.Mutex
	requests map[string]int

	running sync.WaitGroup
}

// listener is the address of one JobManager or reporter.
type listener struct {
	url    string
	server *http.Server
}

// moment is a recording prepared for serving.
type moment struct {
	jobManagers []jobManagerAnswers
	reporters   []answer
}

// jobManagerAnswers are one JobManager's answers by path.
type jobManagerAnswers struct {
	answers map[string]answer
	// down is whether it answers nothing at all.
	down bool
	// knowsTaskManagers is whether it lists TaskManagers. Flink then answers for one that it cannot reach with an internal error.
	knowsTaskManagers bool
}

// answer is one HTTP answer; status 0 closes the connection instead.
type answer struct {
	status      int
	contentType string
	body        []byte
}

// Content types, as Flink and its Prometheus reporter send them.
const (
	contentJSON    = "application/json; charset=UTF-8"
	contentMetrics = "text/plain; version=0.0.4; charset=utf-8"
)

// Serve starts a server that shows r. The caller closes it.
func Serve(r *Recording) (*Server, error) {
	m, err := prepare(r)
	if err != nil {
		return nil, err
	}
	s := &Server{requests: map[string]int{}}
	s.now.Store(m)
	for i := range m.jobManagers {
		l, err := s.listen("", s.jobManager(i))
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.jobManagers = append(s.jobManagers, l)
	}
	for i := range m.reporters {
		l, err := s.listen("/metrics", s.reporter(i))
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.reporters = append(s.reporters, l)
	}
	return s, nil
}

// listen starts a server on a free port of the loopback interface.
func (s *Server) listen(path string, h http.HandlerFunc) (*listener, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	s.running.Go(func() {
		// It always ends with an error, after Close with http.ErrServerClosed.
		_ = server.Serve(l)
	})
	return &listener{url: "http://" + l.Addr().String() + path, server: server}, nil
}

// JobManagerURLs returns the address of each JobManager, in the order of the recording.
func (s *Server) JobManagerURLs() []string { return urls(s.jobManagers) }

// ReporterURLs returns the address of each reporter, ending in /metrics, in the order of the recording.
func (s *Server) ReporterURLs() []string { return urls(s.reporters) }

func urls(listeners []*listener) []string {
	out := make([]string, 0, len(listeners))
	for _, l := range listeners {
		out = append(out, l.url)
	}
	return out
}

// Show switches every listener to another moment at once. JobManagers and reporters keep their place: the first of r answers where the
// first of the recording before did. Those that r lacks answer nothing; more than the server began with is an error, and nothing changes.
func (s *Server) Show(r *Recording) error {
	m, err := prepare(r)
	if err != nil {
		return err
	}
	if len(m.jobManagers) > len(s.jobManagers) || len(m.reporters) > len(s.reporters) {
		return fmt.Errorf("replay: %q has %d JobManagers and %d reporters, the server only began with %d and %d",
			r.Scenario, len(m.jobManagers), len(m.reporters), len(s.jobManagers), len(s.reporters))
	}
	s.now.Store(m)
	return nil
}

// Requests returns how many requests JobManagers answered, by path. One whose connection was closed without an answer does not count.
func (s *Server) Requests() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.requests)
}

// ResetRequests starts to count anew.
func (s *Server) ResetRequests() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.requests)
}

// Close ends every listener and connection. It can be called again.
func (s *Server) Close() error {
	var errs []error
	for _, l := range append(append([]*listener{}, s.jobManagers...), s.reporters...) {
		errs = append(errs, l.server.Close())
	}
	s.running.Wait()
	return errors.Join(errs...)
}

// jobManager answers for the JobManager with this index.
func (s *Server) jobManager(index int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		m := s.now.Load()
		if index >= len(m.jobManagers) || m.jobManagers[index].down {
			reset(w)
			return
		}
		a := m.jobManagers[index].answer(r.URL.Path)
		if a.status != 0 {
			s.mu.Lock()
			s.requests[r.URL.Path]++
			s.mu.Unlock()
		}
		a.write(w, r)
	}
}

// reporter answers for the reporter with this index.
func (s *Server) reporter(index int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		m := s.now.Load()
		if index >= len(m.reporters) {
			reset(w)
			return
		}
		// As the reporter's own server does, it answers on every path.
		m.reporters[index].write(w, r)
	}
}

// answer returns the recorded answer, or what Flink answers about something that is not there.
func (jm jobManagerAnswers) answer(path string) answer {
	if a, ok := jm.answers[path]; ok {
		return a
	}
	if id, ok := taskManagerOf(path); ok && jm.knowsTaskManagers {
		return failure(http.StatusInternalServerError, "Internal server error.", "<Exception on server side:\n"+
			"org.apache.flink.runtime.resourcemanager.exceptions.UnknownTaskExecutorException: No TaskExecutor registered under "+id+".\n"+
			"End of exception on server side>")
	}
	return failure(http.StatusNotFound, "Not found: "+path)
}

// taskManagerOf returns the TaskManager whose details or thread dump a path asks for.
func taskManagerOf(path string) (id string, ok bool) {
	id, ok = strings.CutPrefix(path, "/taskmanagers/")
	id = strings.TrimSuffix(id, "/thread-dump")
	return id, ok && id != "" && !strings.Contains(id, "/")
}

// failure is an error answer in Flink's form.
func failure(status int, messages ...string) answer {
	body, err := encode(map[string][]string{"errors": messages})
	if err != nil {
		// Every string can be encoded.
		panic(err)
	}
	return answer{status: status, contentType: contentJSON, body: body}
}

// write sends the answer.
func (a answer) write(w http.ResponseWriter, r *http.Request) {
	if a.status == 0 {
		reset(w)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		a = failure(http.StatusMethodNotAllowed, "A recording only answers GET.")
	}
	w.Header().Set("Content-Type", a.contentType)
	if a.status != http.StatusNoContent && a.status != http.StatusNotModified {
		w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	w.WriteHeader(a.status)
	// The client may be gone; it does not matter to a recording.
	_, _ = w.Write(a.body)
}

// reset ends the connection without an answer, which the client sees as "connection reset".
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		// No HTTP/1 connection; net/http then closes the stream.
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// prepare makes a recording ready for serving.
func prepare(r *Recording) (*moment, error) {
	if err := r.validate(); err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	m := &moment{}
	for _, jm := range r.JobManagers {
		out := jobManagerAnswers{answers: make(map[string]answer, len(jm.Responses)), down: true}
		for path, resp := range jm.Responses {
			out.answers[path] = resp.answer()
			if resp.Status != 0 {
				out.down = false
			}
		}
		out.knowsTaskManagers = out.answers["/taskmanagers"].status == http.StatusOK
		m.jobManagers = append(m.jobManagers, out)
	}
	for _, tm := range r.TaskManagers {
		m.reporters = append(m.reporters, answer{status: tm.Status, contentType: contentMetrics, body: []byte(tm.Metrics)})
	}
	return m, nil
}

// answer turns a recorded response into an HTTP answer. What is recorded as a string was no JSON.
func (r Response) answer() answer {
	var s string
	if r.Body[0] != '"' || json.Unmarshal(r.Body, &s) != nil {
		return answer{status: r.Status, contentType: contentJSON, body: append([]byte{}, r.Body...)}
	}
	return answer{status: r.Status, contentType: http.DetectContentType([]byte(s)), body: []byte(s)}
}
