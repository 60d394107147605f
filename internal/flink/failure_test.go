package flink

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	promconfig "github.com/prometheus/common/config"

	"github.com/flink-lineage/flink-lineage-exporter/internal/config"
	"github.com/flink-lineage/flink-lineage-exporter/internal/flink/flinktest"
	"github.com/flink-lineage/flink-lineage-exporter/internal/recording"
)

// ask are the client's calls by endpoint; each returns whether it gave a result beside the error.
var ask = map[string]func(*Client) (bool, error){
	endpointOverview: func(c *Client) (bool, error) {
		o, err := c.Overview(context.Background())
		return o != nil, err
	},
	endpointJobs: func(c *Client) (bool, error) {
		jobs, err := c.Jobs(context.Background())
		return jobs != nil, err
	},
	endpointJob: func(c *Client) (bool, error) {
		d, err := c.job(context.Background(), graph)
		return d.vertices != nil || !d.startTime.IsZero(), err
	},
	endpointVertex: func(c *Client) (bool, error) {
		n, executions, err := c.vertex(context.Background(), graph, source)
		return n != 0 || executions != nil, err
	},
	endpointTaskManagers: func(c *Client) (bool, error) {
		tms, err := c.TaskManagers(context.Background())
		return tms != nil, err
	},
	endpointTaskManager: func(c *Client) (bool, error) {
		slots, err := c.allocatedSlots(context.Background(), busy)
		return slots != nil, err
	},
	endpointThreadDump: func(c *Client) (bool, error) {
		threads, err := c.Threads(context.Background(), busy)
		return threads != nil, err
	},
}

// busy is the TaskManager of 2.3.0-healthy that runs the tasks.
const busy = "127.0.0.1:16242-8b5942"

// needed are the fields of each answer without which it says nothing, as paths of keys; the last is the field.
var needed = map[string][]string{
	endpointOverview:     {"flink-version", "flink-commit", "slots-total", "slots-available"},
	endpointJobs:         {"jobs", "jobs.*.jid", "jobs.*.name", "jobs.*.state", "jobs.*.start-time", "jobs.*.tasks"},
	endpointJob:          {"jid", "start-time", "vertices", "vertices.*.id", "vertices.*.name", "vertices.*.parallelism", "vertices.*.tasks"},
	endpointVertex:       {"parallelism", "subtasks", "subtasks.*.subtask", "subtasks.*.attempt", "subtasks.*.status", "subtasks.*.taskmanager-id"},
	endpointTaskManagers: {"taskmanagers", "taskmanagers.*.id", "taskmanagers.*.slotsNumber", "taskmanagers.*.freeSlots"},
	endpointTaskManager:  {"slotsNumber", "freeSlots", "allocatedSlots", "allocatedSlots.*.jobId"},
	endpointThreadDump:   {"threadInfos", "threadInfos.*.threadName"},
}

// wrong are values no needed field may have: each of these is of the wrong type for every one of them, or is no value.
func wrong(field string, good any) map[string]any {
	values := map[string]any{"null": nil, "a boolean": true, "a string": "7", "a number": 7, "a fraction": 1.5, "a list": []any{7}, "an object": map[string]any{"x": "y"}}
	switch good.(type) {
	case string:
		delete(values, "a string")
	case float64:
		delete(values, "a number")
	}
	if field == "tasks" {
		values["an object"] = map[string]any{"running": "1", "RUNNING": "1"}
	}
	return values
}

