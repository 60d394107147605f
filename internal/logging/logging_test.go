package logging

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/slogtest"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
)

func parse(t *testing.T, args ...string) (*Config, error) {
	t.Helper()
	app := kingpin.New("test", "").Terminate(nil)
	cfg := AddFlags(app)
	_, err := app.Parse(args)
	return cfg, err
}

func TestAddFlags(t *testing.T) {
	tests := []struct {
		args []string
		want Config
		err  string
	}{
		{nil, Config{Level: "info", Format: "logfmt"}, ""},
		{[]string{"--log.level=debug", "--log.format=json"}, Config{Level: "debug", Format: "json"}, ""},
		{[]string{"--log.level=WARN"}, Config{Level: "warn", Format: "logfmt"}, ""},
		{[]string{"--log.level=loud"}, Config{}, "unrecognized log level loud"},
		{[]string{"--log.format=xml"}, Config{}, "unrecognized log format xml"},
	}
	for _, test := range tests {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			got, err := parse(t, test.args...)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("error %v, want one with %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if *got != test.want {
				t.Errorf("got %+v, want %+v", *got, test.want)
			}
		})
	}
}

// here returns file:line of its caller plus offset lines.
func here(offset int) string {
	_, _, line, _ := runtime.Caller(1)
	return fmt.Sprintf("logging_test.go:%d", line+offset)
}

func TestCallerIsWhereTheEventIsLogged(t *testing.T) {
	var buf bytes.Buffer
	logger := New(&Config{Level: "debug"}, &buf)
	child := log.With(logger, "collector", "job")
	ways := map[string]func() string{
		"go-kit":       func() string { _ = logger.Log("a", 1); return here(0) },
		"level":        func() string { _ = level.Debug(logger).Log("a", 1); return here(0) },
		"child":        func() string { _ = level.Warn(child).Log("a", 1); return here(0) },
		"slog":         func() string { Slog(logger).Info("a"); return here(0) },
		"slog child":   func() string { Slog(child).With("x", 1).WithGroup("g").Error("a", "b", 2); return here(0) },
		"stdlib":       func() string { Stdlib(logger).Println("a"); return here(0) },
		"stdlib slog":  func() string { slog.NewLogLogger(Slog(logger).Handler(), slog.LevelInfo).Print("a"); return here(0) },
		"stdlib child": func() string { Stdlib(child).Printf("a"); return here(0) },
	}
	for name, way := range ways {
		buf.Reset()
		want := "caller=" + way()
		if !strings.Contains(buf.String(), want+" ") {
			t.Errorf("%s: %q does not say %s", name, buf.String(), want)
		}
	}
}

func TestNewWritesLogfmt(t *testing.T) {
	var buf bytes.Buffer
	_ = level.Info(New(&Config{}, &buf)).Log("msg", "two words", "err", errors.New("x"))
	want := regexp.MustCompile(`^ts=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z caller=logging_test.go:\d+ level=info msg="two words" err=x\n$`)
	if !want.MatchString(buf.String()) {
		t.Errorf("got %q", buf.String())
	}
}

func TestNewFiltersByLevel(t *testing.T) {
	for i, name := range levels {
		var buf bytes.Buffer
		logger := New(&Config{Level: name, Format: "json"}, &buf)
		_ = level.Debug(logger).Log("msg", "debug")
		_ = level.Info(logger).Log("msg", "info")
		Slog(logger).Warn("warn")
		Slog(logger).Error("error")
		var got []string
		for line := range strings.Lines(buf.String()) {
			var event struct{ Level, Msg string }
			if err := json.Unmarshal([]byte(line), &event); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			if event.Level != event.Msg {
				t.Errorf("an event of level %s says level %s", event.Msg, event.Level)
			}
			got = append(got, event.Msg)
		}
		if want := levels[i:]; strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("--log.level=%s lets through %v, want %v", name, got, want)
		}
	}
}

