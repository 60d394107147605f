// Package image checks the Dockerfile without a Docker engine: its rules, and that the files it copies build the binary
// it promises.
package image

import (
	"bytes"
	"debug/elf"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// root is the repository.
const root = "../.."

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// find returns the first group of the expression's only match in text.
func find(t *testing.T, text, expr string) string {
	t.Helper()
	matches := regexp.MustCompile("(?m)"+expr).FindAllStringSubmatch(text, -1)
	if len(matches) != 1 {
		t.Fatalf("%d matches of %s, want 1", len(matches), expr)
	}
	return matches[0][1]
}

func TestDockerfile(t *testing.T) {
	dockerfile := read(t, "Dockerfile")
	if image, mod := find(t, dockerfile, `^ARG GO_VERSION=(.*)$`), find(t, read(t, "go.mod"), `^go (.*)$`); image != mod {
		t.Errorf("Go %s in the Dockerfile, %s in go.mod", image, mod)
	}
	stages := regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllStringSubmatch(dockerfile, -1)
	if len(stages) != 2 {
		t.Fatalf("%d stages, want 2", len(stages))
	}
	for _, stage := range stages {
		if !strings.Contains(stage[1], ":") || strings.HasSuffix(stage[1], ":latest") {
			t.Errorf("%s is not pinned", stage[1])
		}
	}
	final := dockerfile[strings.LastIndex(dockerfile, "\nFROM "):]
	if uid, err := strconv.Atoi(find(t, final, `^USER (\d+):\d+$`)); err != nil || uid == 0 {
		t.Errorf("runs as user %d, error %v", uid, err)
	}
	binary := find(t, final, `^ENTRYPOINT \["([^"]*)"\]$`)
	if got := find(t, final, `^COPY --from=build \S+ (\S+)$`); got != binary {
		t.Errorf("runs %s but copies %s", binary, got)
	}
	if got := find(t, final, `^  CMD \["([^"]*)", "health", `); got != binary {
		t.Errorf("health check runs %s, want %s", got, binary)
	}
	port := find(t, final, `^EXPOSE (\d+)$`)
	if !strings.Contains(final, "http://localhost:"+port+"/-/healthy") {
		t.Errorf("health check does not ask port %s", port)
	}
	for _, label := range []string{"title", "description", "source", "documentation", "licenses", "version", "revision", "created"} {
		if !strings.Contains(final, "org.opencontainers.image."+label+"=") {
			t.Errorf("no label %s", label)
		}
	}
}

// TestBuild does what the Dockerfile's first stage does, with the files .dockerignore leaves, and runs the result.
func TestBuild(t *testing.T) {
	if !strings.Contains(read(t, "Dockerfile"), "\nRUN make build ") {
		t.Fatal("the Dockerfile does not run make build")
	}
	dir := t.TempDir()
	copyContext(t, dir)
	build := exec.CommandContext(t.Context(), "make", "build", "VERSION=1.2.3", "REVISION=abc", "BRANCH=main", "DATE=2026-01-02T03:04:05Z")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	binary := filepath.Join(dir, "flink-lineage-exporter")

	file, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		t.Error("the binary is not static: it wants a dynamic linker")
	}

	version := exec.CommandContext(t.Context(), binary, "--version")
	out, err := version.CombinedOutput()
	if err != nil {
		t.Errorf("--version: %v", err)
	}
	for _, want := range []string{"version 1.2.3", "branch: main", "revision: abc", "2026-01-02T03:04:05Z"} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("--version says %q, want %q in it", out, want)
		}
	}

	// The health check of a container in which nothing listens fails, and says why.
	health := exec.CommandContext(t.Context(), binary, "health", "--url", "http://127.0.0.1:1/-/healthy")
	if out, err := health.CombinedOutput(); err == nil || !bytes.Contains(out, []byte("127.0.0.1:1")) {
		t.Errorf("health: error %v, %q", err, out)
	}
}

// copyContext copies the files a build has: all but those .dockerignore names, which are plain paths.
func copyContext(t *testing.T, dir string) {
	t.Helper()
	ignored := strings.Fields(read(t, ".dockerignore"))
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch {
		case slices.Contains(ignored, name) && entry.IsDir():
			return fs.SkipDir
		case slices.Contains(ignored, name):
			return nil
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(dir, name), 0o700)
		case !entry.Type().IsRegular():
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, name), data, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}