// TestFailures: each endpoint in each way to fail gives the right kind of error and no result.
func TestFailures(t *testing.T) {
	var redirected atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		redirected.Add(1)
		_, _ = w.Write([]byte("{}"))
	}))
	defer elsewhere.Close()
	const limit = 1 << 20
	faults := []struct {
		flinktest.Fault
		want Kind
	}{
		{flinktest.Flink("404", 404, "Not found."), NotFound},
		{flinktest.Flink("500", 500, "Internal server error."), Failed},
		{flinktest.Flink("503", 503, flinktest.Election), NoLeader},
		{flinktest.Hang, Unreachable},
		{flinktest.HalfClosed, Unreachable},
		{flinktest.Truncated, Foreign},
		{flinktest.Answer("empty", 200, "application/json", ""), Foreign},
		{flinktest.Answer("null", 200, "application/json", "null"), Foreign},
		{flinktest.Answer("empty object", 200, "application/json", "{}"), Foreign},
		{flinktest.Answer("list", 200, "application/json", "[]"), Foreign},
		{flinktest.Answer("string", 200, "application/json", `"ok"`), Foreign},
		{flinktest.Answer("HTML login page", 200, "text/html", flinktest.Login), Foreign},
		{flinktest.Redirect(elsewhere.URL), Foreign},
		{flinktest.Padded(limit), TooLarge},
		{flinktest.Endless, TooLarge},
		{flinktest.Fault{Name: "two answers", Serve: func(w http.ResponseWriter, _ *http.Request, good []byte) {
			_, _ = w.Write(append(bytes.Clone(good), good...))
		}}, Foreign},
	}
	rec := flinktest.Load(t, "2.3.0-healthy")
	for _, endpoint := range flinktest.Endpoints {
		for _, f := range faults {
			t.Run(endpoint+" "+f.Name, func(t *testing.T) {
				t.Parallel()
				s := flinktest.Serve(t, rec.JobManagers[0])
				timeout := 30 * time.Second
				if f.Name == flinktest.Hang.Name {
					timeout = 50 * time.Millisecond
				}
				c := newClient(t, s.URL, timeout)
				c.limit = limit
				s.Fail(endpoint, f.Fault)
				result, err := ask[endpoint](c)
				var e *Error
				if !errors.As(err, &e) || e.Kind != f.want || e.Endpoint != endpoint {
					t.Errorf("got %v, want kind %s", err, f.want)
				}
				if result {
					t.Error("there is a result beside the error")
				}
				if n := len(err.Error()); n > 400 || strings.ContainsAny(err.Error(), "\r\n") {
					t.Errorf("error does not fit a line of a log: %q", err)
				}
			})
		}
	}
	t.Cleanup(func() {
		if n := redirected.Load(); n > 0 {
			t.Errorf("%d requests followed a redirect", n)
		}
	})
}

// TestNeededFields: an answer in which a needed field is missing or of another type is no answer, rather than one with zeros.
func TestNeededFields(t *testing.T) {
	rec := flinktest.Load(t, "2.3.0-healthy")
	for _, endpoint := range flinktest.Endpoints {
		good := answerOf(t, rec.JobManagers[0], endpoint)
		for _, path := range needed[endpoint] {
			parent, field := "", path
			if i := strings.LastIndex(path, "."); i >= 0 {
				parent, field = path[:i], path[i+1:]
			}
			var now any
			flinktest.Change(good, func(a any) any {
				flinktest.Each(a, parent, func(o map[string]any) { now = o[field] })
				return a
			})
			if now == nil {
				t.Fatalf("%s: the recording has no %s", endpoint, path)
			}
			changes := map[string]func(map[string]any){"missing": func(o map[string]any) { delete(o, field) }}
			for name, value := range wrong(field, now) {
				changes[name] = func(o map[string]any) { o[field] = value }
			}
			for name, change := range changes {
				bad := flinktest.Change(good, func(a any) any {
					flinktest.Each(a, parent, change)
					return a
				})
				result, err := ask[endpoint](canned(t, bad))
				if !IsKind(err, Foreign) || result {
					t.Errorf("%s with %s %s: got result %t, error %v", endpoint, path, name, result, err)
				}
			}
		}
		if _, err := ask[endpoint](canned(t, good)); err != nil {
			t.Errorf("%s unchanged: %v", endpoint, err)
		}
	}
}

// TestImpossible: numbers no JobManager answers are not passed on.
func TestImpossible(t *testing.T) {
	for name, change := range map[string]func(map[string]any){
		"fewer subtasks than the parallelism": func(o map[string]any) { o["parallelism"] = 3 },
		"a subtask twice":                     func(o map[string]any) { o["subtasks"].([]any)[1].(map[string]any)["subtask"] = 0 },
		"negative attempt":                    func(o map[string]any) { o["subtasks"].([]any)[1].(map[string]any)["attempt"] = -1 },
	} {
		good := answerOf(t, flinktest.Load(t, "2.3.0-healthy").JobManagers[0], endpointVertex)
		bad := flinktest.Change(good, func(a any) any {
			flinktest.Each(a, "", change)
			return a
		})
		if _, err := ask[endpointVertex](canned(t, bad)); !IsKind(err, Foreign) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLimit: an answer of just the allowed size is one.
func TestLimit(t *testing.T) {
	good := []byte(`{"flink-version":"1","flink-commit":"c","slots-total":1,"slots-available":1}`)
	c := canned(t, good)
	c.limit = int64(len(good))
	if _, err := c.Overview(context.Background()); err != nil {
		t.Error(err)
	}
	c.limit--
	if _, err := c.Overview(context.Background()); !IsKind(err, TooLarge) {
		t.Errorf("got %v", err)
	}
}

// answerOf is the recorded answer of an endpoint, of the busy TaskManager and the source vertex where there are several.
func answerOf(tb testing.TB, jm recording.JobManager, endpoint string) []byte {
	tb.Helper()
	path := strings.NewReplacer(":jobid", graph, ":vertexid", source, ":taskmanagerid", busy).Replace(endpoint)
	resp, ok := jm.Responses[path]
	if !ok {
		tb.Fatalf("the recording has no %s", path)
	}
	return resp.Body
}

// transport answers every request with a body, without a network.
type transport []byte

func (b transport) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(b)), ContentLength: int64(len(b)), Request: r,
	}, nil
}

