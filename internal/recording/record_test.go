package recording

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// targets makes targets of addresses.
func targets(t *testing.T, urls []string) []Target {
	t.Helper()
	var out []Target
	for _, u := range urls {
		out = append(out, Target{URL: u, Client: client(t)})
	}
	return out
}

func TestRecordOfReplayIsTheRecording(t *testing.T) {
	forEachRecording(t, func(t *testing.T, want *Recording) {
		s := serve(t, want)
		got, err := Record(t.Context(), Options{
			JobManagers: targets(t, s.JobManagerURLs()),
			Reporters:   targets(t, s.ReporterURLs()),
			Scenario:    want.Scenario,
			Note:        want.Note,
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range got.JobManagers {
			if got.JobManagers[i].URL != s.JobManagerURLs()[i] {
				t.Errorf("JobManager %d: URL %s, want %s", i, got.JobManagers[i].URL, s.JobManagerURLs()[i])
			}
			got.JobManagers[i].URL = want.JobManagers[i].URL
			for path, resp := range got.JobManagers[i].Responses {
				// Some recordings lack paths that Record asks for; the server answers so.
				if _, ok := want.JobManagers[i].Responses[path]; !ok && resp.Status == http.StatusNotFound {
					delete(got.JobManagers[i].Responses, path)
				} else if resp.Status == 0 {
					// The text of an error of the connection is the client's.
					resp.Body = want.JobManagers[i].Responses[path].Body
					got.JobManagers[i].Responses[path] = resp
				}
			}
		}
		for i := range got.TaskManagers {
			got.TaskManagers[i].MetricsURL = want.TaskManagers[i].MetricsURL
		}
		if !reflect.DeepEqual(got, want) {
			for i := range want.JobManagers {
				for path, resp := range want.JobManagers[i].Responses {
					if g := got.JobManagers[i].Responses[path]; g.Status != resp.Status || string(g.Body) != string(resp.Body) {
						t.Errorf("%s: %d %s\nwant %d %s", path, g.Status, g.Body, resp.Status, resp.Body)
					}
				}
			}
			t.Error("the recording of a replay is another recording")
		}
	})
}

// handler answers with a handler until the test ends.
func handler(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func TestRecordOneBadPath(t *testing.T) {
	url := handler(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/overview":
			panic(http.ErrAbortHandler)
		case "/config":
			fmt.Fprint(w, `{"flink-version":"1.17.2"}`)
		case "/jobs":
			fmt.Fprint(w, `<html>login</html>`)
		case "/jobs/overview":
			fmt.Fprint(w, `{"jobs":"none"}`)
		case "/jobmanager/config":
			http.Redirect(w, r, "/login", http.StatusFound)
		case "/jobmanager/environment":
			fmt.Fprint(w, strings.Repeat("x", 2000))
		case "/taskmanagers":
			fmt.Fprint(w, `{"taskmanagers":[{"id":"a/b c"},{"id":""}]}`)
		case "/taskmanagers/a/b c":
			fmt.Fprint(w, `{}`)
		default:
			http.NotFound(w, r)
		}
	})
	r, err := Record(t.Context(), Options{JobManagers: targets(t, []string{url}), MaxBytes: 1000})
	if err != nil {
		t.Fatal(err)
	}
	responses := r.JobManagers[0].Responses
	for path, want := range map[string]int{
		"/overview": 0, "/config": 200, "/jobs": 200, "/jobs/overview": 200, "/jobmanager/config": 302, "/jobmanager/environment": 0,
		"/taskmanagers": 200, "/taskmanagers/a/b c": 200, "/taskmanagers/a/b c/thread-dump": 404,
	} {
		if got, ok := responses[path]; !ok || got.Status != want {
			t.Errorf("%s: %v, status %d, want %d", path, ok, got.Status, want)
		}
	}
	if len(responses) != 9 {
		t.Errorf("%d answers, want 9", len(responses))
	}
	if r.FlinkVersion != "1.17.2" {
		t.Errorf("version %q", r.FlinkVersion)
	}
	if got := string(responses["/jobs"].Body); got != `"<html>login</html>"` {
		t.Errorf("/jobs: %s", got)
	}
	if got := string(responses["/jobmanager/environment"].Body); !strings.Contains(got, "over 1000 bytes") {
		t.Errorf("/jobmanager/environment: %s", got)
	}
}

func TestRecordFails(t *testing.T) {
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	if _, err := Record(t.Context(), Options{}); err == nil {
		t.Error("no targets: no error")
	}
	user := strings.Replace(dead.URL, "//", "//user:hunter2@", 1)
	_, err := Record(t.Context(), Options{JobManagers: targets(t, []string{user}), Reporters: targets(t, []string{user + "/metrics"})})
	if err == nil || !strings.Contains(err.Error(), "nothing answered") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("nothing answers: %v", err)
	}
	_, err = Record(t.Context(), Options{JobManagers: targets(t, []string{"http://user:hunter2@[::1/"})})
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("no URL: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	url := handler(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	if _, err := Record(ctx, Options{JobManagers: targets(t, []string{url}), Concurrency: 1}); err == nil {
		t.Error("canceled: no error")
	}
	slow := handler(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	if _, err := Record(t.Context(), Options{JobManagers: targets(t, []string{slow}), Timeout: 10 * time.Millisecond}); err == nil {
		t.Error("never answers: no error")
	}
}

func TestRecordBoundsConcurrency(t *testing.T) {
	const limit = 3
	var running, most atomic.Int64
	// Requests wait for each other until as many run as may: the test would hang if the limit were lower, and count more if it were higher.
	full := make(chan struct{})
	url := handler(t, func(w http.ResponseWriter, r *http.Request) {
		n := running.Add(1)
		defer running.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		if n == limit {
			select {
			case <-full:
			default:
				close(full)
			}
		}
		<-full
		if r.URL.Path == "/taskmanagers" {
			fmt.Fprint(w, `{"taskmanagers":[{"id":"a"},{"id":"b"},{"id":"c"},{"id":"d"},{"id":"e"},{"id":"f"}]}`)
			return
		}
		fmt.Fprint(w, `{}`)
	})
	r, err := Record(t.Context(), Options{JobManagers: targets(t, []string{url, url}), Concurrency: limit})
	if err != nil {
		t.Fatal(err)
	}
	if most.Load() != limit {
		t.Errorf("%d requests at once, want %d", most.Load(), limit)
	}
	if len(r.JobManagers[1].Responses) != 7+12 {
		t.Errorf("%d answers", len(r.JobManagers[1].Responses))
	}
}
