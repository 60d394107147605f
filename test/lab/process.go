package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/flink-lineage/flink-lineage-exporter/test/host"
)

// Process is one process of a cluster. It can end and be started again, with the same command, folder, configuration and ports; only RPC
// ports are new each time.
type Process struct {
	Name string // "jm1", "tm2", "zookeeper"

	dir      string // working directory; its file "out" takes what the process prints
	log      string // the process' own log file, "" if it only prints
	command  []string
	env      []string
	reserved []*reservation

	mu       sync.Mutex
	cmd      *exec.Cmd
	exited   chan struct{} // closed when the current run has ended
	ending   bool          // the current run was asked to end
	logStart int64         // where in the log the current run begins
}

// Start starts the process, which must not be running.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running() {
		return fmt.Errorf("start %s: it runs already as pid %d", p.Name, p.cmd.Process.Pid)
	}
	out, err := os.OpenFile(p.dir+"/out", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	defer out.Close()
	p.logStart = 0
	if info, err := os.Stat(p.log); err == nil {
		p.logStart = info.Size()
	}
	cmd := exec.Command(p.command[0], p.command[1:]...)
	cmd.Dir, cmd.Env = p.dir, append(os.Environ(), p.env...)
	cmd.Stdout, cmd.Stderr = out, out
	for _, r := range p.reserved {
		r.release()
	}
	p.reserved = nil
	if err := host.StartChild(cmd); err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	exited := make(chan struct{})
	p.cmd, p.exited, p.ending = cmd, exited, false
	go func() {
		_ = cmd.Wait() // how it ended is in cmd.ProcessState
		close(exited)
	}()
	return nil
}

// running reports whether the current run goes on; the caller holds mu.
func (p *Process) running() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Running reports whether the process is there, frozen or not.
func (p *Process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running()
}

// Pid returns the process id of the current or last run, 0 before the first.
func (p *Process) Pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Log returns the path of the process' log, which goes on over restarts.
func (p *Process) Log() string {
	if p.log == "" {
		return p.dir + "/out"
	}
	return p.log
}

// Kill ends the process with SIGKILL and waits until it is gone. It does nothing to a process that is not running.
func (p *Process) Kill() error {
	exited, err := p.end(syscall.SIGKILL)
	if err == nil && exited != nil {
		<-exited
	}
	return err
}

// Restart ends the process with SIGKILL and starts it again.
func (p *Process) Restart() error {
	if err := p.Kill(); err != nil {
		return err
	}
	return p.Start()
}

// Terminate asks the process to end with SIGTERM and waits until it is gone or ctx is done. A frozen process is thawed first: it could
// not obey.
func (p *Process) Terminate(ctx context.Context) error {
	if err := p.Thaw(); err != nil {
		return err
	}
	exited, err := p.end(syscall.SIGTERM)
	if err != nil || exited == nil {
		return err
	}
	select {
	case <-exited:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s (pid %d) does not end: %w", p.Name, p.Pid(), ctx.Err())
	}
}

// end sends a signal that is meant to end the process and returns what is closed when it did; nil if it was not running.
func (p *Process) end(sig os.Signal) (<-chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return nil, nil
	}
	p.ending = true
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return nil, fmt.Errorf("end %s (pid %d): %w", p.Name, p.cmd.Process.Pid, err)
	}
	return p.exited, nil
}

// Freeze stops the process with SIGSTOP: a paused machine, or a very long garbage collection.
func (p *Process) Freeze() error { return p.signal(syscall.SIGSTOP) }

// Thaw lets a frozen process go on.
func (p *Process) Thaw() error { return p.signal(syscall.SIGCONT) }

func (p *Process) signal(sig os.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		if sig == syscall.SIGCONT {
			return nil
		}
		return fmt.Errorf("%s: %v: it does not run", p.Name, sig)
	}
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s (pid %d): %v: %w", p.Name, p.cmd.Process.Pid, sig, err)
	}
	return nil
}

// died describes the end of a run that nobody asked for, or is nil.
func (p *Process) died() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil || p.ending || p.running() {
		return nil
	}
	return fmt.Errorf("%s (pid %d) ended by itself: %v", p.Name, p.cmd.Process.Pid, p.cmd.ProcessState)
}

// logText returns what the current run wrote to its log.
func (p *Process) logText() (string, error) {
	p.mu.Lock()
	start := p.logStart
	p.mu.Unlock()
	text, err := os.ReadFile(p.Log())
	if err != nil {
		return "", err
	}
	return string(text[min(start, int64(len(text))):]), nil
}

// tail returns the last n lines of the log and of what the process printed, for error messages.
func (p *Process) tail(n int) string {
	var b strings.Builder
	for _, file := range []string{p.log, p.dir + "/out"} {
		text, err := os.ReadFile(file)
		if err != nil || len(text) == 0 {
			continue // nothing was written there
		}
		lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
		fmt.Fprintf(&b, "--- %s, %s\n%s\n", p.Name, file, strings.Join(lines[max(0, len(lines)-n):], "\n"))
	}
	return b.String()
}

// pause waits a moment between two looks at something; it returns early when ctx is done.
func pause(ctx context.Context) { _ = Sleep(ctx, 200*time.Millisecond) }

// Sleep waits, or returns the error of ctx when that is done.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
