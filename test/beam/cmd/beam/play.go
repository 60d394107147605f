package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/flink-lineage/flink-lineage-exporter/test/beam"
)

// observe is for how long records are produced whose rows a note tells.
const observe = 15 * time.Second

// play is one run of a scenario.
type play struct {
	*beam.Run
	recorder []string
	folder   string
	flink    string
	log      io.Writer
}

// scenario is systems and what happens to them.
type scenario struct {
	help    string
	options beam.Options
	play    func(context.Context, *play) error
}

var scenarios = map[string]scenario{
	"beam-parallelism6": {
		help:    "parallelism 6 on two TaskManagers, a failover",
		options: beam.Options{Partitions: 6, Parallelism: 6, TaskManagers: 2, Slots: 3},
		play:    healthyThenDouble("beam-parallelism6", "parallelism 6 on two TaskManagers, 6 partitions"),
	},
	"beam-12-partitions": {
		help:    "12 partitions for 2 subtasks, a failover",
		options: beam.Options{Partitions: 12},
		play:    healthyThenDouble("beam-12-partitions", "12 partitions for 2 subtasks"),
	},
	"beam-more-subtasks-than-partitions": {
		help:    "1 partition for 3 subtasks, a failover",
		options: beam.Options{Partitions: 1, Parallelism: 3},
		play:    healthyThenDouble("beam-more-subtasks-than-partitions", "1 partition for 3 subtasks"),
	},
	"beam-two-sources": {
		help:    "two KafkaIO sources in one job, a failover",
		options: beam.Options{Topics: []string{"orders", "payments"}},
		play:    healthyThenDouble("beam-two-sources", "two KafkaIO sources of 4 partitions each in one job, parallelism 2"),
	},
	"beam-backpressure": {
		help:    "a sink that takes half a second for each record, a failover",
		options: beam.Options{Pause: 500 * time.Millisecond},
		play:    backpressure("beam-backpressure", "the writing DoFn, chained to the source, takes 500 ms for each record, more come than it can write"),
	},
	"beam-backpressure-shuffle": {
		help:    "the same with a shuffle between source and sink",
		options: beam.Options{Pause: 500 * time.Millisecond, Shuffle: true},
		play:    backpressure("beam-backpressure-shuffle", "a DoFn chained to the source takes 500 ms for each record, a shuffle before the sink"),
	},
	"beam-one-busy-partition": {help: "traffic on one partition of four only, a failover", play: oneBusyPartition},
	"beam-idle":               {help: "a topic without traffic: healthy, after a failover, after a task failure", play: idle},
	"beam-three-failovers":    {help: "three failovers, a task failure, a restart of the TaskManager", play: threeFailovers},
	"beam-two-jobs-one-tm": {
		help:    "two jobs on one TaskManager of a session cluster",
		options: beam.Options{Session: true, Slots: 4, Topics: []string{"orders", "payments"}},
		play:    twoJobs,
	},
	"beam-bounded": {
		help:    "KafkaIO beside Create, Impulse and a bounded sequence in one streaming job, a failover",
		options: beam.Options{Bounded: 100, Slots: 4},
		play:    healthyThenDouble("beam-bounded", "KafkaIO (4 partitions, 2 subtasks) beside Create, Impulse and a bounded sequence in one streaming job"),
	},
	"beam-fixed": {help: "the patched runner over two failovers", options: beam.Options{Pipeline: beam.BeamFixed}, play: fixed},
	"kafkasource": {
		help: "KafkaSource and a failover, 1.17.2", options: beam.Options{Pipeline: beam.KafkaSource}, play: kafkaSource("kafkasource", "4 partitions, 2 subtasks"),
	},
	"kafkasource-2.3": {
		help: "KafkaSource and a failover, 2.3.0", options: beam.Options{Pipeline: beam.KafkaSource, Flink: "2.3.0"}, play: kafkaSource("kafkasource", "4 partitions, 2 subtasks"),
	},
	"kafkasource-12-partitions": {
		help:    "KafkaSource with 12 partitions for 2 subtasks",
		options: beam.Options{Pipeline: beam.KafkaSource, Partitions: 12},
		play:    healthy("kafkasource-12-partitions-healthy", "KafkaSource, 12 partitions for 2 subtasks"),
	},
	"kafkasource-leaked-fetcher": {
		help:    "a fetcher that ignores cancellation when another task fails",
		options: beam.Options{Pipeline: beam.KafkaSource, TaskManagers: 2, Slots: 1, FlinkConf: map[string]string{"source.reader.close.timeout": "5000"}},
		play:    leakedFetcher,
	},
	"legacy-kafka": {
		help: "FlinkKafkaConsumer", options: beam.Options{Pipeline: beam.LegacyKafka}, play: healthy("legacy-kafka-healthy", "FlinkKafkaConsumer, 4 partitions, 2 subtasks"),
	},
}

