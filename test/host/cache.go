// Package host is what labs need of the machine they run on: a folder that keeps what was fetched and built, and child processes that do
// not outlive the program.
package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// module is the first line of this repository's go.mod.
const module = "module github.com/flink-lineage/flink-lineage-exporter\n"

// CacheDir returns the folder that the environment variable names, or else the one of this name in .cache at the top of the repository. It
// makes the folder if it is missing.
func CacheDir(variable, name string) (string, error) {
	dir := os.Getenv(variable)
	if dir == "" {
		top, err := Repository()
		if err != nil {
			return "", fmt.Errorf("no place to keep what is fetched and built: %w (or set %s)", err, variable)
		}
		dir = filepath.Join(top, ".cache", name)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o755)
}

// Repository returns the top of the repository, found upwards from the working directory by its go.mod.
func Repository() (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := wd; ; dir = filepath.Dir(dir) {
		if text, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil && strings.HasPrefix(string(text), module) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not inside the repository", wd)
		}
	}
}
