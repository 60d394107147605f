// Command e2e proves alerts and dashboards in real Prometheus and Alertmanager. The real exporter watches two recorded clusters that are
// replayed: in one an incident happens, in the other a clean failover. The incident must page the right job and TaskManager and resolve once
// it is over; the clean failover must page nobody; and every query of every panel must return data during the incident, but for those listed
// in empty-panels.txt.
//
// It runs at the top of the repository and needs prometheus and prometheus-alertmanager on the PATH (run.sh installs them). Everything listens
// on loopback, on free ports, with data in a directory of its own, and is ended at the end.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/flink-lineage/flink-lineage-exporter/internal/recording"
)

const (
	// scrapeInterval is short, so that the times measured are those of the rules.
	scrapeInterval = 3 * time.Second
	// keepFiringFor replaces that of the rules, which is minutes: this test waits for the end of each alert.
	keepFiringFor = 20 * time.Second
	// settle is how long a moment is shown that is only passed through.
	settle = 12 * time.Second
	// patience is how long something may take that is waited for, the rules' own times not counted.
	patience = 90 * time.Second
)

// The moments of both histories. Each history is of one real cluster.
var (
	incident = []string{
		"1.17.2-night-1-healthy", "1.17.2-night-2-no-leader", "1.17.2-night-3-duplicate", "1.17.2-night-4-restarted",
	}
	cleanFailover = []string{"1.17.2-healthy", "1.17.2-leader-just-died", "1.17.2-clean-failover"}
)

func main() {
	app := kingpin.New("e2e", "Prove alerts and dashboards in real Prometheus and Alertmanager.")
	panels := app.Flag("panels-json", "Write what each panel's queries returned during the incident to this file.").String()
	pictures := app.Flag("svg", "Draw each dashboard as it was during the incident into this directory.").String()
	app.HelpFlag.Short('h')
	kingpin.MustParse(app.Parse(os.Args[1:]))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "flink-lineage-e2e-")
	app.FatalIfError(err, "")
	if err := run(ctx, dir, *panels, *pictures); err != nil {
		fmt.Fprintf(os.Stderr, "\nFAILED: %s\nLogs are in %s\n", err, dir)
		os.Exit(1)
	}
	app.FatalIfError(os.RemoveAll(dir), "")
	fmt.Println("\nPASSED")
}

func run(ctx context.Context, dir, panelsJSON, pictures string) (err error) {
	sick, err := serve(incident)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sick.server.Close()) }()
	clean, err := serve(cleanFailover)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, clean.server.Close()) }()

	s, err := start(ctx, dir, map[string]*replayed{"incident": sick, "clean": clean})
	defer func() { err = errors.Join(err, s.stop()) }()
	if err != nil {
		return err
	}
	fmt.Printf("Rules: alerts/flink-lineage.rules.yaml with their own `for`; only keep_firing_for is %s instead of theirs.\n"+
		"Scrapes and evaluations every %s. Alertmanager: alerts/alertmanager.example.yml with group_interval 1s.\n\n", keepFiringFor, scrapeInterval)

	if err := s.waitFor(ctx, "both exporters are scraped and see a healthy job", func() (bool, error) {
		v, err := s.prometheus.instant(ctx, `count(flink_lineage_job_verdict{verdict="ok"} == 1)`)
		return len(v) == 1 && v[0].value() == 2, err
	}); err != nil {
		return err
	}
	// Both clusters lose their leader at a time.
	for i := 1; i <= 2; i++ {
		if err := errors.Join(sleep(ctx, settle), sick.show(i), clean.show(i)); err != nil {
			return err
		}
	}
	began := time.Now()
	page, err := s.receiver.wait(ctx, "page", "FlinkLineageDuplicateExecution", "firing", time.Minute+patience)
	if err != nil {
		return err
	}
	paged := time.Since(began).Round(100 * time.Millisecond)
	fmt.Printf("\nFrom the first duplicate to the page: %s, of which the rule waits 1m.\n", paged)
	if err := s.checkPage(ctx, page); err != nil {
		return err
	}
	results, err := s.checkPanels(ctx)
	if err != nil {
		return err
	}
	if panelsJSON != "" {
		if err := writeJSON(panelsJSON, results); err != nil {
			return err
		}
	}

	if pictures != "" {
		if err := draw(pictures, results); err != nil {
			return err
		}
	}

	fmt.Println("\nThe TaskManager is restarted.")
	if err := sick.show(3); err != nil {
		return err
	}
	began = time.Now()
	if _, err := s.receiver.wait(ctx, "page", "FlinkLineageDuplicateExecution", "resolved", keepFiringFor+patience); err != nil {
		return err
	}
	fmt.Printf("From the restart to the end of the page: %s, of which the rule holds it %s.\n\n",
		time.Since(began).Round(100*time.Millisecond), keepFiringFor)
	return s.checkQuiet(ctx)
}

// replayed is a recorded cluster with its history.
type replayed struct {
	name    string
	moments []*recording.Recording
	server  *recording.Server
}

func serve(names []string) (*replayed, error) {
	r := &replayed{name: strings.TrimSuffix(names[0], "-healthy")}
	for _, name := range names {
		rec, err := recording.Load(filepath.Join("recordings", name+".json.gz"))
		if err != nil {
			return nil, err
		}
		r.moments = append(r.moments, rec)
	}
	var err error
	r.server, err = recording.Serve(r.moments[0].Shift(time.Now()))
	return r, err
}

func (r *replayed) show(i int) error {
	fmt.Printf("%s %s: %s\n", time.Now().Format(time.TimeOnly), r.name, r.moments[i].Scenario)
	return r.server.Show(r.moments[i].Shift(time.Now()))
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
