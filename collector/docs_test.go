package collector

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestDocs(t *testing.T) {
	const path = "../docs/metrics.md"
	if *update {
		if err := os.WriteFile(path, []byte(Markdown()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != Markdown() {
		t.Errorf("%s is not what the declarations say; run go test ./collector -run TestDocs -update", path)
	}
}

// TestDeclarations checks what promlint does not: labels that clash with Prometheus' own, help and source.
func TestDeclarations(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range Metrics() {
		if seen[m.Name] {
			t.Errorf("%s is declared twice", m.Name)
		}
		seen[m.Name] = true
		for _, l := range m.Labels {
			if slices.Contains([]string{"job", "instance", "cluster", "type"}, l) {
				t.Errorf("%s has the label %s", m.Name, l)
			}
		}
		if !strings.HasSuffix(m.Help, ".") {
			t.Errorf("the help of %s does not end with a period", m.Name)
		}
		if strings.HasSuffix(m.Name, "_created") {
			t.Errorf("%s ends like a creation timestamp of OpenMetrics", m.Name)
		}
		if m.Source == "" || m.Stability == "" {
			t.Errorf("%s lacks source or stability", m.Name)
		}
		if m.Collector != "" && !slices.Contains(Names, m.Collector) {
			t.Errorf("%s is of the unknown collector %s", m.Name, m.Collector)
		}
	}
}
