package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestLongestRun(t *testing.T) {
	at := func(seconds ...float64) series {
		var s series
		for _, second := range seconds {
			s.Values = append(s.Values, []any{second, "1"})
		}
		return s
	}
	for name, test := range map[string]struct {
		series []series
		want   int
	}{
		"never":             {nil, 0},
		"once":              {[]series{at(7)}, 1},
		"with a break":      {[]series{at(1, 2, 4, 5, 6, 8)}, 3},
		"one after another": {[]series{at(1, 2), at(3, 4)}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			if got := longestRun(test.series); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}

func TestRelay(t *testing.T) {
	answers := make(chan int, 2)
	answers <- http.StatusOK
	exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("X-Prometheus-Scrape-Timeout-Seconds"); got != "10" {
			t.Errorf("the exporter is allowed %q seconds, want 10", got)
		}
		w.Header().Set("Content-Type", "text/metrics")
		status := <-answers
		w.WriteHeader(status)
		_, _ = io.WriteString(w, http.StatusText(status))
	}))
	defer exporter.Close()
	r, err := newRelay()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.close() }()

	shown := func() (int, string) {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
		return w.Code, w.Body.String()
	}
	if code, _ := shown(); code != http.StatusServiceUnavailable {
		t.Errorf("before the first scrape: %d", code)
	}
	before := time.Now()
	r.scrape(t.Context(), exporter.URL)
	if code, body := shown(); code != http.StatusOK || body != "OK" || r.last().Before(before) {
		t.Errorf("after a scrape begun at %s: %d %s", r.last(), code, body)
	}
	answers <- http.StatusInternalServerError
	r.scrape(t.Context(), exporter.URL)
	if code, _ := shown(); code != http.StatusInternalServerError {
		t.Errorf("after an answer that is an error: %d", code)
	}
	exporter.Close()
	r.scrape(t.Context(), exporter.URL)
	if code, _ := shown(); code != http.StatusBadGateway {
		t.Errorf("without an answer: %d", code)
	}
	if n, _ := r.count(); n != 3 {
		t.Errorf("counted %d scrapes, want 3", n)
	}
	if n, longest := r.count(); n != 0 || longest != 0 {
		t.Errorf("counted %d scrapes of up to %s since the last count", n, longest)
	}
}
