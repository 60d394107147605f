package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/flink-lineage/flink-lineage-exporter/test/beam"
	"github.com/flink-lineage/flink-lineage-exporter/test/lab"
	"github.com/flink-lineage/flink-lineage-exporter/test/scrape"
)

// beamAct is what happened that night: Beam's runner reads each split twice after the failover.
var beamAct = &act{name: "beam", Sink: "PostgreSQL", start: startBeam}

// beamWorld is a Beam pipeline from Kafka to PostgreSQL.
type beamWorld struct{ run *beam.Run }

func startBeam(ctx context.Context, k kind, conf map[string]string) (world, error) {
	run, err := beam.Start(ctx, beam.Options{
		Flink: flinkVersion, HA: k.ha, HDFS: true, Parallelism: parallelism, Slots: slots, Partitions: parallelism, FlinkConf: conf, Log: logTo,
	})
	if err != nil {
		return nil, err
	}
	run.StartProducer(beam.Production{Rate: rate, For: 20 * time.Minute})
	return &beamWorld{run}, nil
}

func (w *beamWorld) cluster() *lab.Cluster { return w.run.Cluster }

// flags say what the source reads, which Beam does not tell before the first record.
func (w *beamWorld) flags(ctx context.Context) ([]string, error) {
	return w.run.LedgerFlags(ctx, ledgerWindow)
}

func (w *beamWorld) written(ctx context.Context, t time.Time) (string, error) {
	var rows beam.Rows
	err := w.run.Cluster.Wait(ctx, "rows are written", func(ctx context.Context) (bool, error) {
		var err error
		rows, err = w.run.Written(ctx, t)
		return rows.Rows > 0, err
	})
	return fmt.Sprintf("%d rows since the kill", rows.Rows), err
}

// count counts the rows of what is produced for a while from now on, once no record produced so far is missing and each reader had a checkpoint's
// time for them.
func (w *beamWorld) count(ctx context.Context) (rows beam.Rows, byOne int, err error) {
	since := time.Now()
	if err := lab.Sleep(ctx, watched); err != nil {
		return rows, 0, err
	}
	until := time.Now()
	if _, err := w.run.WaitRows(ctx, time.Time{}, until); err != nil {
		return rows, 0, err
	}
	if err := waitCheckpoint(ctx, w.run.Cluster); err != nil {
		return rows, 0, err
	}
	if rows, err = w.run.RowsPerID(ctx, since, until); err != nil {
		return rows, 0, err
	}
	byOne, err = w.run.DoubledByOne(ctx, since, until)
	return rows, byOne, err
}

func (w *beamWorld) once(ctx context.Context) (string, error) {
	rows, _, err := w.count(ctx)
	if err == nil && (rows.IDs == 0 || rows.Rows != rows.IDs) {
		err = fmt.Errorf("%s; want one row of each record", rows)
	}
	return fmt.Sprintf("%d rows of %d records", rows.Rows, rows.IDs), err
}

func (w *beamWorld) twice(ctx context.Context) (string, error) {
	rows, byOne, err := w.count(ctx)
	if err == nil && math.Abs(rows.PerID()-2) > 0.05 {
		err = fmt.Errorf("%s; want two rows of each record", rows)
	}
	if err == nil && byOne != rows.Doubled {
		err = fmt.Errorf("of %d records with two rows, %d have both from one writer; want all", rows.Doubled, byOne)
	}
	return fmt.Sprintf("**%d rows of %d records**; both rows of each from one and the same writer", rows.Rows, rows.IDs), err
}

func (w *beamWorld) double(s *scrape.Sample, taskManager string) bool {
	surplus, _ := s.Sum("duplicate_readers")
	tasks, told := s.Sum("duplicate_subtasks")
	return s.Verdict("") == "duplicate" && surplus == parallelism && told && tasks == 0 && len(s.Series("orphan_executions")) == 0 &&
		onlyRestart(s, taskManager, "duplicate_reader")
}

func (w *beamWorld) well(s *scrape.Sample) bool {
	surplus, told := s.Sum("duplicate_readers")
	return s.Verdict("") == "ok" && told && surplus == 0
}

func (w *beamWorld) spans(ctx context.Context) ([]span, error) {
	writers, err := w.run.Writers(ctx)
	var spans []span
	for _, x := range writers {
		spans = append(spans, span{x.First, x.Last})
	}
	return spans, err
}

func (w *beamWorld) stop() error { return w.run.Stop() }

// watched is for how long a step counts what is written.
const watched = 8 * time.Second

// onlyRestart reports whether this TaskManager, and no other, is to be restarted, and for this reason only.
func onlyRestart(s *scrape.Sample, taskManager, reason string) bool {
	all := s.Series("taskmanager_restart_advised")
	return len(all) == 1 && len(s.Series("taskmanager_restart_advised", "tm_id", taskManager, "reason", reason)) == 1
}
