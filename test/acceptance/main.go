// Command acceptance proves the exporter on real Flink clusters: it starts them with package lab, plays incidents and ordinary life, scrapes
// the real exporter every second throughout, and compares what it says with what the clusters' REST answers and the written records say.
//
//	go run ./test/acceptance --versions 1.17.2,2.3.0 --rounds 10 --out docs/acceptance.md
//
// It exits 0 if every scenario got its right verdict; its last line is "N passed, N failed".
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/flink-lineage/flink-lineage-exporter/test/lab"
	"github.com/flink-lineage/flink-lineage-exporter/test/scrape"
)

func main() {
	os.Exit(run())
}

// settings are the command line.
type settings struct {
	versions  []string
	scenarios []string
	rounds    int
	out       string
	exporter  string
	keep      string
	suite     *suite
}

func run() int {
	var s settings
	var versions, names, suiteName string
	app := kingpin.New("acceptance", "Prove the exporter on real Flink clusters.")
	app.HelpFlag.Short('h')
	app.Flag("versions", "Flink versions, by comma, or all.").Default("1.17.2,2.3.0").StringVar(&versions)
	app.Flag("scenarios", "Scenarios of the suite, by comma; all by default. "+scenarioNames()).StringVar(&names)
	app.Flag("suite", "Which scenarios: "+suiteHelp()).Default("flink").EnumVar(&suiteName, suiteNames()...)
	app.Flag("rounds", "Repetitions of each ordinary event in the scenarios that must raise no alarm.").Default("10").IntVar(&s.rounds)
	app.Flag("out", "Markdown file to write the results to.").StringVar(&s.out)
	app.Flag("exporter", "Binary of the exporter; built if not given.").StringVar(&s.exporter)
	app.Flag("keep", "Folder for what the exporter said, one file a scrape in which something was wrong.").StringVar(&s.keep)
	kingpin.MustParse(app.Parse(os.Args[1:]))
	s.suite = suites[suiteName]
	s.versions = lab.Versions
	if versions != "all" {
		s.versions = strings.Split(versions, ",")
	}
	if names != "" {
		s.scenarios = strings.Split(names, ",")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	results, err := playAll(ctx, &s)
	failed := 0
	for _, r := range results {
		if r.err != nil {
			failed++
			fmt.Printf("FAILED %s %s: %v\n", r.version, r.scenario.name, r.err)
		}
	}
	if err != nil {
		fmt.Println(err)
		failed++
	}
	fmt.Printf("%d passed, %d failed\n", len(results)-min(failed, len(results)), failed)
	if failed > 0 {
		return 1
	}
	return 0
}

func playAll(ctx context.Context, s *settings) ([]*result, error) {
	if s.exporter == "" {
		dir, err := os.MkdirTemp("", "acceptance-")
		if err != nil {
			return nil, err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		if s.exporter, err = scrape.Build(ctx, dir); err != nil {
			return nil, err
		}
	}
	for _, name := range s.scenarios {
		if !slices.ContainsFunc(s.suite.scenarios, func(x *scenario) bool { return x.name == name }) {
			return nil, fmt.Errorf("there is no scenario %q; %s", name, scenarioNames())
		}
	}
	var results []*result
	for _, version := range s.versions {
		version, err := lab.Latest(version)
		if err != nil {
			return results, err
		}
		if _, err := lab.Fetch(ctx, version); err != nil {
			return results, err
		}
		for _, x := range s.suite.scenarios {
			if len(s.scenarios) > 0 && !slices.Contains(s.scenarios, x.name) || x.applies != nil && !x.applies(version) {
				continue
			}
			r := play(ctx, s, version, x)
			if ctx.Err() != nil {
				return results, errors.New("interrupted")
			}
			results = append(results, r)
			if s.out != "" {
				if err := s.suite.write(s.out, s, results); err != nil {
					return results, err
				}
			}
		}
	}
	return results, nil
}

// play runs one scenario on a cluster of its own.
func play(ctx context.Context, s *settings, version string, x *scenario) *result {
	begin := time.Now()
	r := &result{version: version, scenario: x}
	fmt.Printf("=== %s %s\n", version, x.name)
	ctx, cancel := context.WithTimeout(ctx, 30*time.Minute)
	defer cancel()
	r.err = func() error {
		p := &stage{ctx: ctx, settings: s, result: r}
		stop, err := p.startCluster(ctx, x, version)
		if err != nil {
			return err
		}
		defer func() { _ = stop() }()
		return errors.Join(x.play(p), p.stopExporter())
	}()
	r.took = time.Since(begin)
	fmt.Printf("--- %s %s: %s (%.0f s)\n", version, x.name, r.outcome(), r.took.Seconds())
	return r
}

// logTo is where the lab tells what it does.
var logTo = lab.Indent(os.Stdout)
