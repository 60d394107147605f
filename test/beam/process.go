package beam

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/flink-lineage/flink-lineage-exporter/test/host"
)

// process is a service that lives no longer than the program.
type process struct {
	name   string
	log    string // takes what it prints
	cmd    *exec.Cmd
	exited chan struct{}
}

// start starts a process whose output goes to the file log. A credential other than nil is who it runs as.
func start(name, log string, credential *syscall.Credential, command ...string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p := &process{name: name, log: log, cmd: exec.Command(command[0], command[1:]...), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	if err := host.StartChild(p.cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in cmd.ProcessState
		close(p.exited)
	}()
	return p, nil
}

// stop asks the process to end with a signal, ends it after ten seconds, and waits until it is gone.
func (p *process) stop(signal os.Signal) error {
	err := p.cmd.Process.Signal(signal)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	select {
	case <-p.exited:
		return err
	case <-time.After(10 * time.Second):
		err = errors.Join(err, p.cmd.Process.Kill())
		<-p.exited
		return err
	}
}

// wait tries until ready succeeds, the process ends or ctx is done.
func (p *process) wait(ctx context.Context, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("%s ended: %s\n%s", p.name, p.cmd.ProcessState, tail(p.log))
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w; last: %w\n%s", p.name, ctx.Err(), err, tail(p.log))
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func tail(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}

// freePort returns a port that is free now.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}
