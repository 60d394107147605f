package lab

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

const (
	sinkOld   = "Source: kafka-source -> jdbc-write (1/2)#0@11"
	sinkNew   = "Source: kafka-source -> jdbc-write (1/2)#0@22"
	sinkRetry = "Source: kafka-source -> jdbc-write (1/2)#1@33"
	sinkOther = "Source: kafka-source -> jdbc-write (2/2)#0@44"
	sinkTorn  = "Source: kafka-sour"
)

func TestCountDoubles(t *testing.T) {
	for _, tc := range []struct {
		name       string
		sink       string
		since      int64
		want       Doubles
		duplicated []string
	}{
		{"nothing", "", 0, Doubles{Writers: map[string]int{}}, nil},
		{
			"two subtasks write the same value: their ranges may meet", "1000 " + sinkOld + " 7\n1001 " + sinkOther + " 7\n", 0,
			Doubles{Writes: 2, Values: 2, Writers: map[string]int{sinkOld: 1, sinkOther: 1}}, nil,
		},
		{
			"old and new execution", "1000 " + sinkOld + " 7\n1001 " + sinkOld + " 8\n1002 " + sinkNew + " 7\n", 0,
			Doubles{Writes: 3, Values: 2, Doubled: 1, Writers: map[string]int{sinkOld: 2, sinkNew: 1}},
			[]string{"Source: kafka-source -> jdbc-write (1/2)"},
		},
		{
			"three of one subtask double a value once", "1000 " + sinkOld + " 7\n1001 " + sinkNew + " 7\n1002 " + sinkRetry + " 7\n", 0,
			Doubles{Writes: 3, Values: 1, Doubled: 1, Writers: map[string]int{sinkOld: 1, sinkNew: 1, sinkRetry: 1}},
			[]string{"Source: kafka-source -> jdbc-write (1/2)"},
		},
		{
			"what was written before since does not count", "999 " + sinkOld + " 7\n1000 " + sinkRetry + " 7\n", 1000,
			Doubles{Writes: 1, Values: 1, Writers: map[string]int{sinkRetry: 1}}, nil,
		},
		{
			"one writer repeating itself is not two", "1000 " + sinkOld + " 7\n1001 " + sinkOld + " 7\n", 0,
			Doubles{Writes: 2, Values: 1, Writers: map[string]int{sinkOld: 2}}, nil,
		},
		{
			"a line that is being written", "1000 " + sinkOld + " 7\n1001 " + sinkTorn, 0,
			Doubles{Writes: 1, Values: 1, Writers: map[string]int{sinkOld: 1}}, nil,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "sink")
			if err := os.WriteFile(file, []byte(tc.sink), 0o644); err != nil {
				t.Fatal(err)
			}
			got, err := CountDoubles(time.UnixMilli(tc.since), file)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
			if d := got.Duplicated(); !reflect.DeepEqual(d, tc.duplicated) && len(d)+len(tc.duplicated) > 0 {
				t.Errorf("duplicated %q, want %q", d, tc.duplicated)
			}
		})
	}
}

func TestCountDoublesOverSinks(t *testing.T) {
	dir := t.TempDir()
	sinks := []string{filepath.Join(dir, "tm1"), filepath.Join(dir, "tm2"), filepath.Join(dir, "missing")}
	for i, writer := range []string{sinkOld, sinkRetry} {
		if err := os.WriteFile(sinks[i], []byte("1000 "+writer+" 7\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d, err := CountDoubles(time.Time{}, sinks...)
	if err != nil || d.Doubled != 1 || len(d.Duplicated()) != 1 {
		t.Errorf("got %v, %v; want one value doubled over two TaskManagers", d, err)
	}
}

func TestReadSinkNamesTheBadLine(t *testing.T) {
	for _, line := range []string{"", "1000", "1000 x", "x a@1 7", "1000 a 7", "1000 a@1 x", "1000 a@1 9223372036854775808"} {
		file := filepath.Join(t.TempDir(), "sink")
		if err := os.WriteFile(file, []byte("1000 a@1 7\n"+line+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadSink(file); err == nil || !strings.Contains(err.Error(), file+": line 2") {
			t.Errorf("line %q: got error %v, want one that names line 2", line, err)
		}
	}
}

func FuzzParseSink(f *testing.F) {
	f.Add([]byte("1000 " + sinkOld + " 7\n1001 " + sinkTorn))
	f.Add([]byte("1000 a@1 7\n\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		writes, err := parseSink(text)
		if err != nil {
			return
		}
		if n := strings.Count(string(text), "\n"); len(writes) != n {
			t.Fatalf("%d writes of %d lines", len(writes), n)
		}
		if d := countDoubles(time.Time{}, writes); d.Values < d.Doubled || d.Writes < d.Values || d.Writes > len(writes) {
			t.Fatalf("%v of %d writes", d, len(writes))
		}
	})
}
