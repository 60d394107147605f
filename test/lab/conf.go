package lab

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// conf is a Flink configuration, option to value.
type conf map[string]string

// with returns c overlaid by others, the last one winning.
func (c conf) with(others ...map[string]string) conf {
	out := maps.Clone(c)
	for _, o := range others {
		maps.Copy(out, o)
	}
	return out
}

// confFile names the file a release reads its configuration from. 1.19 brought config.yaml, 2.0 no longer reads flink-conf.yaml.
func confFile(v version) string {
	if v.atLeast(1, 19) {
		return "config.yaml"
	}
	return "flink-conf.yaml"
}

// render writes c in the syntax of confFile, options sorted. flink-conf.yaml is not YAML: it knows neither quotes nor '#' inside a value.
func render(v version, c conf) ([]byte, error) {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(c)) {
		value := c[key]
		if strings.ContainsAny(key+value, "\r\n") || key == "" {
			return nil, fmt.Errorf("flink option %q: value %q: line breaks and empty names cannot be written", key, value)
		}
		switch {
		case confFile(v) == "config.yaml":
			// Always a string: of a number, 1.20's Prometheus reporter does not see its port and takes 9249.
			value = "'" + strings.ReplaceAll(value, "'", "''") + "'"
		case strings.Contains(value, "#") || strings.TrimSpace(value) == "":
			return nil, fmt.Errorf("flink option %q: value %q cannot be written to flink-conf.yaml", key, value)
		}
		fmt.Fprintf(&b, "%s: %s\n", key, value)
	}
	return []byte(b.String()), nil
}

// haOption is the name of the option that chooses the kind of high availability.
func haOption(v version) string {
	if v.atLeast(1, 17) {
		return "high-availability.type"
	}
	return "high-availability"
}

// place is what the configuration of a cluster has to know of this machine: folders and ports.
type place struct {
	dir                        string // of the cluster
	zookeeperPort              int
	jobManagerPort             int // where TaskManagers find the JobManager without high availability
	data, blob, rest, reporter int // of this process
}

// commonConf is what JobManagers and TaskManagers share. Durations are bare milliseconds: until 1.19 some of these options take nothing else.
func commonConf(v version, ha HA, p place) conf {
	c := conf{
		"jobmanager.rpc.address":              "127.0.0.1",
		"jobmanager.rpc.port":                 strconv.Itoa(p.jobManagerPort),
		"heartbeat.interval":                  "2000",
		"heartbeat.timeout":                   "20000",
		"metrics.reporters":                   "prom",
		"metrics.reporter.prom.factory.class": "org.apache.flink.metrics.prometheus.PrometheusReporterFactory",
		"metrics.reporter.prom.port":          strconv.Itoa(p.reporter),
		"io.tmp.dirs":                         p.dir + "/tmp",
		"state.checkpoints.dir":               "file://" + p.dir + "/checkpoints",
	}
	// On a busy machine an actor system takes longer than the ask timeout, which is the default of this.
	if v.atLeast(1, 18) {
		c["pekko.startup-timeout"] = "120 s"
	} else {
		c["akka.startup-timeout"] = "120 s"
	}
	if ha == None {
		return c
	}
	c["high-availability.cluster-id"] = clusterID
	c["high-availability.storageDir"] = "file://" + p.dir + "/ha"
	switch ha {
	case ZooKeeper:
		c[haOption(v)] = "zookeeper"
		c["high-availability.zookeeper.quorum"] = "127.0.0.1:" + strconv.Itoa(p.zookeeperPort)
		c["high-availability.zookeeper.path.root"] = zookeeperRoot
		c["high-availability.zookeeper.client.session-timeout"] = "6000"
	case Kubernetes:
		c[haOption(v)] = "kubernetes"
		c["kubernetes.cluster-id"] = clusterID
		c["kubernetes.namespace"] = kubernetesNamespace
		c["high-availability.kubernetes.leader-election.lease-duration"] = "8 s"
		c["high-availability.kubernetes.leader-election.renew-deadline"] = "8 s"
		c["high-availability.kubernetes.leader-election.retry-period"] = "2 s"
	}
	return c
}

// jobManagerConf is the whole configuration of a JobManager before the user's own options. RPC ports are left to the kernel wherever
// Flink allows it: Akka refuses a process that comes back at once under the address of one that was killed.
func jobManagerConf(v version, o Options, p place) conf {
	c := commonConf(v, o.HA, p).with(conf{
		"jobmanager.bind-host":                  "127.0.0.1",
		"blob.server.port":                      strconv.Itoa(p.blob),
		"rest.address":                          "127.0.0.1",
		"rest.port":                             strconv.Itoa(p.rest),
		"rest.bind-port":                        strconv.Itoa(p.rest),
		"rest.bind-address":                     "127.0.0.1",
		"web.upload.dir":                        p.dir + "/upload",
		"jobmanager.memory.process.size":        "1024m",
		"execution.checkpointing.interval":      "5000",
		"restart-strategy.fixed-delay.attempts": "1000",
		"restart-strategy.fixed-delay.delay":    "2 s",
		"parallelism.default":                   strconv.Itoa(o.Parallelism),
	})
	if v.atLeast(1, 17) {
		c["restart-strategy.type"] = "fixed-delay"
	} else {
		c["restart-strategy"] = "fixed-delay"
	}
	return c
}

// taskManagerConf is the whole configuration of a TaskManager before the user's own options. Without the distribution's scripts every
// part of the memory has to be given one by one.
func taskManagerConf(v version, o Options, p place) conf {
	return commonConf(v, o.HA, p).with(conf{
		"taskmanager.host":                           "127.0.0.1",
		"taskmanager.bind-host":                      "127.0.0.1",
		"taskmanager.rpc.port":                       "0",
		"taskmanager.data.port":                      strconv.Itoa(p.data),
		"taskmanager.numberOfTaskSlots":              strconv.Itoa(o.Slots),
		"taskmanager.cpu.cores":                      "2",
		"taskmanager.memory.framework.heap.size":     "128m",
		"taskmanager.memory.framework.off-heap.size": "64m",
		"taskmanager.memory.task.heap.size":          "256m",
		"taskmanager.memory.task.off-heap.size":      "0",
		"taskmanager.memory.managed.size":            "64m",
		"taskmanager.memory.network.min":             "64m",
		"taskmanager.memory.network.max":             "64m",
		"taskmanager.memory.jvm-metaspace.size":      "256m",
		"taskmanager.memory.jvm-overhead.min":        "192m",
		"taskmanager.memory.jvm-overhead.max":        "192m",
	})
}

// log4jProperties sends everything to one file.
func log4jProperties(file string) []byte {
	return []byte(`rootLogger.level = INFO
rootLogger.appenderRef.file.ref = File
appender.file.name = File
appender.file.type = FILE
appender.file.fileName = ` + file + `
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{yyyy-MM-dd HH:mm:ss,SSS} %-5p %c - %m%n
`)
}
