package lab

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestConf compares the configurations of every kind of process with golden files, for each release line that spells them differently.
func TestConf(t *testing.T) {
	p := place{dir: "/lab", zookeeperPort: 15001, jobManagerPort: 15002, data: 15003, blob: 15004, rest: 15005, reporter: 15006}
	user := conf{"heartbeat.timeout": "9000", "taskmanager.slot.timeout": "60 s"}
	for _, tc := range []struct {
		version string
		ha      HA
	}{
		{"1.15.4", ZooKeeper}, {"1.17.2", Kubernetes}, {"1.18.1", None}, {"1.20.5", ZooKeeper}, {"2.3.0", ZooKeeper},
	} {
		t.Run(tc.version, func(t *testing.T) {
			v, err := parseVersion(tc.version)
			if err != nil {
				t.Fatal(err)
			}
			o := Options{HA: tc.ha, Slots: 3, Parallelism: 4}
			for role, c := range map[string]conf{"jm": jobManagerConf(v, o, p).with(user), "tm": taskManagerConf(v, o, p).with(user)} {
				got, err := render(v, c)
				if err != nil {
					t.Fatal(err)
				}
				golden := filepath.Join("testdata", "conf", tc.version+"-"+role+"-"+confFile(v))
				if *update {
					if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(golden, got, 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(golden)
				if err != nil {
					t.Fatal(err)
				}
				if string(got) != string(want) {
					t.Errorf("%s differs; got\n%s", golden, got)
				}
			}
		})
	}
}

func TestRender(t *testing.T) {
	old, recent := version{1, 17, 2}, version{1, 19, 3}
	for _, tc := range []struct {
		name    string
		v       version
		c       conf
		want    string
		wantErr bool
	}{
		{"sorted", old, conf{"b": "2", "a": "1 s"}, "a: 1 s\nb: 2\n", false},
		{"a number is a string in YAML", recent, conf{"metrics.reporter.prom.port": "9250"}, "metrics.reporter.prom.port: '9250'\n", false},
		{"quote in YAML", recent, conf{"a": "it's: #1"}, "a: 'it''s: #1'\n", false},
		{"comment in flink-conf.yaml", old, conf{"a": "x#y"}, "", true},
		{"nothing in flink-conf.yaml", old, conf{"a": " "}, "", true},
		{"nothing in YAML", recent, conf{"a": ""}, "a: ''\n", false},
		{"line break in a value", recent, conf{"a": "1\nb: 2"}, "", true},
		{"line break in a name", old, conf{"a\nb": "1"}, "", true},
		{"no name", old, conf{"": "1"}, "", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := render(tc.v, tc.c)
			if string(got) != tc.want || (err != nil) != tc.wantErr {
				t.Errorf("got %q, %v; want %q, error %v", got, err, tc.want, tc.wantErr)
			}
		})
	}
}

func TestConfWithDoesNotChangeItsReceiver(t *testing.T) {
	base := conf{"a": "1"}
	if got := base.with(conf{"a": "2"}, conf{"a": "3"})["a"]; got != "3" || base["a"] != "1" {
		t.Errorf("got %q and base %q, want 3 and 1", got, base["a"])
	}
}
