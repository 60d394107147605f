package host

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

func TestCacheDir(t *testing.T) {
	own := filepath.Join(t.TempDir(), "a", "b")
	t.Setenv("HOST_TEST_CACHE", own)
	if dir, err := CacheDir("HOST_TEST_CACHE", "x"); err != nil || dir != own {
		t.Errorf("%q, %v, want %q", dir, err, own)
	}
	if _, err := os.Stat(own); err != nil {
		t.Error(err)
	}
}

func TestRepository(t *testing.T) {
	dir, err := Repository()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "test", "host", "cache.go")); err != nil {
		t.Error(err)
	}
	t.Chdir(t.TempDir())
	if dir, err := Repository(); err == nil {
		t.Errorf("a repository at %s", dir)
	}
	t.Setenv("HOST_TEST_CACHE", "")
	if dir, err := CacheDir("HOST_TEST_CACHE", "x"); err == nil {
		t.Errorf("a cache at %s", dir)
	}
}

func TestStartChild(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pgid: 0}
	if err := StartChild(cmd); err != nil {
		t.Fatal(err)
	}
	pgid, err := syscall.Getpgid(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if pgid != cmd.Process.Pid {
		t.Errorf("process group %d, want one of its own", pgid)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	if err := StartChild(exec.Command("/no/such/command")); err == nil {
		t.Error("no error for a command that is not there")
	}
}
