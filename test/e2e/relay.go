package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// relay scrapes an exporter every second, allows it the ten seconds that are Prometheus' default, and hands out its last answer. Prometheus
// itself allows a scrape no longer than the interval, and an exporter that has but a second sees less in a failover than it does in practice.
type relay struct {
	address string
	server  *http.Server
	end     context.CancelFunc
	done    sync.WaitGroup

	mu          sync.Mutex
	status      int
	contentType string
	body        []byte
	begun       time.Time // of the last answer
	scrapes     int
	longest     time.Duration
}

// relayTimeout is Prometheus' default scrape_timeout.
const relayTimeout = 10 * time.Second

func newRelay() (*relay, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &relay{address: l.Addr().String(), status: http.StatusServiceUnavailable, end: func() {}}
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: relayTimeout}
	go func() { _ = r.server.Serve(l) }()
	return r, nil
}

// watch scrapes until close.
func (r *relay) watch(url string) {
	var ctx context.Context
	ctx, r.end = context.WithCancel(context.Background())
	r.done.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			r.scrape(ctx, url)
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
}

func (r *relay) scrape(ctx context.Context, url string) {
	begun := time.Now()
	status, contentType, body, err := get(ctx, url)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		status, contentType, body = http.StatusBadGateway, "text/plain", []byte(err.Error())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status, r.contentType, r.body, r.begun = status, contentType, body, begun
	r.scrapes++
	r.longest = max(r.longest, time.Since(begun))
}

func get(ctx context.Context, url string) (status int, contentType string, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, relayTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, "", nil, err
	}
	request.Header.Set("X-Prometheus-Scrape-Timeout-Seconds", fmt.Sprint(relayTimeout.Seconds()))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err = io.ReadAll(response.Body)
	return response.StatusCode, response.Header.Get("Content-Type"), body, err
}

// ServeHTTP hands out the last answer.
func (r *relay) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.Header().Set("Content-Type", r.contentType)
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body)
}

// last is when the scrape began whose answer is handed out.
func (r *relay) last() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.begun
}

// count returns how many scrapes there were since the last count, and how long the longest took.
func (r *relay) count() (scrapes int, longest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	scrapes, longest = r.scrapes, r.longest
	r.scrapes, r.longest = 0, 0
	return scrapes, longest
}

func (r *relay) close() error {
	r.end()
	r.done.Wait()
	return r.server.Close()
}
