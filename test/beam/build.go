package beam

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/flink-lineage/flink-lineage-exporter/test/host"
)

// CacheEnv names the folder that keeps built modules between runs. Without it they are kept in .cache/beam at the top of the repository.
const CacheEnv = "FLINK_BEAM_CACHE"

// modules are the Maven modules of this package.
//
//go:embed broker/pom.xml pipeline/pom.xml pipeline/src fixed/pom.xml fixed/src kafkasource/pom.xml kafkasource/src hdfs/pom.xml hdfs/src
var modules embed.FS

// build makes a Maven module once and returns the folder of its jars, its own and those it needs at run time. properties override those
// of its pom.xml.
func build(ctx context.Context, module string, properties ...string) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(cache, ".mvn-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	hash, err := extract(module, work)
	if err != nil {
		return "", err
	}
	_, _ = hash.Write([]byte(strings.Join(properties, "\n")))
	dir := filepath.Join(cache, module+"-"+hex.EncodeToString(hash.Sum(nil))[:12])
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	lib := filepath.Join(work, "lib")
	args := []string{"-B", "-q", "-f", filepath.Join(work, "pom.xml"), "package", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=" + lib}
	for _, p := range properties {
		args = append(args, "-D"+p)
	}
	if out, err := exec.CommandContext(ctx, "mvn", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s with Maven: %w\n%s", module, err, out)
	}
	if err := os.MkdirAll(lib, 0o755); err != nil {
		return "", err
	}
	jars, err := filepath.Glob(filepath.Join(work, "target", "*.jar"))
	if err != nil {
		return "", err
	}
	for _, jar := range jars {
		if err := os.Rename(jar, filepath.Join(lib, filepath.Base(jar))); err != nil {
			return "", err
		}
	}
	if err := os.Rename(lib, dir); err != nil {
		if _, statErr := os.Stat(dir); statErr == nil {
			return dir, nil // another build was faster
		}
		return "", err
	}
	return dir, nil
}

type hasher interface {
	Write([]byte) (int, error)
	Sum([]byte) []byte
}

// extract writes the sources of a module below dir and returns a hash of them.
func extract(module, dir string) (hasher, error) {
	hash := sha256.New()
	err := fs.WalkDir(modules, module, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := modules.ReadFile(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(hash, "%s %d\n%s", name, len(text), text)
		file := filepath.Join(dir, filepath.FromSlash(strings.TrimPrefix(name, module+"/")))
		return errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, text, 0o644))
	})
	return hash, err
}

// Pipeline is what reads Kafka and writes to PostgreSQL.
type Pipeline int

const (
	// Beam is KafkaIO to JdbcIO of Beam 2.56.0, whose Flink runner reads each split twice after a restore under another JobManager.
	Beam Pipeline = iota
	// BeamFixed is the same with the enumerator patched that makes the runner do so.
	BeamFixed
	// KafkaSource is Flink's own source, by FLIP-27.
	KafkaSource
	// LegacyKafka is FlinkKafkaConsumer, the source before KafkaSource (Flink 1.x).
	LegacyKafka
)

// connectors maps a Flink release line to the newest flink-connector-kafka that works with it here. The connector made for 2.2 runs on 2.3.
var connectors = map[string]string{"1.17.": "3.0.2-1.17", "2.3.": "5.0.0-2.2"}

// classpath builds the pipeline for a Flink release and returns its classpath entries in order.
func (p Pipeline) classpath(ctx context.Context, flink string) ([]string, error) {
	var dirs []string
	var err error
	add := func(module string, properties ...string) {
		if err != nil {
			return
		}
		var dir string
		dir, err = build(ctx, module, properties...)
		dirs = append(dirs, filepath.Join(dir, "*"))
	}
	switch p {
	case BeamFixed:
		add("fixed") // before the runner, whose class it replaces
		add("pipeline")
	case Beam:
		add("pipeline")
	case KafkaSource, LegacyKafka:
		properties, unknown := connectorProperties(flink)
		if unknown != nil {
			return nil, unknown
		}
		add("kafkasource", properties...)
	}
	return dirs, err
}

func connectorProperties(flink string) ([]string, error) {
	for line, connector := range connectors {
		if !strings.HasPrefix(flink, line) {
			continue
		}
		properties := []string{"flink.version=" + flink, "connector.version=" + connector}
		if strings.HasPrefix(flink, "1.") {
			properties = append(properties, "legacy=true")
		}
		return properties, nil
	}
	return nil, fmt.Errorf("no Kafka connector is known for flink %s", flink)
}

// Build builds the broker, HDFS and every pipeline, so that a later Start finds them in the cache.
func Build(ctx context.Context) error {
	_, err := build(ctx, "broker")
	if err == nil {
		_, err = build(ctx, "hdfs")
	}
	for _, p := range []Pipeline{BeamFixed, KafkaSource} {
		for _, flink := range []string{"1.17.2", "2.3.0"} {
			if err == nil && (p == KafkaSource || flink == "1.17.2") {
				_, err = p.classpath(ctx, flink)
			}
		}
	}
	return err
}

// cacheDir returns the cache folder, made if it is missing.
func cacheDir() (string, error) { return host.CacheDir(CacheEnv, "beam") }