// canned is a client whose every request is answered with body.
func canned(tb testing.TB, body []byte) *Client {
	tb.Helper()
	return NewClients([]string{"http://jobmanager:8081"}, Config{
		HTTP: &http.Client{Transport: transport(body)}, Timeout: time.Minute, Concurrency: 4, Count: ignore,
	})[0]
}

// TestNoSecrets: whatever goes wrong, and whatever the configuration, no error shows a credential or where it went.
func TestNoSecrets(t *testing.T) {
	const secret = "s3cr3t"
	configs := map[string]func(*config.Cluster){
		"basic authentication": func(c *config.Cluster) {
			c.HTTP.BasicAuth = &promconfig.BasicAuth{Username: secret + "-user", Password: secret}
		},
		"bearer token": func(c *config.Cluster) {
			c.HTTP.Authorization = &promconfig.Authorization{Type: "Bearer", Credentials: secret}
		},
		"header": func(c *config.Cluster) {
			c.HTTP.HTTPHeaders = &promconfig.Headers{Headers: map[string]promconfig.Header{"X-Token": {Secrets: []promconfig.Secret{secret}}}}
		},
	}
	rec := flinktest.Load(t, "2.3.0-healthy")
	faults := []flinktest.Fault{
		flinktest.Flink("401", 401, "no"), flinktest.Flink("500", 500, "no"), flinktest.Hang, flinktest.HalfClosed, flinktest.Truncated,
		flinktest.Answer("HTML login page", 200, "text/html", flinktest.Login),
		{Name: "not HTTP", Serve: func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				panic(err)
			}
			_, _ = conn.Write([]byte("SSH-2.0-x\r\n"))
			_ = conn.Close()
		}},
	}
	for name, configure := range configs {
		for _, f := range faults {
			t.Run(name+" "+f.Name, func(t *testing.T) {
				t.Parallel()
				s := flinktest.Serve(t, rec.JobManagers[0])
				s.Fail("/overview", f)
				cfg := config.Default()
				configure(&cfg)
				cfg.Timeout = 10 * time.Second
				if f.Name == flinktest.Hang.Name {
					cfg.Timeout = 50 * time.Millisecond
				}
				h, err := cfg.FlinkClient()
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(h.CloseIdleConnections)
				down := "http://127.0.0.1:1"
				for _, base := range []string{s.URL, strings.Replace(s.URL, "://", "://"+secret+":"+secret+"@", 1), down,
					strings.Replace(down, "://", "://"+secret+":"+secret+"@", 1), "http://" + secret + "@no-such-host.invalid"} {
					c := NewClients([]string{base}, Config{HTTP: h, Timeout: cfg.Timeout, Concurrency: 1, Count: ignore})[0]
					_, err = c.Overview(context.Background())
					if err == nil {
						t.Fatal("no error")
					}
					for ; err != nil; err = errors.Unwrap(err) {
						if text := fmt.Sprintf("%v %+v %q", err, err, err); strings.Contains(text, secret) {
							t.Errorf("%T shows the secret: %s", err, text)
						}
					}
				}
			})
		}
	}
}

// TestCount: each request is counted once, by template and status.
func TestCount(t *testing.T) {
	counts := map[string]int{}
	c := NewClients([]string{"http://jobmanager:8081"}, Config{
		HTTP: &http.Client{Transport: transport("{}")}, Timeout: time.Minute, Concurrency: 1,
		Count: func(endpoint, code string) { counts[endpoint+" "+code]++ },
	})[0]
	for _, endpoint := range flinktest.Endpoints {
		_, _ = ask[endpoint](c)
		if counts[endpoint+" 200"] != 1 {
			t.Errorf("%s: %v", endpoint, counts)
		}
	}
	if len(counts) != len(flinktest.Endpoints) {
		t.Errorf("%v", counts)
	}
}

