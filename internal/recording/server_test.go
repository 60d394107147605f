package recording

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flink-lineage/flink-lineage-exporter/recordings"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// loaded are the recordings of the repository by name.
var loaded = sync.OnceValues(func() (map[string]*Recording, error) {
	names, err := fs.Glob(recordings.FS, "*.json.gz")
	if err != nil || len(names) == 0 {
		return nil, fmt.Errorf("no recordings: %w", err)
	}
	out := map[string]*Recording{}
	for _, name := range names {
		if out[name], err = LoadFS(recordings.FS, name); err != nil {
			return nil, err
		}
	}
	return out, nil
})

// forEachRecording runs a test on a copy of every recording of the repository.
func forEachRecording(t *testing.T, f func(t *testing.T, r *Recording)) {
	t.Helper()
	all, err := loaded()
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range slices.Sorted(maps.Keys(all)) {
		// make test runs this package without the race detector too, over all of them.
		if raceDetector && i%6 != 0 {
			continue
		}
		t.Run(name, func(t *testing.T) { f(t, all[name].clone()) })
	}
}

// client is one that keeps no connections, so that no test can see a connection of another.
func client(t *testing.T) *http.Client {
	t.Helper()
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
}

// get returns status, content type and body, or an error if there was no answer.
func get(t *testing.T, url string) (status int, contentType string, body []byte, err error) {
	t.Helper()
	resp, err := client(t).Get(url)
	if err != nil {
		return 0, "", nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	return resp.StatusCode, resp.Header.Get("Content-Type"), body, nil
}

// serve starts a server that ends with the test.
func serve(t *testing.T, r *Recording) *Server {
	t.Helper()
	s, err := Serve(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestServeAnswersAsRecorded(t *testing.T) {
	forEachRecording(t, func(t *testing.T, r *Recording) {
		s := serve(t, r)
		for i, jm := range r.JobManagers {
			for path, want := range jm.Responses {
				status, contentType, body, err := get(t, s.JobManagerURLs()[i]+path)
				if want.Status == 0 {
					if err == nil {
						t.Errorf("%s: status %d, want no answer", path, status)
					}
					continue
				}
				if err != nil {
					t.Errorf("%s: %v", path, err)
					continue
				}
				got, err := canonical(body)
				if err != nil {
					t.Errorf("%s: %v", path, err)
				}
				if status != want.Status || !bytes.Equal(got, want.Body) || contentType != contentJSON {
					t.Errorf("%s: status %d, type %s, body\n%s\nwant status %d\n%s", path, status, contentType, got, want.Status, want.Body)
				}
			}
		}
		for i, tm := range r.TaskManagers {
			status, contentType, body, err := get(t, s.ReporterURLs()[i])
			if err != nil {
				t.Fatal(err)
			}
			if status != tm.Status || string(body) != tm.Metrics || contentType != contentMetrics {
				t.Errorf("reporter %d: status %d, type %s, %d bytes, want status %d, %d bytes", i, status, contentType, len(body), tm.Status, len(tm.Metrics))
			}
		}
	})
}

// tiny is a recording with one JobManager for each list of answers.
func tiny(answers ...map[string]Response) *Recording {
	r := &Recording{Format: Format}
	for _, a := range answers {
		r.JobManagers = append(r.JobManagers, JobManager{Responses: a})
	}
	return r
}

func ok(body string) Response { return Response{Status: 200, Body: []byte(body)} }

func TestServeWhatIsNotRecorded(t *testing.T) {
	s := serve(t, tiny(
		map[string]Response{
			"/taskmanagers": ok(`{"taskmanagers":[{"id":"tm:1-a"}]}`), "/taskmanagers/tm:1-a": ok(`{}`), "/page": ok(`"<html>login</html>"`),
			"/refused": {Status: 0, Body: text("refused")},
		},
		map[string]Response{"/overview": {Status: 0, Body: text("refused")}},
		nil,
	))
	for _, test := range []struct {
		jm     int
		path   string
		status int
		body   string
	}{
		{0, "/taskmanagers/tm:1-a", 200, `{}`},
		{0, "/taskmanagers/tm:1-a?x=y", 200, `{}`},
		{0, "/taskmanagers/tm%3A1-a", 200, `{}`},
		{0, "/nothing", 404, `{"errors":["Not found: /nothing"]}`},
		{0, "/taskmanagers/tm:1-a/thread-dump", 500, "UnknownTaskExecutorException"},
		{0, "/taskmanagers/other", 500, "UnknownTaskExecutorException"},
		{0, "/taskmanagers/tm:1-a/logs", 404, "Not found"},
		{0, "/page", 200, "<html>login</html>"},
		{0, "/refused", 0, ""},
		{1, "/overview", 0, ""},
		{1, "/nothing", 0, ""},
		{2, "/", 0, ""},
	} {
		status, contentType, body, err := get(t, s.JobManagerURLs()[test.jm]+test.path)
		if test.status == 0 {
			if err == nil {
				t.Errorf("%s: status %d, want no answer", test.path, status)
			}
			continue
		}
		if err != nil || status != test.status || !bytes.Contains(body, []byte(test.body)) {
			t.Errorf("%s: status %d, %s, %v; want %d, %s", test.path, status, body, err, test.status, test.body)
		}
		if html := test.path == "/page"; html == (contentType == contentJSON) {
			t.Errorf("%s: type %s", test.path, contentType)
		}
	}
	resp, err := client(t).Post(s.JobManagerURLs()[0]+"/taskmanagers", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", resp.StatusCode)
	}
	want := map[string]int{
		"/taskmanagers/tm:1-a": 3, "/nothing": 1, "/taskmanagers/tm:1-a/thread-dump": 1, "/taskmanagers/other": 1,
		"/taskmanagers/tm:1-a/logs": 1, "/page": 1, "/taskmanagers": 1,
	}
	if got := s.Requests(); !maps.Equal(got, want) {
		t.Errorf("requests %v, want %v", got, want)
	}
	s.ResetRequests()
	if got := s.Requests(); len(got) != 0 {
		t.Errorf("requests %v after a reset", got)
	}
}

func TestShow(t *testing.T) {
	first := tiny(map[string]Response{"/a": ok("1")}, map[string]Response{"/a": ok("2")})
	first.TaskManagers = []TaskManager{{Status: 200, Metrics: "a 1\n"}, {Status: 0, Metrics: "refused"}}
	s := serve(t, first)
	check := func(url, want string) {
		t.Helper()
		_, _, body, err := get(t, url)
		if err != nil {
			body = nil
		}
		if string(body) != want {
			t.Errorf("%s: %q, want %q", url, body, want)
		}
	}
	jm, tm := s.JobManagerURLs(), s.ReporterURLs()
	check(jm[0]+"/a", "1")
	check(jm[1]+"/a", "2")
	check(tm[0], "a 1\n")
	check(tm[1], "")

	second := tiny(map[string]Response{"/a": ok("3")})
	if err := s.Show(second); err != nil {
		t.Fatal(err)
	}
	check(jm[0]+"/a", "3")
	check(jm[1]+"/a", "")
	check(tm[0], "")

	third := tiny(nil, nil, nil)
	if err := s.Show(third); err == nil {
		t.Error("one JobManager too many: no error")
	}
	if err := s.Show(&Recording{Format: Format, TaskManagers: make([]TaskManager, 3)}); err == nil {
		t.Error("one reporter too many: no error")
	}
	if err := s.Show(&Recording{}); err == nil {
		t.Error("no format: no error")
	}
	check(jm[0]+"/a", "3")
	if err := s.Show(first); err != nil {
		t.Fatal(err)
	}
	check(jm[1]+"/a", "2")
}

func TestServeFails(t *testing.T) {
	if _, err := Serve(&Recording{}); err == nil {
		t.Error("no format: no error")
	}
}

// TestShowIsAtomic reads from two JobManagers while moments change. Every pair of readings is in the order of the moments.
func TestShowIsAtomic(t *testing.T) {
	moment := func(n int) *Recording {
		a := map[string]Response{"/n": ok(strconv.Itoa(n))}
		return tiny(a, a)
	}
	s := serve(t, moment(0))
	c := &http.Client{Transport: &http.Transport{}}
	defer c.CloseIdleConnections()
	read := func(i int) int {
		resp, err := c.Get(s.JobManagerURLs()[i] + "/n")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		n, err := strconv.Atoi(string(body))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for n := 1; ; n++ {
			select {
			case <-stop:
				return
			default:
				if err := s.Show(moment(n)); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	last := 0
	for i := range 200 {
		if n := read(i % 2); n < last {
			t.Errorf("moment %d after %d", n, last)
		} else {
			last = n
		}
	}
	close(stop)
	<-stopped
}

func TestCloseTwice(t *testing.T) {
	s := serve(t, tiny(map[string]Response{"/a": ok("1")}))
	url := s.JobManagerURLs()[0]
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, _, _, err := get(t, url+"/a"); err == nil {
		t.Error("answers after Close")
	}
}

func TestPlay(t *testing.T) {
	moment := func(now int) *Recording {
		return tiny(map[string]Response{"/jobs/a": ok(fmt.Sprintf(`{"now":%d,"start-time":%d}`, now, now-5000))})
	}
	s := serve(t, moment(1))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	before := time.Now().UnixMilli()
	var begun int64 // now of the first moment, as shifted
	var shown []int
	err := s.Play(ctx, []Moment{{moment(1000000), 0}, {moment(2000000), 0}}, func(i int) {
		shown = append(shown, i)
		var job struct {
			Now   int64 `json:"now"`
			Start int64 `json:"start-time"`
		}
		_, _, body, err := get(t, s.JobManagerURLs()[0]+"/jobs/a")
		if err != nil || json.Unmarshal(body, &job) != nil {
			t.Errorf("%s: %v", body, err)
		}
		if begun == 0 {
			begun = job.Now
		}
		if begun < before || begun > time.Now().UnixMilli() || job.Now != begun+int64(i)*1000000 || job.Start != job.Now-5000 {
			t.Errorf("moment %d: now %d, start %d", i, job.Now, job.Start)
		}
		if len(shown) == 5 {
			cancel()
		}
	})
	if err != nil {
		t.Error(err)
	}
	if !slices.Equal(shown, []int{0, 1, 0, 1, 0}) {
		t.Errorf("shown %v", shown)
	}
	if err := s.Play(t.Context(), nil, nil); err == nil {
		t.Error("no moments: no error")
	}
	if err := s.Play(t.Context(), []Moment{{tiny(nil, nil), 0}}, nil); err == nil {
		t.Error("a JobManager too many: no error")
	}
	if err := s.Play(ctx, []Moment{{moment(1), time.Hour}}, func(int) { t.Error("shown after the end") }); err != nil {
		t.Error(err)
	}
}
