// Command e2e proves alerts and dashboards in real Prometheus and Alertmanager, with the real exporter.
//
// Replayed, the exporter watches two recorded clusters: in one an incident happens, in the other a clean failover. The incident must page the
// right job and TaskManager and resolve once it is over; the clean failover must page nobody; and every query of every panel must return data
// during the incident, but for those listed in empty-panels.txt.
//
// Live, the same happens on real Flink, which is downloaded: first a clean failover, then, on another cluster, an incident. What is right is
// told by what the job wrote to the outside. This needs a JDK and pip.
//
// The command overlap measures on real Flink how long each alert's expression is true in ordinary life, on which the rules' `for` rests.
//
// It runs at the top of the repository and needs prometheus and prometheus-alertmanager on the PATH (run.sh installs what is absent).
// Everything listens on loopback, on free ports, with data in a directory of its own, and is ended at the end. The last line counts checks.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/model"

	"github.com/flink-lineage/flink-lineage-exporter/alerts"
)

const (
	// duplicate is the alert that the incident is to bring about.
	duplicate = "FlinkLineageDuplicateExecution"
	// keepFiringFor replaces that of the rules, which is minutes: this test waits for the end of each alert.
	keepFiringFor = 20 * time.Second
	// patience is how long something may take that is waited for, the rules' own times not counted. Machines are busy.
	patience = 3 * time.Minute
)

func main() {
	app := kingpin.New("e2e", "Prove alerts and dashboards in real Prometheus and Alertmanager.")
	app.HelpFlag.Short('h')
	prove := app.Command("prove", "Play an incident and a clean failover, and check who is told what.").Default()
	replayedOnly := prove.Flag("replayed", "Only from recordings.").Bool()
	liveOnly := prove.Flag("live", "Only on real Flink.").Bool()
	panels := prove.Flag("panels-json", "Write what each panel's queries returned during the replayed incident to this file.").String()
	pictures := prove.Flag("svg", "Draw each dashboard as it was during the replayed incident into this directory.").String()
	measure := app.Command("overlap", "Measure on real Flink how long each alert's expression is true in ordinary life.")
	rounds := measure.Flag("rounds", "How often each piece of ordinary life is played.").Default("10").Int()
	versions := measure.Flag("versions", "Versions of Flink.").Default("1.17.2,2.3.0").String()
	command := kingpin.MustParse(app.Parse(os.Args[1:]))

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "flink-lineage-e2e-")
	app.FatalIfError(err, "")
	if command == measure.FullCommand() {
		if err := measureOverlap(ctx, dir, strings.Split(*versions, ","), *rounds); err != nil {
			app.Fatalf("%s\nLogs are in %s", err, dir)
		}
		app.FatalIfError(os.RemoveAll(dir), "")
		return
	}

	var t tally
	both := *replayedOnly == *liveOnly
	act := func(name string, wanted bool, play func(dir string) error) {
		if !wanted || ctx.Err() != nil {
			return
		}
		fmt.Printf("\n== %s\n", name)
		began := time.Now()
		if err := play(filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))); err != nil {
			t.check(name, err)
		}
		fmt.Printf("== %s: %.0f s\n", name, time.Since(began).Seconds())
	}
	act("replayed", both || *replayedOnly, func(dir string) error { return playReplayed(ctx, dir, &t, *panels, *pictures) })
	act("live clean failover", both || *liveOnly, func(dir string) error { return playCleanFailover(ctx, dir, &t) })
	act("live incident", both || *liveOnly, func(dir string) error { return playIncident(ctx, dir, &t) })
	if err := ctx.Err(); err != nil {
		t.check("run to the end", err)
	}
	if t.failed > 0 {
		fmt.Printf("\nLogs are in %s\n", dir)
	} else if err := os.RemoveAll(dir); err != nil {
		t.check("remove "+dir, err)
	}
	fmt.Printf("\n%d passed, %d failed\n", t.passed, t.failed)
	if t.failed > 0 {
		os.Exit(1)
	}
}

// pageAfter is the `for` of the alert that pages.
func pageAfter() (time.Duration, error) {
	thresholds, err := alerts.Defaults()
	if err != nil {
		return 0, err
	}
	d, err := model.ParseDuration(string(thresholds.DuplicateExecution.For))
	return time.Duration(d), err
}

// explain says how what is proven differs from what is committed.
func explain(interval time.Duration) {
	fmt.Printf("Rules: alerts/flink-lineage.rules.yaml with their own `for`; only keep_firing_for is %s instead of theirs.\n"+
		"Scrapes and evaluations every %s. Alertmanager: alerts/alertmanager.example.yml with group_interval 1s.\n\n", keepFiringFor, interval)
}

// waitResolved waits for the end of the page after a restart at some moment, and counts it as a check.
func (s *stack) waitResolved(ctx context.Context, t *tally, restarted time.Time) error {
	resolved, err := s.receiver.wait(ctx, "page", duplicate, "resolved", keepFiringFor+patience)
	if err != nil {
		return err
	}
	t.check("the page resolves after the TaskManager was restarted", nil)
	fmt.Printf("From the restart to the end of the page: %.1f s, of which the rule holds it %s.\n", resolved.received.Sub(restarted).Seconds(), keepFiringFor)
	return nil
}

func say(format string, args ...any) {
	fmt.Printf(time.Now().Format(time.TimeOnly)+" "+format+"\n", args...)
}
