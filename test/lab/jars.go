package lab

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
	"path"
	"path/filepath"
	"strings"
)

// sources are the Java sources: jobs/ run on Flink, jvm/ adapts every JVM of a cluster.
//
//go:embed jobs/*.java jvm/*.java
var sources embed.FS

// legacySource needs SourceFunction, which Flink 2 no longer has.
const legacySource = "LegacySource.java"

// buildJar compiles the sources of one folder against a distribution and returns the jar, kept in the cache by release and content.
func buildJar(ctx context.Context, v version, distribution, folder string) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	files, err := fs.Glob(sources, folder+"/*.java")
	if err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(cache, ".javac-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)

	hash := sha256.New()
	args := []string{"--release", "11", "-nowarn", "-Xlint:none", "-encoding", "UTF-8", "-cp", filepath.Join(distribution, "lib", "*"), "-d", filepath.Join(work, "classes")}
	for _, name := range files {
		if path.Base(name) == legacySource && v.atLeast(2, 0) {
			continue
		}
		text, err := sources.ReadFile(name)
		if err != nil {
			return "", err
		}
		hash.Write(text)
		file := filepath.Join(work, path.Base(name))
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return "", err
		}
		args = append(args, file)
	}
	jar := filepath.Join(cache, fmt.Sprintf("%s-%s-%s.jar", v, folder, hex.EncodeToString(hash.Sum(nil))[:12]))
	if _, err := os.Stat(jar); err == nil {
		return jar, nil
	}
	if err := run(ctx, "javac", args...); err != nil {
		return "", fmt.Errorf("compile %s for flink %s: %w", folder, v, err)
	}
	packed := filepath.Join(work, "packed.jar")
	if err := run(ctx, "jar", "cf", packed, "-C", filepath.Join(work, "classes"), "."); err != nil {
		return "", fmt.Errorf("pack %s for flink %s: %w", folder, v, err)
	}
	return jar, os.Rename(packed, jar)
}

// run runs a command to its end; what it printed becomes part of the error.
func run(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", name, err), errors.New(strings.TrimSpace(string(out))))
	}
	return nil
}