// FuzzAnswers: no answer makes the client panic, and none is taken for more than it says.
func FuzzAnswers(f *testing.F) {
	rec := flinktest.Load(f, "2.3.0-healthy")
	for i, endpoint := range flinktest.Endpoints {
		f.Add(uint8(i), answerOf(f, rec.JobManagers[0], endpoint))
	}
	f.Add(uint8(3), []byte(`{"parallelism":1,"subtasks":[{"subtask":0,"attempt":0,"status":"RUNNING","taskmanager-id":"a",`+
		`"other-concurrent-attempts":[{"subtask":0,"attempt":1,"status":"RUNNING","taskmanager-id":"b"}]}]}`))
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		c := canned(t, body)
		endpoint := flinktest.Endpoints[int(which)%len(flinktest.Endpoints)]
		result, err := ask[endpoint](c)
		if err != nil && (result || !IsKind(err, Foreign)) {
			t.Fatalf("result %t, error %v", result, err)
		}
		if err == nil && !json.Valid(body) {
			t.Fatal("accepted what is no JSON")
		}
		n, executions, err := c.vertex(context.Background(), graph, source)
		if err != nil {
			return
		}
		for _, e := range executions {
			if e.Subtask < 0 || e.Subtask >= n || e.Attempt < 0 || e.State == "" {
				t.Fatalf("parallelism %d: %+v", n, e)
			}
		}
	})
}

// FuzzReadDump compares reading a thread dump piece by piece with decoding it whole.
func FuzzReadDump(f *testing.F) {
	f.Add([]byte(`{"threadInfos":[{"threadName":"a (1/2)#0","stringifiedThreadInfo":"\"a (1/2)#0\" Id=7 RUNNABLE\n"}]}`))
	f.Add([]byte(`{"x":[{}],"threadInfos":[],"y":"}"}`))
	f.Add([]byte(`{"threadInfos":[{"threadName":null}]} {}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var names []string
		if err := readDump(bytes.NewReader(text), func(x *threadAnswer) { names = append(names, *x.Name) }); err != nil {
			return
		}
		var whole struct {
			Threads []struct {
				Name string `json:"threadName"`
			} `json:"threadInfos"`
		}
		if err := json.Unmarshal(text, &whole); err != nil {
			t.Fatalf("accepted what is no thread dump: %v", err)
		}
		if bytes.Count(text, []byte("threadInfos")) != 1 || bytes.Contains(text, []byte(`\u`)) {
			return // the last of several keys counts when decoded whole
		}
		if len(names) != len(whole.Threads) {
			t.Fatalf("%d threads, decoded whole %d", len(names), len(whole.Threads))
		}
		for i, n := range names {
			if n != whole.Threads[i].Name {
				t.Fatalf("thread %d is %q, decoded whole %q", i, n, whole.Threads[i].Name)
			}
		}
	})
}

// BenchmarkVertex decodes a vertex of parallelism 1,000.
func BenchmarkVertex(b *testing.B) {
	good := answerOf(b, flinktest.Load(b, "2.3.0-healthy").JobManagers[0], endpointVertex)
	big := flinktest.Change(good, func(a any) any {
		flinktest.Each(a, "", func(o map[string]any) {
			one, err := json.Marshal(o["subtasks"].([]any)[0])
			if err != nil {
				b.Fatal(err)
			}
			var subtasks []any
			for i := range 1000 {
				var s map[string]any
				if err := json.Unmarshal(one, &s); err != nil {
					b.Fatal(err)
				}
				s["subtask"] = i
				subtasks = append(subtasks, s)
			}
			o["parallelism"], o["subtasks"] = 1000, subtasks
		})
		return a
	})
	c := canned(b, big)
	b.SetBytes(int64(len(big)))
	b.ReportAllocs()
	for b.Loop() {
		if n, _, err := c.vertex(context.Background(), graph, source); n != 1000 || err != nil {
			b.Fatal(n, err)
		}
	}
}

// BenchmarkThreads reads a thread dump of 5 MB.
func BenchmarkThreads(b *testing.B) {
	good := answerOf(b, flinktest.Load(b, "2.3.0-healthy").JobManagers[0], endpointThreadDump)
	big := flinktest.Change(good, func(a any) any {
		flinktest.Each(a, "", func(o map[string]any) {
			all := o["threadInfos"].([]any)
			var many []any
			for size := 0; size < 5<<20; size += len(good) {
				many = append(many, all...)
			}
			o["threadInfos"] = many
		})
		return a
	})
	c := canned(b, big)
	b.SetBytes(int64(len(big)))
	b.ReportAllocs()
	for b.Loop() {
		if threads, err := c.Threads(context.Background(), busy); len(threads) == 0 || err != nil {
			b.Fatal(len(threads), err)
		}
	}
}