func scenarioHelp() string {
	var b strings.Builder
	b.WriteString("What to play:")
	for _, name := range slices.Sorted(maps.Keys(scenarios)) {
		fmt.Fprintf(&b, " %s (%s);", name, scenarios[name].help)
	}
	return strings.TrimSuffix(b.String(), ";") + "."
}

func playScenario(ctx context.Context, name string, recorder []string, folder string, verbose bool, out io.Writer) (err error) {
	s := scenarios[name]
	if verbose {
		s.options.Log = out
	}
	fmt.Fprintf(out, "== %s: %s (%s)\n", name, s.help, time.Now().Format(time.TimeOnly))
	r, err := beam.Start(ctx, s.options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Stop()) }()
	return s.play(ctx, &play{Run: r, recorder: recorder, folder: folder, flink: r.Cluster.Version(), log: out})
}

// healthy records a pipeline under steady traffic.
func healthy(name, what string) func(context.Context, *play) error {
	return func(ctx context.Context, p *play) error {
		p.traffic(5)
		return p.moment(ctx, name, what+"; steady traffic")
	}
}

// healthyThenDouble records a pipeline before and after a failover.
func healthyThenDouble(name, what string) func(context.Context, *play) error {
	return func(ctx context.Context, p *play) error {
		p.traffic(5)
		if err := p.moment(ctx, name+"-healthy", what+"; steady traffic"); err != nil {
			return err
		}
		if err := p.Failover(ctx); err != nil {
			return err
		}
		return p.moment(ctx, name+"-double", what+"; the leader was killed and the other JobManager restored the job")
	}
}

func oneBusyPartition(ctx context.Context, p *play) error {
	const what = "4 partitions for 2 subtasks, all traffic on partition 0"
	p.StartProducer(beam.Production{Partitions: 1, For: 2 * time.Hour})
	if err := p.moment(ctx, "beam-one-busy-partition-healthy", what); err != nil {
		return err
	}
	if err := p.Failover(ctx); err != nil {
		return err
	}
	return p.moment(ctx, "beam-one-busy-partition-double", what+"; the leader was killed and the other JobManager restored the job")
}

func kafkaSource(name, what string) func(context.Context, *play) error {
	return func(ctx context.Context, p *play) error {
		p.traffic(5)
		if err := p.moment(ctx, name+"-healthy", "KafkaSource, "+what+"; steady traffic"); err != nil {
			return err
		}
		if err := p.Failover(ctx); err != nil {
			return err
		}
		return p.moment(ctx, name+"-clean-failover", "KafkaSource, "+what+"; the leader was killed and the other JobManager restored the job")
	}
}

// backpressure lets a backlog grow and counts only the records that came through.
func backpressure(name, what string) func(context.Context, *play) error {
	return func(ctx context.Context, p *play) error {
		p.traffic(20)
		time.Sleep(observe)
		if err := p.record(ctx, name+"-healthy", what+p.written(ctx)); err != nil {
			return err
		}
		if err := p.Failover(ctx); err != nil {
			return err
		}
		time.Sleep(4 * observe)
		return p.record(ctx, name+"-double", what+"; the leader was killed and the other JobManager restored the job"+p.written(ctx))
	}
}

func idle(ctx context.Context, p *play) error {
	if err := p.burst(ctx, "before"); err != nil {
		return err
	}
	time.Sleep(time.Minute)
	if err := p.record(ctx, "beam-idle-healthy", "no record was produced for a minute"); err != nil {
		return err
	}
	if err := p.Failover(ctx); err != nil {
		return err
	}
	time.Sleep(time.Minute)
	if err := p.record(ctx, "beam-idle-double", "no record was produced for a minute before the leader was killed and for a minute after the other JobManager restored the job"); err != nil {
		return err
	}
	if err := p.burst(ctx, "after the failover"); err != nil {
		return err
	}
	if err := p.Cluster.WaitCheckpoint(ctx); err != nil {
		return err
	}
	if err := p.FailTask(ctx, p.Cluster.TaskManagers()[0]); err != nil {
		return err
	}
	time.Sleep(time.Minute)
	if err := p.record(ctx, "beam-idle-leaked", "after a failover a task failed and was restarted; no record was produced for a minute since"); err != nil {
		return err
	}
	return p.burst(ctx, "after the task failure")
}

