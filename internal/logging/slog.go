package logging

import (
	"context"
	"encoding"
	"fmt"
	"log/slog"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
)

// Slog returns a slog.Logger whose events are written by logger, for libraries that want one.
// Time and caller are those logger adds itself; levels below, between and above slog's four count as the next lower one
// (below debug: debug); groups become a prefix of the key ("group.key").
// Every level is enabled, because a go-kit logger does not tell which ones it drops.
func Slog(logger log.Logger) *slog.Logger {
	return slog.New(&handler{logger: logger})
}

// handler is a slog.Handler over a go-kit logger.
type handler struct {
	logger log.Logger
	prefix string // of keys, from WithGroup: empty or ending in a dot
}

// Enabled implements slog.Handler.
func (h *handler) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (h *handler) Handle(_ context.Context, r slog.Record) error {
	keyvals := make([]any, 0, 2+2*r.NumAttrs())
	keyvals = append(keyvals, "msg", r.Message)
	r.Attrs(func(a slog.Attr) bool {
		keyvals = appendAttr(keyvals, h.prefix, a)
		return true
	})
	return leveled(h.logger, r.Level).Log(keyvals...)
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	var keyvals []any
	for _, a := range attrs {
		keyvals = appendAttr(keyvals, h.prefix, a)
	}
	return &handler{logger: log.With(h.logger, keyvals...), prefix: h.prefix}
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return &handler{logger: h.logger, prefix: h.prefix + name + "."}
}

// appendAttr appends the key and value of a, or of all its members if it is a group, as slog.Handler demands:
// LogValuers are resolved, empty attributes and groups left out, groups without a name inlined.
func appendAttr(keyvals []any, prefix string, a slog.Attr) []any {
	a.Value = a.Value.Resolve()
	if a.Equal(slog.Attr{}) {
		return keyvals
	}
	if a.Value.Kind() == slog.KindGroup {
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, member := range a.Value.Group() {
			keyvals = appendAttr(keyvals, prefix, member)
		}
		return keyvals
	}
	key := prefix + a.Key
	switch key {
	case "ts", "caller", "level", "msg": // the line has these already: a second one would hide the first in JSON
		key = "logged_" + key
	}
	return append(keyvals, key, value(a.Value))
}

// value returns v as something both formats can write: logfmt refuses structs, maps and slices.
func value(v slog.Value) any {
	switch x := v.Any().(type) {
	case nil, error, fmt.Stringer, encoding.TextMarshaler:
		return x
	default:
		if v.Kind() == slog.KindAny {
			return fmt.Sprintf("%+v", x)
		}
		return x
	}
}

func leveled(logger log.Logger, l slog.Level) log.Logger {
	switch {
	case l < slog.LevelInfo:
		return level.Debug(logger)
	case l < slog.LevelWarn:
		return level.Info(logger)
	case l < slog.LevelError:
		return level.Warn(logger)
	default:
		return level.Error(logger)
	}
}
