// Command flink-lineage-exporter is a Prometheus exporter for the lineage of Flink tasks: job, vertex, subtask, execution attempt,
// TaskManager. It detects executions that run twice.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/version"

	"github.com/flink-lineage/flink-lineage-exporter/internal/logging"
)

const appName = "flink-lineage-exporter"

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// command is a subcommand: its flags are registered when it is made.
type command interface {
	run(env *environment) error
}

// environment is what every subcommand gets.
type environment struct {
	log    *logging.Config
	stdout io.Writer
	stderr io.Writer
}

// usageError is an error in the command line that was found after parsing it.
type usageError struct{ error }

// run parses the command line and runs the subcommand. It returns the exit status: 1 for a failure, 2 for an unusable command line.
func run(args []string, stdout, stderr io.Writer) int {
	app := kingpin.New(appName, "Prometheus exporter for the lineage of Flink tasks. It detects executions that run twice.")
	app.HelpFlag.Short('h')
	app.Version(version.Print(appName))
	app.UsageWriter(stdout).ErrorWriter(stderr)
	// Every command's flags: most people only use the default one's.
	app.UsageTemplate(kingpin.LongHelpTemplate)
	exited := -1
	app.Terminate(func(status int) {
		if exited < 0 {
			exited = status
		}
	})
	env := &environment{log: logging.AddFlags(app), stdout: stdout, stderr: stderr}
	commands := map[string]command{
		"serve":  newServe(app.Command("serve", "Serve metrics (the default).").Default()),
		"record": newRecord(app.Command("record", "Record what a cluster says now in a file, without secrets.")),
		"replay": newReplay(app.Command("replay", "Serve a recording as JobManagers and reporters on loopback.")),
		"demo":   newDemo(app.Command("demo", "Serve metrics of a recorded incident that plays in a loop.")),
		"health": newHealth(app.Command("health", "Exit 0 if an exporter answers that it is healthy; for container health checks.")),
	}
	name, err := app.Parse(args)
	switch {
	case exited >= 0:
		return exited
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "%s: %s, try --help\n", appName, err)
		return 2
	}
	if err := commands[name].run(env); err != nil {
		_, _ = fmt.Fprintf(stderr, "%s: %s\n", appName, err)
		if errors.As(err, &usageError{}) {
			return 2
		}
		return 1
	}
	return 0
}
