package lab

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/flink-lineage/flink-lineage-exporter/test/host"
)

// CacheEnv names the folder that keeps Flink distributions, compiled jobs and the kube-apiserver binary between runs.
// Without it they are kept in .cache/flink at the top of the repository.
const CacheEnv = "FLINK_LAB_CACHE"

// Fetch makes a Flink distribution available and returns its folder, which holds lib/ and plugins/. It downloads a release once: the
// Python package apache-flink-libraries is the whole distribution without bin/ and conf/, a source archive up to 1.20 and a wheel from
// 2.0 on. It unpacks beside the final folder and renames, so that what Fetch returns is complete, whoever else fetches at the same time.
func Fetch(ctx context.Context, release string) (string, error) {
	v, err := parseVersion(release)
	if err != nil {
		return "", err
	}
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, v.String())
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	work, err := os.MkdirTemp(cache, ".fetch-"+v.String()+"-")
	if err != nil {
		return "", fmt.Errorf("fetch flink %s: %w", v, err)
	}
	defer os.RemoveAll(work)

	cmd := exec.CommandContext(ctx, "python3", "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
		"--dest", work, "apache-flink-libraries=="+v.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("fetch flink %s with pip: %w\n%s", v, err, out)
	}
	archives, err := filepath.Glob(filepath.Join(work, "apache*"))
	if err != nil || len(archives) != 1 {
		return "", fmt.Errorf("fetch flink %s: pip left %d archives in %s, want one", v, len(archives), work)
	}
	unpacked := filepath.Join(work, "flink")
	if err := unpack(archives[0], unpacked); err != nil {
		return "", fmt.Errorf("unpack %s: %w", filepath.Base(archives[0]), err)
	}
	if dist, _ := filepath.Glob(filepath.Join(unpacked, "lib", "flink-dist*.jar")); len(dist) != 1 {
		return "", fmt.Errorf("unpack %s: no lib/flink-dist*.jar in it", filepath.Base(archives[0]))
	}
	if err := os.Rename(unpacked, dir); err != nil {
		if _, statErr := os.Stat(dir); statErr == nil {
			return dir, nil // another fetch was faster
		}
		return "", fmt.Errorf("fetch flink %s: %w", v, err)
	}
	return dir, nil
}

// unpack writes the lib/ and plugins/ files of a source archive or wheel below dir.
func unpack(archive, dir string) error {
	if strings.HasSuffix(archive, ".whl") {
		return unpackWheel(archive, dir)
	}
	return unpackSource(archive, dir)
}

func unpackSource(archive, dir string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	zr, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	for tr := tar.NewReader(zr); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if name, ok := wanted(h.Name); ok && h.Typeflag == tar.TypeReg {
			if err := writeFile(filepath.Join(dir, name), tr); err != nil {
				return err
			}
		}
	}
}

func unpackWheel(archive, dir string) error {
	zr, err := zip.OpenReader(archive)
	if err != nil {
		return err
	}
	defer zr.Close()
	for _, f := range zr.File {
		name, ok := wanted(f.Name)
		if !ok || f.FileInfo().IsDir() {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return err
		}
		if err := errors.Join(writeFile(filepath.Join(dir, name), r), r.Close()); err != nil {
			return err
		}
	}
	return nil
}

// wanted maps a member of the archive to its place below the distribution's folder. Members are "<top>/deps/lib/x.jar" in a source
// archive and "pyflink/lib/x.jar" in a wheel; all but lib and plugins is of no use here.
func wanted(member string) (name string, ok bool) {
	parts := strings.Split(path.Clean(member), "/")
	if len(parts) > 2 && parts[1] == "deps" {
		parts = parts[1:]
	}
	if len(parts) < 3 || parts[1] != "lib" && parts[1] != "plugins" {
		return "", false
	}
	name = path.Join(parts[1:]...)
	return name, fs.ValidPath(name)
}

func writeFile(name string, r io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}

// cacheDir returns the cache folder, made if it is missing.
func cacheDir() (string, error) { return host.CacheDir(CacheEnv, "flink") }
