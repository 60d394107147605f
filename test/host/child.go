package host

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// StartChild starts a command in a process group of its own, so that Ctrl-C reaches only the program, and lets the kernel kill it when the
// program is gone, however it went. Other attributes that the command has stay.
func StartChild(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pdeathsig = true, syscall.SIGKILL
	result := make(chan error)
	spawner() <- func() { result <- cmd.Start() }
	return <-result
}

// spawner runs functions on one thread that lives as long as the program. Pdeathsig counts the death of the thread that started the child,
// and Go ends threads when it likes, save those to which a living goroutine is locked.
var spawner = sync.OnceValue(func() chan<- func() {
	calls := make(chan func())
	go func() {
		runtime.LockOSThread()
		for call := range calls {
			call()
		}
	}()
	return calls
})
