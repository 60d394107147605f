package config

import (
	"sync"
	"sync/atomic"
	"time"
)

// Reloader holds the configuration of a file that may be read again while the exporter runs. It is safe for concurrent use.
type Reloader struct {
	path    string
	current atomic.Pointer[Config]
	status  atomic.Pointer[ReloadStatus]
	mu      sync.Mutex // one reload at a time, so that current and status belong together
}

// ReloadStatus says how reading the configuration went.
type ReloadStatus struct {
	// Successful is whether the last attempt succeeded.
	Successful bool
	// LastSuccess is when an attempt succeeded last.
	LastSuccess time.Time
}

// NewReloader reads the file at path, and fails if Load does.
func NewReloader(path string) (*Reloader, error) {
	r := &Reloader{path: path}
	r.status.Store(&ReloadStatus{})
	if err := r.Reload(); err != nil {
		return nil, err
	}
	return r, nil
}

// Config returns the configuration in force. It must not be changed. A request should ask once and stay with the answer.
func (r *Reloader) Config() *Config { return r.current.Load() }

// Status says how reading the configuration went.
func (r *Reloader) Status() ReloadStatus { return *r.status.Load() }

// Reload reads the file again. If Load fails the configuration in force stays, and its error is returned.
func (r *Reloader) Reload() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	cfg, err := Load(r.path)
	if err != nil {
		r.status.Store(&ReloadStatus{LastSuccess: r.Status().LastSuccess})
		return err
	}
	r.current.Store(cfg)
	r.status.Store(&ReloadStatus{Successful: true, LastSuccess: time.Now()})
	return nil
}
