package collector

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/flink-lineage/flink-lineage-exporter/internal/lineage"
	"github.com/flink-lineage/flink-lineage-exporter/internal/recording"
	"github.com/flink-lineage/flink-lineage-exporter/recordings"
)

// verdicts has the right verdict on every job of each recording, as its note tells, from an exporter that
// remembers nothing: of beam-idle-double and beam-more-subtasks-than-partitions-double it can then only say that it cannot tell. Unlike golden
// files no flag rewrites it.
var verdicts = map[string]lineage.Verdict{
	"1.15.4-healthy":                                    lineage.VerdictOK,
	"1.15.4-zombie-same-tm":                             lineage.VerdictDuplicate,
	"1.17.0-healthy":                                    lineage.VerdictOK,
	"1.17.2-beam-12-partitions-double":                  lineage.VerdictDuplicate,
	"1.17.2-beam-12-partitions-healthy":                 lineage.VerdictOK,
	"1.17.2-beam-backpressure-double":                   lineage.VerdictDuplicate,
	"1.17.2-beam-backpressure-healthy":                  lineage.VerdictOK,
	"1.17.2-beam-bounded-double":                        lineage.VerdictDuplicate,
	"1.17.2-beam-bounded-healthy":                       lineage.VerdictOK,
	"1.17.2-beam-clean-failover":                        lineage.VerdictOK,
	"1.17.2-beam-double-readers":                        lineage.VerdictDuplicate,
	"1.17.2-beam-fixed-clean-failover":                  lineage.VerdictOK,
	"1.17.2-beam-healthy":                               lineage.VerdictOK,
	"1.17.2-beam-idle-double":                           lineage.VerdictUnknown,
	"1.17.2-beam-idle-healthy":                          lineage.VerdictOK,
	"1.17.2-beam-idle-leaked":                           lineage.VerdictOK,
	"1.17.2-beam-leaked-readers":                        lineage.VerdictOK,
	"1.17.2-beam-more-subtasks-than-partitions-double":  lineage.VerdictUnknown,
	"1.17.2-beam-more-subtasks-than-partitions-healthy": lineage.VerdictOK,
	"1.17.2-beam-one-busy-partition-double":             lineage.VerdictDuplicate,
	"1.17.2-beam-one-busy-partition-healthy":            lineage.VerdictOK,
	"1.17.2-beam-parallelism6-double":                   lineage.VerdictDuplicate,
	"1.17.2-beam-parallelism6-healthy":                  lineage.VerdictOK,
	"1.17.2-beam-two-jobs-one-tm-healthy":               lineage.VerdictOK,
	"1.17.2-beam-two-sources-double":                    lineage.VerdictDuplicate,
	"1.17.2-beam-two-sources-healthy":                   lineage.VerdictOK,
	"1.17.2-clean-failover":                             lineage.VerdictOK,
	"1.17.2-healthy":                                    lineage.VerdictOK,
	"1.17.2-k8s-clean-failover":                         lineage.VerdictOK,
	"1.17.2-k8s-leader-thawed":                          lineage.VerdictOK,
	"1.17.2-k8s-no-leader":                              lineage.VerdictUnknown,
	"1.17.2-k8s-zombie-other-tm":                        lineage.VerdictDuplicate,
	"1.17.2-k8s-zombie-same-tm":                         lineage.VerdictDuplicate,
	"1.17.2-kafkasource-12-partitions-healthy":          lineage.VerdictOK,
	"1.17.2-kafkasource-clean-failover":                 lineage.VerdictOK,
	"1.17.2-kafkasource-healthy":                        lineage.VerdictOK,
	"1.17.2-kafkasource-leaked-fetcher":                 lineage.VerdictOK,
	"1.17.2-leader-just-died":                           lineage.VerdictUnknown,
	"1.17.2-leaked-legacy-source":                       lineage.VerdictOK,
	"1.17.2-legacy-kafka-healthy":                       lineage.VerdictOK,
	"1.17.2-night-1-healthy":                            lineage.VerdictOK,
	"1.17.2-night-2-no-leader":                          lineage.VerdictUnknown,
	"1.17.2-night-3-duplicate":                          lineage.VerdictDuplicate,
	"1.17.2-night-4-restarted":                          lineage.VerdictOK,
	"1.17.2-session-two-jobs":                           lineage.VerdictOK,
	"1.17.2-speculative":                                lineage.VerdictOK,
	"1.17.2-task-restart":                               lineage.VerdictOK,
	"1.17.2-zombie-same-tm":                             lineage.VerdictDuplicate,
	"1.20.5-healthy":                                    lineage.VerdictOK,
	"1.20.5-zombie-same-tm":                             lineage.VerdictDuplicate,
	"2.3.0-adaptive-rescaled":                           lineage.VerdictOK,
	"2.3.0-clean-failover":                              lineage.VerdictOK,
	"2.3.0-healthy":                                     lineage.VerdictOK,
	"2.3.0-kafkasource-clean-failover":                  lineage.VerdictOK,
	"2.3.0-kafkasource-healthy":                         lineage.VerdictOK,
	"2.3.0-zombie-same-tm":                              lineage.VerdictDuplicate,
	"2.3.0-zombie-starves-job":                          lineage.VerdictOrphan,
}

func TestVerdictOfEachRecording(t *testing.T) {
	names, err := fs.Glob(recordings.FS, "*.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range names {
		name := strings.TrimSuffix(file, ".json.gz")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, ok := verdicts[name]
			if !ok {
				t.Fatal("the table has no verdict on it")
			}
			rec, err := recording.LoadFS(recordings.FS, file)
			if err != nil {
				t.Fatal(err)
			}
			result, _ := scrapeRecording(t, rec)
			if len(result.Report.Jobs) == 0 {
				t.Error("no job is judged")
			}
			for _, j := range result.Report.Jobs {
				if j.Verdict != want {
					t.Errorf("%s: %s (%s), want %s", j.Name, j.Verdict, j.Why, want)
				}
			}
		})
	}
}
