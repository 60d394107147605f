package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/flink-lineage/flink-lineage-exporter/test/beam"
	"github.com/flink-lineage/flink-lineage-exporter/test/lab"
	"github.com/flink-lineage/flink-lineage-exporter/test/scrape"
)

// zombieAct is the other family: tasks that ignore their cancellation work on beside their successors.
var zombieAct = &act{name: "zombie", Sink: "files written", start: startZombie}

// zombieWorld is a Flink job whose writing function swallows interrupts. It writes to files, a line a value.
type zombieWorld struct {
	flink *lab.Cluster
	hdfs  *beam.HDFS
	dir   string
	// doubled is how many subtasks had two writers when it was counted; 0 before. Not every task that is interrupted becomes one that
	// ignores it: between two values it just ends.
	doubled int
}

func startZombie(ctx context.Context, k kind, conf map[string]string) (world, error) {
	w := &zombieWorld{}
	if err := w.start(ctx, k, conf); err != nil {
		return nil, errors.Join(err, w.stop())
	}
	return w, nil
}

func (w *zombieWorld) start(ctx context.Context, k kind, conf map[string]string) error {
	var err error
	if w.dir, err = os.MkdirTemp("", "flink-night-"); err != nil {
		return err
	}
	if w.hdfs, err = beam.StartHDFS(ctx, w.dir); err != nil {
		return err
	}
	w.flink, err = lab.Start(ctx, lab.Options{
		Version: flinkVersion, HA: k.ha, TaskManagers: 1, Slots: slots, Parallelism: parallelism, JobArgs: []string{"--mode", "zombie"},
		FlinkConf: with(w.hdfs.FlinkConf(), conf, zombieConf), Classpath: w.hdfs.Classpath(),
		JVMArgs: []string{"-Xmx512m", "-XX:MaxMetaspaceSize=384m"}, Dir: filepath.Join(w.dir, "flink"), Log: logTo,
	})
	return err
}

func (w *zombieWorld) cluster() *lab.Cluster { return w.flink }

func (w *zombieWorld) flags(context.Context) ([]string, error) { return nil, nil }

func (w *zombieWorld) written(ctx context.Context, t time.Time) (string, error) {
	var d lab.Doubles
	err := w.flink.Wait(ctx, "something is written", func(context.Context) (bool, error) {
		var err error
		d, err = lab.CountDoubles(t, w.flink.Sinks()...)
		return d.Writes > 0, err
	})
	return fmt.Sprintf("%d writes since the kill", d.Writes), err
}

// count counts what is written for a while from now on.
func (w *zombieWorld) count(ctx context.Context) (lab.Doubles, error) {
	since := time.Now()
	if err := lab.Sleep(ctx, watched); err != nil {
		return lab.Doubles{}, err
	}
	return lab.CountDoubles(since, w.flink.Sinks()...)
}

func (w *zombieWorld) once(ctx context.Context) (string, error) {
	d, err := w.count(ctx)
	if err == nil && (subtasks(d) != parallelism || len(d.Writers) != parallelism) {
		err = fmt.Errorf("%s; want one writer of each of %d subtasks", d, parallelism)
	}
	return fmt.Sprintf("%d writes by %d writers of %d subtasks", d.Writes, len(d.Writers), subtasks(d)), err
}

func (w *zombieWorld) twice(ctx context.Context) (string, error) {
	d, err := w.count(ctx)
	w.doubled = len(d.Duplicated())
	if err == nil && (w.doubled == 0 || len(d.Writers) != parallelism+w.doubled) {
		err = fmt.Errorf("%s; want one writer of each of %d subtasks, and a second one of some", d, parallelism)
	}
	return fmt.Sprintf("**%d writes by %d writers of %d subtasks**, %d of them with two", d.Writes, len(d.Writers), subtasks(d), w.doubled), err
}

// subtasks counts the subtasks that wrote.
func subtasks(d lab.Doubles) int {
	all := map[string]bool{}
	for writer := range d.Writers {
		name, _, _ := strings.Cut(writer, "#")
		all[name] = true
	}
	return len(all)
}

func (w *zombieWorld) double(s *scrape.Sample, taskManager string) bool {
	graphs, _ := s.Value("job_execution_graphs")
	reporter, _ := s.Value("duplicate_subtasks", "view", "reporter")
	threads, _ := s.Value("duplicate_subtasks", "view", "threads")
	counted := reporter > 0 && reporter == threads && (w.doubled == 0 || reporter == float64(w.doubled))
	return s.Verdict("") == "duplicate" && graphs == 2 && counted && onlyRestart(s, taskManager, "stale_execution_graph")
}

func (w *zombieWorld) well(s *scrape.Sample) bool {
	for _, view := range []string{"reporter", "threads"} {
		if n, told := s.Value("duplicate_subtasks", "view", view); !told || n != 0 {
			return false
		}
	}
	return s.Verdict("") == "ok"
}

func (w *zombieWorld) spans(context.Context) ([]span, error) {
	byWriter := map[string]span{}
	for _, sink := range w.flink.Sinks() {
		writes, err := lab.ReadSink(sink)
		if err != nil {
			return nil, err
		}
		for _, x := range writes {
			s, ok := byWriter[x.Writer]
			if !ok {
				s.first = x.Time
			}
			s.last = x.Time
			byWriter[x.Writer] = s
		}
	}
	var spans []span
	for _, s := range byWriter {
		spans = append(spans, s)
	}
	return spans, nil
}

// stop ends what was started.
func (w *zombieWorld) stop() error {
	var errs []error
	if w.flink != nil {
		errs = append(errs, w.flink.Stop())
	}
	if w.hdfs != nil {
		errs = append(errs, w.hdfs.Stop())
	}
	return errors.Join(append(errs, os.RemoveAll(w.dir))...)
}