func TestNewIsSafeForConcurrentUse(t *testing.T) {
	var buf bytes.Buffer
	logger := New(&Config{Format: "json"}, &buf)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				Slog(logger).With("a", 1).Info("event")
			}
		})
	}
	wg.Wait()
	n := 0
	for line := range strings.Lines(buf.String()) {
		if !json.Valid([]byte(line)) {
			t.Fatalf("line %d is torn: %q", n, line)
		}
		n++
	}
	if n != 400 {
		t.Errorf("%d lines, want 400", n)
	}
}

func TestStdlibLogsErrors(t *testing.T) {
	var buf bytes.Buffer
	Stdlib(New(&Config{Level: "error"}, &buf)).Println("error gathering metrics:", errors.New("boom"))
	if want := `level=error msg="error gathering metrics: boom"`; !strings.Contains(buf.String(), want) {
		t.Errorf("%q does not contain %q", buf.String(), want)
	}
}

// TestSlogHandler runs the standard library's own conformance test. Time is the logger's part, as in New: the handler
// adds none, which is what the case "zero-time" asks of it, so that one case gets a logger without a clock.
func TestSlogHandler(t *testing.T) {
	buffers := map[string]*bytes.Buffer{}
	newHandler := func(t *testing.T) slog.Handler {
		buf := &bytes.Buffer{}
		buffers[t.Name()] = buf
		logger := log.NewJSONLogger(buf)
		if !strings.HasSuffix(t.Name(), "/zero-time") {
			logger = log.With(logger, slog.TimeKey, log.DefaultTimestampUTC)
		}
		return Slog(logger).Handler()
	}
	result := func(t *testing.T) map[string]any {
		flat := map[string]any{}
		if err := json.Unmarshal(buffers[t.Name()].Bytes(), &flat); err != nil {
			t.Fatal(err)
		}
		return nest(flat)
	}
	slogtest.Run(t, newHandler, result)
	if len(buffers) == 0 {
		t.Fatal("no case ran")
	}
}

// nest turns the keys "G.H.a" into maps in maps.
func nest(flat map[string]any) map[string]any {
	nested := map[string]any{}
	for key, value := range flat {
		at := nested
		path := strings.Split(key, ".")
		for _, group := range path[:len(path)-1] {
			if at[group] == nil {
				at[group] = map[string]any{}
			}
			at = at[group].(map[string]any)
		}
		at[path[len(path)-1]] = value
	}
	return nested
}

func TestSlogValues(t *testing.T) {
	for _, format := range formats {
		var buf bytes.Buffer
		logger := Slog(New(&Config{Format: format}, &buf))
		logger.Info("hello", "d", 90*time.Second, "err", errors.New("boom"), "struct", struct{ A, B int }{1, 2}, "list", []string{"x", "y"},
			"none", nil, "level", "mine", "ts", "mine", "msg", "mine", "caller", "mine")
		want := []string{`d=1m30s`, `err=boom`, `struct="{A:1 B:2}"`, `list="[x y]"`, `none=null`,
			`logged_level=mine`, `logged_ts=mine`, `logged_msg=mine`, `logged_caller=mine`, `level=info`, `msg=hello`}
		if format == "json" {
			want = []string{`"d":"1m30s"`, `"err":"boom"`, `"struct":"{A:1 B:2}"`, `"list":"[x y]"`, `"none":null`,
				`"logged_level":"mine"`, `"level":"info"`, `"msg":"hello"`}
		}
		for _, w := range want {
			if !strings.Contains(buf.String(), w) {
				t.Errorf("%s: %q does not contain %s", format, buf.String(), w)
			}
		}
	}
}

func TestSlogLevels(t *testing.T) {
	want := map[slog.Level]string{
		slog.LevelDebug - 4: "debug", slog.LevelDebug: "debug", slog.LevelDebug + 1: "debug", slog.LevelInfo: "info",
		slog.LevelInfo + 2: "info", slog.LevelWarn: "warn", slog.LevelError - 1: "warn", slog.LevelError: "error", slog.LevelError + 4: "error",
	}
	for l, name := range want {
		var buf bytes.Buffer
		Slog(New(&Config{Level: "debug"}, &buf)).Log(t.Context(), l, "x")
		if !strings.Contains(buf.String(), " level="+name+" ") {
			t.Errorf("level %d: %q, want %s", l, buf.String(), name)
		}
	}
}