func threeFailovers(ctx context.Context, p *play) error {
	p.traffic(5)
	for n := 1; n <= 3; n++ {
		if err := p.Failover(ctx); err != nil {
			return err
		}
		if err := p.moment(ctx, fmt.Sprintf("beam-failover-%d-double", n), fmt.Sprintf("failover %d of a job", n)); err != nil {
			return err
		}
	}
	if err := p.FailTask(ctx, p.Cluster.TaskManagers()[0]); err != nil {
		return err
	}
	if err := p.moment(ctx, "beam-failover-3-then-task-failure-leaked", "three failovers, then a task failed and was restarted"); err != nil {
		return err
	}
	if err := p.RestartTaskManager(ctx, p.Cluster.TaskManagers()[0]); err != nil {
		return err
	}
	return p.moment(ctx, "beam-failover-3-then-restart-healthy", "three failovers and a task failure, then the TaskManager was restarted")
}

func fixed(ctx context.Context, p *play) error {
	p.traffic(5)
	for range 2 {
		if err := p.Failover(ctx); err != nil {
			return err
		}
	}
	return p.moment(ctx, "beam-fixed-clean-failover", "runner patched not to assign splits again on restore; two failovers")
}

func twoJobs(ctx context.Context, p *play) error {
	for _, topic := range p.Topics() {
		if _, err := p.RunJob(ctx, topic, topic); err != nil {
			return err
		}
	}
	p.traffic(5)
	return p.moment(ctx, "beam-two-jobs-one-tm-healthy", "two jobs, each with one KafkaIO source of 4 partitions and 2 subtasks, on one TaskManager of a session cluster")
}

func leakedFetcher(ctx context.Context, p *play) error {
	p.traffic(5)
	tm := p.Cluster.TaskManagers()[0]
	stick := filepath.Join(filepath.Dir(tm.Sink), "stick")
	if err := os.WriteFile(stick, nil, 0o644); err != nil {
		return err
	}
	err := p.Cluster.Wait(ctx, "a fetcher sticks", func(context.Context) (bool, error) {
		_, err := os.Stat(stick)
		return os.IsNotExist(err), nil
	})
	if err != nil {
		return err
	}
	if err := p.RestartTaskManager(ctx, p.Cluster.TaskManagers()[1]); err != nil {
		return err
	}
	return p.moment(ctx, "kafkasource-leaked-fetcher", "the poll of a fetcher did not return when the other TaskManager was killed and its task cancelled; the fetcher outlived the task, its successor reads")
}

// traffic produces to each topic until the end of the run, two hours at most.
func (p *play) traffic(rate int) {
	for _, topic := range p.Topics() {
		p.StartProducer(beam.Production{Topic: topic, Rate: rate, For: 2 * time.Hour})
	}
}

// moment observes for a while, counts, and records.
func (p *play) moment(ctx context.Context, name, note string) error {
	time.Sleep(5 * time.Second) // the runner assigns again some two seconds after a restore
	since := time.Now()
	time.Sleep(observe)
	until := time.Now()
	if err := p.record(ctx, name, note); err != nil {
		return err
	}
	rows, err := p.WaitRows(ctx, since, until)
	fmt.Fprintf(p.log, "%s: %s\n", name, rows)
	return err
}

// burst produces some records and says what became of them.
func (p *play) burst(ctx context.Context, when string) error {
	produced, err := p.Produce(ctx, beam.Production{Rate: 10, Count: 40})
	if err != nil {
		return err
	}
	if _, err = p.WaitRows(ctx, produced.Begin, produced.End); err != nil {
		return err
	}
	time.Sleep(5 * time.Second) // a second row comes a moment later
	rows, err := p.RowsPerID(ctx, produced.Begin, produced.End)
	fmt.Fprintf(p.log, "  burst %s: %s\n", when, rows)
	return err
}

// written tells of the rows that were written in the last half minute.
func (p *play) written(ctx context.Context) string {
	rows, err := p.Written(ctx, time.Now().Add(-2*observe))
	if err != nil {
		return "; " + err.Error()
	}
	return fmt.Sprintf("; written in the last %s: %d rows of %d ids, %d ids more than once", 2*observe, rows.Rows, rows.IDs, rows.Doubled)
}

// record takes six thread dumps a second apart and one recording.
func (p *play) record(ctx context.Context, name, note string) error {
	if rows, err := p.RowsPerID(ctx, time.Now().Add(-observe), time.Now().Add(-2*time.Second)); err == nil && rows.Produced > 0 {
		note += "; of the records of the seconds before: " + rows.String()
	}
	for n := range 6 {
		for _, tm := range p.Cluster.TaskManagers() {
			threads, err := p.Threads(ctx, tm)
			if err != nil {
				return err
			}
			fmt.Fprintf(p.log, "  %s dump %d of %s\n", name, n+1, tm.Name)
			printThreads(p.log, threads)
		}
		time.Sleep(time.Second)
	}
	file := filepath.Join(p.folder, p.flink+"-"+name+".json.gz")
	if err := p.Cluster.Record(ctx, p.recorder, file, name, note); err != nil {
		return err
	}
	fmt.Fprintf(p.log, "recorded %s: %s\n", file, note)
	return nil
}
