package lab

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"os"
	"path/filepath"
	"testing"
)

func TestWanted(t *testing.T) {
	for _, tc := range []struct{ member, want string }{
		{"apache-flink-libraries-1.17.2/deps/lib/flink-dist-1.17.2.jar", "lib/flink-dist-1.17.2.jar"},
		{"apache-flink-libraries-1.17.2/deps/plugins/metrics-prometheus/x.jar", "plugins/metrics-prometheus/x.jar"},
		{"pyflink/lib/flink-dist-2.3.0.jar", "lib/flink-dist-2.3.0.jar"},
		{"apache-flink-libraries-1.17.2/deps/opt/flink-python.jar", ""},
		{"apache-flink-libraries-1.17.2/setup.py", ""},
		{"pyflink/lib/../../../etc/passwd", ""},
		{"pyflink/lib", ""},
		{"", ""},
	} {
		got, ok := wanted(tc.member)
		if ok != (tc.want != "") || ok && got != tc.want {
			t.Errorf("wanted(%q) = %q, %v; want %q", tc.member, got, ok, tc.want)
		}
	}
}

func TestUnpack(t *testing.T) {
	archives := map[string]func(*testing.T, string, map[string]string){"x.tar.gz": writeTar, "x.whl": writeZip}
	for name, write := range archives {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			archive := filepath.Join(dir, name)
			write(t, archive, map[string]string{"top/lib/a.jar": "A", "top/plugins/p/b.jar": "B", "top/README": "no"})
			if err := unpack(archive, filepath.Join(dir, "out")); err != nil {
				t.Fatal(err)
			}
			for file, want := range map[string]string{"lib/a.jar": "A", "plugins/p/b.jar": "B"} {
				if got, err := os.ReadFile(filepath.Join(dir, "out", file)); err != nil || string(got) != want {
					t.Errorf("%s: got %q, %v", file, got, err)
				}
			}
			if _, err := os.Stat(filepath.Join(dir, "out", "README")); err == nil {
				t.Error("README was unpacked too")
			}
		})
	}
}

func TestUnpackOfACutArchive(t *testing.T) {
	for name, write := range map[string]func(*testing.T, string, map[string]string){"x.tar.gz": writeTar, "x.whl": writeZip} {
		archive := filepath.Join(t.TempDir(), name)
		write(t, archive, map[string]string{"top/lib/a.jar": "A"})
		if err := os.Truncate(archive, 60); err != nil {
			t.Fatal(err)
		}
		if err := unpack(archive, t.TempDir()); err == nil {
			t.Errorf("%s: no error for half an archive", name)
		}
	}
}

func writeTar(t *testing.T, file string, members map[string]string) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zw := gzip.NewWriter(f)
	tw := tar.NewWriter(zw)
	for name, content := range members {
		if err := tw.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
}

func writeZip(t *testing.T, file string, members map[string]string) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zw := zip.NewWriter(f)
	for name, content := range members {
		w, err := zw.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestFetchUsesTheCache(t *testing.T) {
	cache := t.TempDir()
	t.Setenv(CacheEnv, cache)
	want := filepath.Join(cache, "1.17.2")
	if err := os.Mkdir(want, 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := Fetch(t.Context(), "1.17.2"); err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	if _, err := Fetch(t.Context(), "../1.17.2"); err == nil {
		t.Error("a version that is a path was accepted")
	}
}
