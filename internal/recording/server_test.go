package recording

import (
	"bytes"
	"io"
	"io/fs"
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"github.com/flink-lineage/flink-lineage-exporter/recordings"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// forEachRecording runs a test on every recording of the repository.
func forEachRecording(t *testing.T, f func(t *testing.T, r *Recording)) {
	t.Helper()
	names, err := fs.Glob(recordings.FS, "*.json.gz")
	if err != nil || len(names) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			r, err := LoadFS(recordings.FS, name)
			if err != nil {
				t.Fatal(err)
			}
			f(t, r)
		})
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
