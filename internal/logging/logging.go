// Package logging makes the exporter's go-kit logger from the flags every Prometheus exporter has, and adapts it for
// libraries that want another kind of logger: log/slog (exporter-toolkit) and the standard library's log (promhttp).
package logging

import (
	"fmt"
	"io"
	stdlog "log"
	"strings"

	"github.com/alecthomas/kingpin/v2"
	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
)

var (
	levels  = []string{"debug", "info", "warn", "error"}
	formats = []string{"logfmt", "json"}
)

// Config says what is logged and how. The zero value means info and logfmt.
type Config struct {
	// Level is the least severe level that is written: debug, info, warn or error.
	Level string
	// Format is logfmt or json.
	Format string
}

// AddFlags registers --log.level and --log.format, by the names and defaults of all Prometheus components.
// The result is filled in when app parses its command line.
func AddFlags(app *kingpin.Application) *Config {
	cfg := &Config{}
	app.Flag("log.level", "Only log messages with the given severity or above. One of: ["+strings.Join(levels, ", ")+"]").
		Default("info").HintOptions(levels...).SetValue((*levelValue)(&cfg.Level))
	app.Flag("log.format", "Output format of log messages. One of: ["+strings.Join(formats, ", ")+"]").
		Default("logfmt").HintOptions(formats...).SetValue((*formatValue)(&cfg.Format))
	return cfg
}

// New returns a logger that writes to w, one line an event, with the UTC time (ts), the calling file and line (caller)
// and the level. It is safe for concurrent use, whatever w is. Events without a level are always written.
func New(cfg *Config, w io.Writer) log.Logger {
	w = log.NewSyncWriter(w)
	logger := log.NewLogfmtLogger(w)
	if cfg.Format == "json" {
		logger = log.NewJSONLogger(w)
	}
	logger = log.With(logger, "ts", log.DefaultTimestampUTC, "caller", log.Valuer(caller))
	return level.NewFilter(logger, level.Allow(level.ParseDefault(cfg.Level, level.InfoValue())))
}

// Stdlib returns a logger of the standard library whose lines become error events of logger, for promhttp's ErrorLog.
func Stdlib(logger log.Logger) *stdlog.Logger {
	return stdlog.New(log.NewStdlibAdapter(level.Error(logger)), "", 0)
}

// levelValue is a flag that accepts a level in any case.
type levelValue string

func (v *levelValue) Set(s string) error {
	l, err := level.Parse(s)
	if err != nil {
		return fmt.Errorf("unrecognized log level %s", s)
	}
	*v = levelValue(l.String())
	return nil
}

func (v *levelValue) String() string { return string(*v) }

// formatValue is a flag that accepts a format.
type formatValue string

func (v *formatValue) Set(s string) error {
	if s != "logfmt" && s != "json" {
		return fmt.Errorf("unrecognized log format %s", s)
	}
	*v = formatValue(s)
	return nil
}

func (v *formatValue) String() string { return string(*v) }
