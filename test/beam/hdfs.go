package beam

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// HDFS is a name node and a data node on loopback: what Flink keeps there, another JobManager finds.
type HDFS struct {
	*process
	url       string
	classpath []string
}

// hdfsClient are the jars that Flink needs to read and write HDFS.
var hdfsClient = []string{"hadoop-client-api-*.jar", "hadoop-client-runtime-*.jar", "commons-logging-*.jar"}

// StartHDFS starts HDFS with its data below dir and returns when it takes files. On an error nothing is left running. Stop ends it.
func StartHDFS(ctx context.Context, dir string) (*HDFS, error) {
	jars, err := build(ctx, "hdfs")
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	h := &HDFS{url: "hdfs://127.0.0.1:" + strconv.Itoa(port)}
	for _, pattern := range hdfsClient {
		found, err := filepath.Glob(filepath.Join(jars, pattern))
		if err != nil || len(found) != 1 {
			return nil, fmt.Errorf("%d jars %s in %s, want one: remove that folder to build it anew", len(found), pattern, jars)
		}
		h.classpath = append(h.classpath, found[0])
	}
	log := filepath.Join(dir, "hdfs.log")
	h.process, err = start("hdfs", log, nil, "java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", filepath.Join(jars, "*"),
		"beamlab.Hdfs", filepath.Join(dir, "hdfs"), strconv.Itoa(port))
	if err != nil {
		return nil, err
	}
	err = h.wait(ctx, func(context.Context) error {
		text, err := os.ReadFile(log)
		if err == nil && !strings.Contains(string(text), "active at ") {
			err = errors.New("not yet active")
		}
		return err
	})
	if err != nil {
		return nil, errors.Join(err, h.Stop())
	}
	return h, nil
}

// FlinkConf returns the Flink options that put the storage of high availability and the checkpoints there.
func (h *HDFS) FlinkConf() map[string]string {
	return map[string]string{
		"high-availability.storageDir": h.url + "/ha",
		"state.checkpoints.dir":        h.url + "/checkpoints",
		"flink.hadoop.dfs.replication": "1", // as many as there are data nodes
	}
}

// Classpath returns what every Flink process needs on its classpath.
func (h *HDFS) Classpath() []string { return h.classpath }

// Stop ends it at once; the data is not wanted any more.
func (h *HDFS) Stop() error { return h.stop(syscall.SIGKILL) }
