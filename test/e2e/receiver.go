package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// receiver is where Alertmanager sends its messages to: one path for each of its receivers.
type receiver struct {
	url    string
	server *http.Server

	mu       sync.Mutex
	messages []message
	changed  chan struct{}
}

// message is one alert of a message to a receiver.
type message struct {
	receiver    string
	received    time.Time
	Status      string            `json:"status"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func listen() (*receiver, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &receiver{url: "http://" + l.Addr().String(), changed: make(chan struct{})}
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = r.server.Serve(l) }()
	return r, nil
}

func (r *receiver) close() error { return r.server.Close() }

// ServeHTTP takes a message in.
func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	var body struct {
		Alerts []message `json:"alerts"`
	}
	if err := json.NewDecoder(request.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range body.Alerts {
		m.receiver, m.received = request.URL.Path[1:], time.Now()
		if !slices.ContainsFunc(r.messages, func(old message) bool { return old.is(m.receiver, m.Labels["alertname"], m.Status) }) {
			fmt.Printf("%s to %s: %s %s %s\n", time.Now().Format(time.TimeOnly), m.receiver, m.Labels["alertname"], m.Labels["instance"], m.Status)
		}
		r.messages = append(r.messages, m)
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

func (m *message) is(receiver, alert, status string) bool {
	return m.receiver == receiver && m.Labels["alertname"] == alert && m.Status == status
}

// wait waits for an alert to be sent to a receiver.
func (r *receiver) wait(ctx context.Context, to, alert, status string, patience time.Duration) (message, error) {
	timeout := time.After(patience)
	for {
		r.mu.Lock()
		i := slices.IndexFunc(r.messages, func(m message) bool { return m.is(to, alert, status) })
		changed := r.changed
		var m message
		if i >= 0 {
			m = r.messages[i]
		}
		r.mu.Unlock()
		if i >= 0 {
			return m, nil
		}
		select {
		case <-ctx.Done():
			return m, ctx.Err()
		case <-timeout:
			return m, errors.New(alert + " was not sent to " + to + " as " + status + " within " + patience.String())
		case <-changed:
		}
	}
}

// all are the messages so far.
func (r *receiver) all() []message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.messages)
}
