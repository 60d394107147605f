package recording

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/flink-lineage/flink-lineage-exporter/recordings"
)

// zipped returns a text gzipped.
func zipped(t testing.TB, s string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, s); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestWriteAndReadAgain(t *testing.T) {
	forEachRecording(t, func(t *testing.T, r *Recording) {
		var b bytes.Buffer
		if err := r.Write(&b); err != nil {
			t.Fatal(err)
		}
		again, err := Read(&b)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(r, again) {
			t.Error("reads as another recording than was written")
		}
	})
}

// TestWriteKeepsWhatIsRecorded compares with the original file as generic JSON, so that no member can get lost.
func TestWriteKeepsWhatIsRecorded(t *testing.T) {
	const name = "1.17.2-k8s-zombie-other-tm.json.gz"
	generic := func(r io.Reader) any {
		t.Helper()
		z, err := gzip.NewReader(r)
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := json.NewDecoder(z).Decode(&v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	f, err := recordings.FS.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := LoadFS(recordings.FS, name)
	if err != nil {
		t.Fatal(err)
	}
	var b, again bytes.Buffer
	if err := errors.Join(r.Write(&b), r.clone().Write(&again)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), again.Bytes()) {
		t.Error("the bytes are not reproducible")
	}
	if b.Bytes()[4] != 0 || b.Bytes()[5] != 0 || b.Bytes()[6] != 0 || b.Bytes()[7] != 0 {
		t.Error("the header has a time")
	}
	if !reflect.DeepEqual(generic(f), generic(&b)) {
		t.Error("the written file holds other JSON than the original")
	}
}

func TestRead(t *testing.T) {
	const minimal = `{"format":1,"jobmanagers":[{"url":"http://jm","responses":{"/jobs":{"status":200,"body":{"b":1.50,"a":"<>"}}}}]}`
	for name, data := range map[string][]byte{"plain": []byte(minimal), "gzip": zipped(t, minimal)} {
		r, err := Read(bytes.NewReader(data))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := string(r.JobManagers[0].Responses["/jobs"].Body); got != `{"a":"<>","b":1.50}` {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestReadErrors(t *testing.T) {
	whole := zipped(t, `{"format":1}`)
	response := func(s string) string { return `{"format":1,"jobmanagers":[{"url":"","responses":{` + s + `}}]}` }
	for name, test := range map[string]struct {
		data []byte
		want string
	}{
		"empty":            {nil, "empty"},
		"white space":      {[]byte(" \n"), "empty"},
		"gzip of nothing":  {zipped(t, ""), "empty"},
		"gzip header only": {whole[:5], "gzip"},
		"cut off":          {whole[:len(whole)-9], "cut off"},
		"wrong checksum":   {append(append([]byte{}, whole[:len(whole)-8]...), 1, 2, 3, 4, 0, 0, 0, 0), "checksum"},
		"rubbish after":    {append(append([]byte{}, whole...), "rubbish of some length"...), "gzip"},
		"no JSON":          {[]byte("<html>"), "no JSON object"},
		"cut off JSON":     {[]byte(`{"format":1`), "no JSON object"},
		"a list":           {[]byte(`[]`), "no JSON object"},
		"null":             {[]byte(`null`), "no format number"},
		"other JSON":       {[]byte(`{"jobs":[]}`), "no format number"},
		"later format":     {[]byte(`{"format":2,"jobmanagers":"elsewhere"}`), "has format 2, only format 1 is known"},
		"wrong type":       {[]byte(`{"format":1,"jobmanagers":"none"}`), "jobmanagers"},
		"no path":          {[]byte(response(`"jobs":{"status":200,"body":1}`)), "slash"},
		"no status":        {[]byte(response(`"/jobs":{"status":99,"body":1}`)), "99 is no HTTP status"},
		"interim status":   {[]byte(response(`"/jobs":{"status":101,"body":1}`)), "101 is no HTTP status"},
		"no body":          {[]byte(response(`"/jobs":{"status":200}`)), "no body"},
		"reporter status":  {[]byte(`{"format":1,"taskmanagers":[{"status":-1}]}`), "-1 is no HTTP status"},
	} {
		if _, err := Read(bytes.NewReader(test.data)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
	}
	if _, err := read(bytes.NewReader(zipped(t, strings.Repeat(" ", 1000))), 999); err == nil || !strings.Contains(err.Error(), "larger than 999 bytes") {
		t.Errorf("oversized: %v", err)
	}
}

func TestLoadNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.json")
	if _, err := Load(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("bad file: %v", err)
	}
	if _, err := LoadFS(recordings.FS, "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.json.gz")
	r := &Recording{Format: Format, Scenario: "first"}
	check := func(want string) {
		t.Helper()
		got, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if got.Scenario != want {
			t.Errorf("the file has %q, want %q", got.Scenario, want)
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 1 {
			t.Errorf("%d files are in the folder: %v", len(entries), err)
		}
	}
	if err := WriteFile(path, r); err != nil {
		t.Fatal(err)
	}
	check("first")
	r.Scenario = "second"
	if err := WriteFile(path, r); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("an existing file: %v", err)
	}
	check("first")
	if err := ReplaceFile(path, r); err != nil {
		t.Fatal(err)
	}
	check("second")
	r.Format = 7
	if err := ReplaceFile(path, r); err == nil {
		t.Error("an invalid recording was written")
	}
	check("second")
	if err := WriteFile(filepath.Join(dir, "none", "b"), &Recording{Format: Format}); err == nil {
		t.Error("wrote into a folder that does not exist")
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"format":1,"jobmanagers":[{"url":"http://jm","responses":{"/jobs":{"status":200,"body":{"jobs":[]}},"/x":{"status":0,"body":"refused"}}}],"taskmanagers":[{"metrics_url":"http://tm/metrics","status":200,"metrics":"a{b=\"c\"} 1\n"}]}`))
	f.Add(zipped(f, `{"format":1}`))
	f.Add([]byte{0x1f, 0x8b})
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := read(bytes.NewReader(data), 1<<20)
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := r.Write(&b); err != nil {
			t.Fatalf("cannot be written: %v", err)
		}
		again, err := Read(&b)
		if err != nil {
			t.Fatalf("cannot be read again: %v", err)
		}
		one, _ := r.marshal()
		two, _ := again.marshal()
		if !bytes.Equal(one, two) {
			t.Fatalf("%s\nbecame\n%s", one, two)
		}
		if _, err := prepare(r); err != nil {
			t.Fatalf("cannot be served: %v", err)
		}
		Strip(r)
		Anonymize(r)
		if err := r.validate(); err != nil {
			t.Fatalf("anonymized: %v", err)
		}
		r.Shift(r.Now())
	})
}
