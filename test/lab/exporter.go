package lab

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"time"
)

// recordLimit is how long one recording may take: one that hangs shows no moment.
const recordLimit = time.Minute

// ExporterFlags are the exporter's flags that name the cluster: its JobManagers, all of them unless some are given, and every TaskManager's
// reporter.
func (c *Cluster) ExporterFlags(jobManagers ...*JobManager) []string {
	if len(jobManagers) == 0 {
		jobManagers = c.jobManagers
	}
	var flags []string
	for _, jm := range jobManagers {
		flags = append(flags, "--flink.url="+jm.URL)
	}
	for _, tm := range c.taskManagers {
		flags = append(flags, "--taskmanager.metrics-url="+tm.ReporterURL)
	}
	return flags
}

// Record runs a recorder, a command and its arguments, for this moment. It is given what the exporter's own "record" takes: the file, what
// happens, and every address of the cluster.
func (c *Cluster) Record(ctx context.Context, recorder []string, file, moment, note string) error {
	ctx, cancel := context.WithTimeout(ctx, recordLimit)
	defer cancel()
	args := slices.Concat(recorder[1:], []string{file, "--scenario", moment, "--note", note}, c.ExporterFlags())
	if out, err := exec.CommandContext(ctx, recorder[0], args...).CombinedOutput(); err != nil {
		return fmt.Errorf("record %s: %w\n%s", file, err, out)
	}
	return nil
}
