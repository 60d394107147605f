package main

import (
	"maps"
	"time"

	"github.com/flink-lineage/flink-lineage-exporter/test/lab"
)

// What the cluster of that night was like.
const (
	flinkVersion = "1.17.2"
	parallelism  = 6
	slots        = 6
)

// kind is a kind of high availability.
type kind struct {
	name  string // on the command line
	title string
	ha    lab.HA
}

var kinds = map[string]kind{
	"kubernetes": {"kubernetes", "Kubernetes", lab.Kubernetes},
	"zookeeper":  {"zookeeper", "ZooKeeper", lab.ZooKeeper},
}

// nightConf is what was configured that night. Lease and session end after the same time, so that the two kinds can be compared; the lease is
// Flink's default.
var nightConf = map[string]string{
	"jobmanager.execution.failover-strategy":                      "full",
	"restart-strategy.type":                                       "fixed-delay",
	"restart-strategy.fixed-delay.attempts":                       "10",
	"restart-strategy.fixed-delay.delay":                          "5 s",
	"execution.checkpointing.interval":                            "10 s",
	"state.checkpoints.num-retained":                              "3",
	"heartbeat.interval":                                          "10000",
	"heartbeat.timeout":                                           "50000",
	"high-availability.kubernetes.leader-election.lease-duration": "15 s",
	"high-availability.kubernetes.leader-election.renew-deadline": "15 s",
	"high-availability.kubernetes.leader-election.retry-period":   "5 s",
	"high-availability.zookeeper.client.session-timeout":          "15000",
	"high-availability.zookeeper.client.connection-timeout":       "15000",
}

// shortConf makes the short form shorter.
var shortConf = map[string]string{
	"execution.checkpointing.interval": "3 s",
	"heartbeat.interval":               "3000", // two that fail, and a TaskManager that was killed is lost
}

// zombieConf lets tasks that ignore cancellation live on: the TaskManager neither gives up its slots before the new leader is there (10 s by
// default) nor ends itself because a task does not end (180 s).
var zombieConf = map[string]string{
	"taskmanager.slot.timeout":  "120000",
	"task.cancellation.timeout": "0",
}

// with overlays configurations.
func with(confs ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, c := range confs {
		maps.Copy(all, c)
	}
	return all
}

// The exporter compares records over a window that is shorter than its default, so that the night ends.
const ledgerWindow = 30 * time.Second

// rate is the records produced per second.
const rate = 20
