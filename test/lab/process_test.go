package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// driverEnv makes the test program a driver that starts a child, prints its pid and waits.
const driverEnv = "FLINK_LAB_TEST_DRIVER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(driverEnv); dir != "" {
		p := &Process{Name: "child", dir: dir, command: []string{"sleep", "600"}}
		if err := p.Start(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(p.Pid())
		select {}
	}
	os.Exit(m.Run())
}

func sleeper(t *testing.T, command ...string) *Process {
	t.Helper()
	p := &Process{Name: "child", dir: t.TempDir(), command: command}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// eventually waits for a condition that needs no cluster.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for !cond() {
		if ctx.Err() != nil {
			t.Fatalf("%s: did not happen", what)
		}
		pause(ctx)
	}
}

// state is the letter of /proc/PID/stat: S sleeping, T stopped, Z zombie; "" when there is no such process.
func state(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return rest[:1]
}

func TestProcessLife(t *testing.T) {
	p := sleeper(t, "sleep", "600")
	first := p.Pid()
	if !p.Running() || first == 0 {
		t.Fatal("it does not run")
	}
	if err := p.Start(); err == nil {
		t.Error("a running process was started again")
	}
	if err := p.Freeze(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "frozen", func() bool { return state(first) == "T" })
	if !p.Running() {
		t.Error("a frozen process counts as ended")
	}
	if err := p.Thaw(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "thawed", func() bool { return state(first) == "S" })

	if err := p.Freeze(); err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if p.Running() || state(first) != "" {
		t.Error("Kill of a frozen process returned before it was gone")
	}
	if err := p.died(); err != nil {
		t.Errorf("a process that was killed on purpose counts as one that ended by itself: %v", err)
	}
	if err := errors.Join(p.Kill(), p.Thaw()); err != nil {
		t.Errorf("ending what has ended: %v", err)
	}
	if err := p.Freeze(); err == nil {
		t.Error("a process that does not run was frozen")
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	if p.Pid() == first {
		t.Error("the restarted process has the pid of the old one")
	}
}

func TestTerminateThawsFirst(t *testing.T) {
	p := sleeper(t, "sleep", "600")
	if err := p.Freeze(); err != nil {
		t.Fatal(err)
	}
	if err := p.Terminate(t.Context()); err != nil || p.Running() {
		t.Errorf("got %v, running %v", err, p.Running())
	}
}

func TestTerminateGivesUpWithItsContext(t *testing.T) {
	p := sleeper(t, "sh", "-c", "trap '' TERM; echo ready; sleep 600 & wait")
	eventually(t, "the shell ignores SIGTERM", func() bool {
		out, err := os.ReadFile(p.dir + "/out")
		return err == nil && len(out) > 0
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Terminate(ctx); !errors.Is(err, context.Canceled) || !p.Running() {
		t.Errorf("got %v, running %v", err, p.Running())
	}
	if err := syscall.Kill(-p.Pid(), syscall.SIGKILL); err != nil { // its sleep too
		t.Fatal(err)
	}
}

func TestDiedTellsHow(t *testing.T) {
	p := sleeper(t, "sh", "-c", "echo no such luck >&2; exit 3")
	eventually(t, "ended", func() bool { return !p.Running() })
	if err := p.died(); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("got %v, want exit status 3", err)
	}
	if tail := p.tail(5); !strings.Contains(tail, "no such luck") {
		t.Errorf("the tail %q lacks what the process printed", tail)
	}
}

func TestStartOfNothing(t *testing.T) {
	p := &Process{Name: "child", dir: t.TempDir(), command: []string{"/nonexistent"}}
	if err := p.Start(); err == nil || p.Running() {
		t.Errorf("got %v, running %v", err, p.Running())
	}
}

// TestChildrenDieWithTheDriver ends a driver in ways that leave it no time to stop its children.
func TestChildrenDieWithTheDriver(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			driver := exec.Command(os.Args[0])
			driver.Env = append(os.Environ(), driverEnv+"="+t.TempDir())
			out, err := driver.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := driver.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			child, err := strconv.Atoi(strings.TrimSpace(line))
			if err != nil {
				t.Fatal(err)
			}
			if state(child) == "" {
				t.Fatal("the child does not run")
			}
			if err := driver.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if err := driver.Wait(); err == nil {
				t.Error("the driver ended well")
			}
			eventually(t, "the child is gone", func() bool { s := state(child); return s == "" || s == "Z" })
		})
	}
}

func TestReservePorts(t *testing.T) {
	ports, err := reservePorts(50)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, r := range ports {
		if seen[r.port] || r.port < lowestPort {
			t.Errorf("port %d: twice or too low", r.port)
		}
		seen[r.port] = true
		r.release()
	}
}
