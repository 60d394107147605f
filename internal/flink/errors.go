package flink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// Kind is what went wrong with a request, as far as it matters to the caller.
type Kind string

// The kinds.
const (
	// Unreachable: no whole answer came.
	Unreachable Kind = "unreachable"
	// NoLeader: a JobManager answered that no leader can be reached at the moment.
	NoLeader Kind = "no_leader"
	// NotFound: the leader does not know the job or vertex.
	NotFound Kind = "not_found"
	// UnknownTaskManager: the leader's ResourceManager does not know the TaskManager; Flink answers 500 then.
	UnknownTaskManager Kind = "unknown_taskmanager"
	// Failed: any other error answer of a JobManager.
	Failed Kind = "failed"
	// Foreign: the answer is none of a JobManager's REST API: a login page, a redirect, a proxy's error.
	Foreign Kind = "foreign"
	// TooLarge: the answer was larger than the limit.
	TooLarge Kind = "too_large"
)

// Error is a failed request. It holds neither credentials nor the address.
type Error struct {
	// Endpoint is the template of the path, such as /jobs/:jobid.
	Endpoint string
	// Status is the HTTP status; 0 if there was no answer.
	Status int
	Kind   Kind
	// Detail says more, in one line.
	Detail string
	cause  error
}

func (e *Error) Error() string {
	if e.Status == 0 {
		return fmt.Sprintf("GET %s: %s", e.Endpoint, e.Detail)
	}
	return fmt.Sprintf("GET %s: status %d: %s", e.Endpoint, e.Status, e.Detail)
}

// Unwrap returns the error beneath, if there is one.
func (e *Error) Unwrap() error { return e.cause }

// IsKind is whether err is an Error of that kind.
func IsKind(err error, k Kind) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == k
}

// answered is whether err is an error that a JobManager answered, rather than the lack of an answer.
func answered(err error) bool {
	return IsKind(err, NoLeader) || IsKind(err, NotFound) || IsKind(err, UnknownTaskManager) || IsKind(err, Failed)
}

// transportError wraps an error of the HTTP client. A url.Error would show the address, perhaps with a user name in it.
func transportError(endpoint string, err error) *Error {
	cause := err
	if u, ok := errors.AsType[*url.Error](err); ok {
		cause = u.Err
	}
	detail := cause.Error()
	var n net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded) || errors.As(err, &n) && n.Timeout():
		detail = "no answer in time"
	case errors.Is(err, context.Canceled):
		detail = "given up because the scrape was"
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		detail = "the connection was closed before the answer was whole"
	}
	return &Error{Endpoint: endpoint, Kind: Unreachable, Detail: detail, cause: cause}
}

// statusError reads an answer whose status is not 200. Flink's are {"errors": [...]} (1.15 to 2.3).
func statusError(endpoint string, status int, body []byte) *Error {
	var answer struct {
		Errors []string `json:"errors"`
	}
	e := &Error{Endpoint: endpoint, Status: status, Kind: Failed}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Errors == nil {
		e.Kind, e.Detail = Foreign, "not a Flink answer; is there a proxy or login in front of the JobManager?"
		return e
	}
	text := strings.Join(answer.Errors, " ")
	e.Detail = firstLine(text)
	switch {
	case status == http.StatusServiceUnavailable,
		strings.Contains(text, "RecipientUnreachableException"),
		strings.Contains(text, "EndpointNotStartedException"), // 500 in 1.15, 503 since
		strings.Contains(text, "Cannot connect to ResourceManager right now"):
		e.Kind = NoLeader
	case strings.Contains(text, "UnknownTaskExecutorException"):
		e.Kind = UnknownTaskManager
	case status == http.StatusNotFound:
		e.Kind = NotFound
	}
	return e
}

// firstLine shortens an error text, which may be a stack trace of many kilobytes, to what fits a line of a log.
func firstLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	const most = 200
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + " …"
	}
	return s
}

func foreign(endpoint string, err error) *Error {
	return &Error{Endpoint: endpoint, Status: http.StatusOK, Kind: Foreign, Detail: "not the answer of a JobManager: " + firstLine(err.Error()), cause: err}
}
