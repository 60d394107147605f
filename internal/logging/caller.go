package logging

import (
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// plumbing are the prefixes of functions between a call that logs and caller.
var plumbing = []string{"github.com/go-kit/log.", "github.com/go-kit/log/level.", "log.", "log/slog."}

// caller returns file:line of the innermost function that is not part of a logger. It looks at names instead of counting
// frames, as go-kit's own Caller does, because events arrive by ways of different depth: go-kit, slog and Stdlib.
func caller() any {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		frame, more := frames.Next()
		if !isPlumbing(frame.Function) {
			return filepath.Base(frame.File) + ":" + strconv.Itoa(frame.Line)
		}
		if !more {
			return "unknown"
		}
	}
}

func isPlumbing(function string) bool {
	for _, prefix := range plumbing {
		if strings.HasPrefix(function, prefix) {
			return true
		}
	}
	return strings.Contains(function, "/internal/logging.(*handler).")
}
