// Command night plays the incident the exporter was built for, with every system of it real: Flink in application mode with two JobManagers,
// Kubernetes (etcd and kube-apiserver) or ZooKeeper for high availability, HDFS, Kafka, Beam and PostgreSQL. At each step it writes down what
// the JobManagers say, what the exporter says and what was written, checks that the three go together, and tells the story in docs/night.md.
//
//	go run ./test/night --out docs/night.md
//
// Its last line is "N passed, N failed", which counts the steps of the acts.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/flink-lineage/flink-lineage-exporter/test/lab"
	"github.com/flink-lineage/flink-lineage-exporter/test/scrape"
)

// settings are the command line.
type settings struct {
	kinds    []kind
	acts     []*act
	short    bool
	out      string
	measured string
	tell     bool
	exporter string
	keep     string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(2)
	}
	if s.tell {
		if err := writeStory(s.out, s.measured); err != nil {
			fmt.Fprintln(os.Stderr, err)
			stop()
			os.Exit(1)
		}
		return
	}
	passed, failed := run(ctx, s)
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 {
		stop()
		os.Exit(1)
	}
}

// parse reads the command line.
func parse(args []string) (*settings, error) {
	var s settings
	var kindNames, actNames string
	app := kingpin.New("night", "Play the incident on real systems.")
	app.HelpFlag.Short('h')
	app.Flag("ha", "High availability, by comma: kubernetes, zookeeper. Default: both, or with --short zookeeper.").StringVar(&kindNames)
	app.Flag("acts", "Acts, by comma: beam, zombie.").Default("beam,zombie").StringVar(&actNames)
	app.Flag("short", "Without the ledger, which takes minutes, and with more frequent checkpoints and heartbeats.").BoolVar(&s.short)
	app.Flag("out", "Markdown file to tell the story in, if everything passed. Acts not played are told as they were measured before.").StringVar(&s.out)
	app.Flag("measured", "File that keeps what was measured, for --out and --tell.").Default("test/night/night.json").StringVar(&s.measured)
	app.Flag("tell", "Play nothing, write --out anew from --measured.").BoolVar(&s.tell)
	app.Flag("exporter", "Binary of the exporter; built if not given.").StringVar(&s.exporter)
	app.Flag("keep", "Folder for the scrape of each step.").StringVar(&s.keep)
	if _, err := app.Parse(args); err != nil {
		return nil, err
	}
	if kindNames == "" {
		kindNames = "kubernetes,zookeeper"
		if s.short {
			kindNames = "zookeeper"
		}
	}
	for name := range strings.SplitSeq(kindNames, ",") {
		k, ok := kinds[name]
		if !ok {
			return nil, fmt.Errorf("--ha: %q is neither kubernetes nor zookeeper", name)
		}
		s.kinds = append(s.kinds, k)
	}
	for name := range strings.SplitSeq(actNames, ",") {
		a, ok := acts[name]
		if !ok {
			return nil, fmt.Errorf("--acts: %q is neither beam nor zombie", name)
		}
		s.acts = append(s.acts, a)
	}
	if s.tell && s.out == "" {
		return nil, errors.New("--tell: name the file to write with --out")
	}
	if s.out != "" && s.short {
		return nil, fmt.Errorf("--out: %s tells the night in full, not with --short", s.out)
	}
	return &s, nil
}

// run plays every act under every kind of high availability, one after the other, and counts the steps.
func run(ctx context.Context, s *settings) (passed, failed int) {
	fail := func(err error) (int, int) {
		fmt.Println("FAILED", err)
		return passed, failed + 1
	}
	if s.exporter == "" {
		dir, err := os.MkdirTemp("", "night-")
		if err != nil {
			return fail(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		if s.exporter, err = scrape.Build(ctx, dir); err != nil {
			return fail(err)
		}
	}
	for _, k := range s.kinds {
		if k.ha == lab.Kubernetes {
			if err := lab.PrepareKubernetes(ctx, logTo); err != nil {
				return fail(err)
			}
		}
		for _, a := range s.acts {
			begin := time.Now()
			fmt.Printf("=== %s, %s\n", a.name, k.name)
			r, err := play(ctx, s, k, a)
			passed += len(r.Steps)
			if err != nil {
				failed++
				fmt.Printf("FAILED %s, %s: %v\n", a.name, k.name, err)
			}
			fmt.Printf("--- %s, %s: %d steps (%.0f s); %s\n", a.name, k.name, len(r.Steps), time.Since(begin).Seconds(), r)
			if err == nil && s.out != "" {
				if err := keepMeasured(s.measured, r); err != nil {
					return fail(err)
				}
			}
		}
	}
	if s.out != "" && failed == 0 {
		if err := writeStory(s.out, s.measured); err != nil {
			return fail(err)
		}
	}
	return passed, failed
}

// logTo is where the lab tells what it does.
var logTo = lab.Indent(os.Stdout)
