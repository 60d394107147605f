// Package lineage compares what a Flink cluster's leader says should run with what its TaskManagers are seen to run.
//
// It is pure: a Snapshot holds what one scrape saw, Judge turns it (and the little that is remembered from earlier scrapes) into a Report.
// Nothing here does I/O or knows HTTP or Prometheus.
//
// Terms are Flink's. An execution is one attempt of one subtask of one vertex of one job's execution graph. The JobManager that leads builds
// a new execution graph when it takes a job over, and then counts attempts from 0 again.
package lineage
