// Command dashboards writes the Grafana dashboards next to itself. It is a module of its own, so that the exporter does not depend on
// Grafana's SDK. Run `go run .` in this directory; the output is committed.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// dashboards are the dashboards by the name of their file. They are in the classic model: Grafana 10 and 11 know no other.
var dashboards = map[string]func() *dashboard.DashboardBuilder{
	"flink-lineage.json":          lineage,
	"flink-lineage-cluster.json":  cluster,
	"flink-lineage-exporter.json": exporter,
}

func main() {
	for file := range dashboards {
		text, err := render(file)
		if err == nil {
			err = os.WriteFile(file, text, 0o644)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %s\n", file, err)
			os.Exit(1)
		}
	}
}

// render returns the content of a file.
func render(file string) ([]byte, error) {
	d, err := dashboards[file]().Build()
	if err != nil {
		return nil, err
	}
	// Links to a panel name it by its number.
	for i := range d.Panels {
		id := uint32(i + 1)
		if p := d.Panels[i].Panel; p != nil {
			p.Id = &id
		} else {
			d.Panels[i].RowPanel.Id = id
		}
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	// Expressions are to be read by people, too.
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err = encoder.Encode(d)
	return out.Bytes(), err
}
