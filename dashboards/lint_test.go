package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// model is what the rules look at in a dashboard's JSON.
type model struct {
	UID           string   `json:"uid"`
	ID            *int     `json:"id"`
	Title         string   `json:"title"`
	Description   string   `json:"description"`
	Editable      *bool    `json:"editable"`
	GraphTooltip  int      `json:"graphTooltip"`
	Timezone      string   `json:"timezone"`
	Refresh       string   `json:"refresh"`
	SchemaVersion int      `json:"schemaVersion"`
	Tags          []string `json:"tags"`
	Links         []struct {
		Type        string   `json:"type"`
		Tags        []string `json:"tags"`
		URL         string   `json:"url"`
		IncludeVars bool     `json:"includeVars"`
	} `json:"links"`
	Annotations struct {
		List []struct {
			Expr       string `json:"expr"`
			Datasource source `json:"datasource"`
		} `json:"list"`
	} `json:"annotations"`
	Templating struct {
		List []variableModel `json:"list"`
	} `json:"templating"`
	Panels []panel `json:"panels"`
}

type source struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type variableModel struct {
	Name       string `json:"name"`
	Type       string `json:"type"`
	Label      string `json:"label"`
	Query      string `json:"query"`
	Refresh    int    `json:"refresh"`
	Multi      bool   `json:"multi"`
	IncludeAll bool   `json:"includeAll"`
	AllValue   string `json:"allValue"`
	Datasource source `json:"datasource"`
}

type panel struct {
	ID          int    `json:"id"`
	Type        string `json:"type"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Datasource  source `json:"datasource"`
	GridPos     struct{ H, W, X, Y int }
	Targets     []struct {
		Expr         string `json:"expr"`
		RefID        string `json:"refId"`
		LegendFormat string `json:"legendFormat"`
		Format       string `json:"format"`
		Instant      bool   `json:"instant"`
		Datasource   source `json:"datasource"`
	} `json:"targets"`
	FieldConfig struct {
		Defaults struct {
			Unit       string `json:"unit"`
			Thresholds struct {
				Steps []struct {
					Color string `json:"color"`
				} `json:"steps"`
			} `json:"thresholds"`
			Mappings []struct {
				Options map[string]struct {
					Text  string `json:"text"`
					Color string `json:"color"`
				} `json:"options"`
			} `json:"mappings"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
}

// each runs a check for each dashboard as committed.
func each(t *testing.T, check func(t *testing.T, d *model)) {
	t.Helper()
	for file := range dashboards {
		t.Run(file, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var d model
			if err := json.Unmarshal(text, &d); err != nil {
				t.Fatal(err)
			}
			check(t, &d)
		})
	}
}

// expressions are all of a dashboard, by where they are.
func expressions(d *model) map[string]string {
	out := map[string]string{}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			out[p.Title+" "+target.RefID] = target.Expr
		}
	}
	for _, a := range d.Annotations.List {
		out["annotation"] = a.Expr
	}
	return out
}

func TestCommittedDashboardsAreAsGenerated(t *testing.T) {
	for file := range dashboards {
		want, err := render(file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what this program writes: run `go run .` in dashboards/", file)
		}
	}
	files, err := filepath.Glob("*.json")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(dashboards) {
		t.Errorf("there are %v, want the %d that this program writes", files, len(dashboards))
	}
}

func TestDashboard(t *testing.T) {
	uids := map[string]bool{}
	each(t, func(t *testing.T, d *model) {
		if d.UID == "" || uids[d.UID] {
			t.Errorf("uid %q is empty or there twice", d.UID)
		}
		uids[d.UID] = true
		if d.ID != nil {
			t.Errorf("id is %d; it belongs to one installation", *d.ID)
		}
		if d.Editable == nil || *d.Editable {
			t.Error("it can be edited in the browser, and the change would be lost")
		}
		if d.Description == "" || d.Timezone == "" || d.SchemaVersion < 36 {
			t.Errorf("description %q, timezone %q, schemaVersion %d", d.Description, d.Timezone, d.SchemaVersion)
		}
		if d.GraphTooltip != 1 {
			t.Error("panels do not share the crosshair")
		}
		if d.Refresh != "30s" && d.Refresh != "1m" {
			t.Errorf("refresh is %q, want 30s or 1m", d.Refresh)
		}
		if !slices.Contains(d.Tags, tag) {
			t.Errorf("tags %v lack %s", d.Tags, tag)
		}
		var siblings, runbook bool
		for _, l := range d.Links {
			siblings = siblings || l.Type == "dashboards" && slices.Contains(l.Tags, tag) && l.IncludeVars
			runbook = runbook || strings.Contains(l.URL, "/alerts/runbook/")
		}
		if !siblings || !runbook {
			t.Errorf("link to its siblings: %t, to the runbook: %t", siblings, runbook)
		}
	})
}

func TestVariables(t *testing.T) {
	each(t, func(t *testing.T, d *model) {
		var names []string
		for _, v := range d.Templating.List {
			names = append(names, v.Name)
			if v.Label == "" {
				t.Errorf("variable %s has no label", v.Name)
			}
			if v.Type == "datasource" {
				continue
			}
			if v.Datasource.UID != "${datasource}" {
				t.Errorf("variable %s asks data source %q", v.Name, v.Datasource.UID)
			}
			if v.Refresh != 2 {
				t.Errorf("variable %s is not read again when the time changes", v.Name)
			}
			if !v.Multi || !v.IncludeAll || v.AllValue == "" {
				t.Errorf("variable %s does not offer many values and All", v.Name)
			}
		}
		if len(names) < 3 || !slices.Equal(names[:3], []string{"datasource", "job", "instance"}) {
			t.Errorf("variables %v do not begin with datasource, job, instance", names)
		}
		// Each narrows what those after it offer.
		for _, v := range d.Templating.List[2:] {
			if !strings.Contains(v.Query, `job=~"$job"`) {
				t.Errorf("variable %s does not depend on $job: %s", v.Name, v.Query)
			}
		}
		used := strings.Join(func() []string {
			var all []string
			for _, e := range expressions(d) {
				all = append(all, e)
			}
			return all
		}(), "\n")
		for _, v := range d.Templating.List[1:] {
			if !strings.Contains(used, "$"+v.Name+`"`) {
				t.Errorf("no panel uses variable %s", v.Name)
			}
		}
		for _, m := range regexp.MustCompile(`"\$(\w+)"`).FindAllStringSubmatch(used, -1) {
			if !slices.Contains(names, m[1]) {
				t.Errorf("there is no variable %s", m[1])
			}
		}
	})
}

func TestPanels(t *testing.T) {
	each(t, func(t *testing.T, d *model) {
		ids := map[int]bool{}
		for _, p := range d.Panels {
			if p.ID == 0 || ids[p.ID] {
				t.Errorf("%s: id %d is 0 or there twice", p.Title, p.ID)
			}
			ids[p.ID] = true
			if p.GridPos.X+p.GridPos.W > 24 {
				t.Errorf("%s: sticks out on the right", p.Title)
			}
			if p.Type == "row" {
				continue
			}
			if p.Title == "" || !strings.HasSuffix(p.Description, ".") {
				t.Errorf("%s: description %q is no sentence", p.Title, p.Description)
			}
			if p.Datasource.UID != "${datasource}" {
				t.Errorf("%s: data source %q", p.Title, p.Datasource.UID)
			}
			if p.FieldConfig.Defaults.Unit == "" {
				t.Errorf("%s: has no unit", p.Title)
			}
			if len(p.Targets) == 0 {
				t.Errorf("%s: has no query", p.Title)
			}
			refs := map[string]bool{}
			for _, target := range p.Targets {
				if target.Expr == "" || target.RefID == "" || refs[target.RefID] || target.Datasource.UID != "${datasource}" {
					t.Errorf("%s: query %q of data source %q: %s", p.Title, target.RefID, target.Datasource.UID, target.Expr)
				}
				refs[target.RefID] = true
				if (p.Type == "timeseries" || p.Type == "state-timeline") && target.LegendFormat == "" {
					t.Errorf("%s: has no legend", p.Title)
				}
				if p.Type == "table" && (target.Format != "table" || !target.Instant) {
					t.Errorf("%s: its query is not one of the latest values as a table", p.Title)
				}
			}
		}
	})
}

// TestColours: only colours that everyone can tell apart, and never a colour alone.
func TestColours(t *testing.T) {
	palette := []string{fine, caution, bad, grey}
	each(t, func(t *testing.T, d *model) {
		for _, p := range d.Panels {
			for _, s := range p.FieldConfig.Defaults.Thresholds.Steps {
				if !slices.Contains(palette, s.Color) {
					t.Errorf("%s: threshold in colour %q", p.Title, s.Color)
				}
			}
			words := map[string]bool{}
			for _, m := range p.FieldConfig.Defaults.Mappings {
				for value, o := range m.Options {
					if !slices.Contains(palette, o.Color) || o.Text == "" || words[o.Text] {
						t.Errorf("%s: %s is shown as %q in colour %q", p.Title, value, o.Text, o.Color)
					}
					words[o.Text] = true
				}
			}
			if p.Type == "state-timeline" && len(words) == 0 {
				t.Errorf("%s: states without words", p.Title)
			}
		}
	})
}

var selector = regexp.MustCompile(`([a-z_]+)\{([^}]*)\}`)

func TestExpressions(t *testing.T) {
	text, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	docs := string(text)
	// Prometheus' and the Go client's own.
	others := []string{"up", "scrape_duration_seconds", "scrape_samples_scraped", "process_resident_memory_bytes", "process_cpu_seconds_total"}
	each(t, func(t *testing.T, d *model) {
		for where, e := range expressions(d) {
			if strings.Count(e, "(") != strings.Count(e, ")") || strings.Count(e, "{") != strings.Count(e, "}") {
				t.Errorf("%s: brackets do not match: %s", where, e)
			}
			found := selector.FindAllStringSubmatch(e, -1)
			if len(found) == 0 {
				t.Errorf("%s: selects nothing: %s", where, e)
			}
			for _, m := range found {
				if !strings.Contains(m[2], `job=~"$job"`) {
					t.Errorf("%s: %s lacks the scrape job", where, m[1])
				}
				own := strings.HasPrefix(m[1], "process_") || strings.HasPrefix(m[1], "flink_lineage_exporter_") ||
					strings.HasPrefix(m[1], "flink_lineage_config_") || strings.HasPrefix(m[1], "flink_lineage_api_")
				if !own && !strings.Contains(m[2], `instance=~"$instance"`) {
					t.Errorf("%s: %s lacks the cluster", where, m[1])
				}
				if !strings.Contains(docs, "`"+m[1]+"`") && !slices.Contains(others, m[1]) {
					t.Errorf("%s: %s is not in docs/metrics.md", where, m[1])
				}
				if strings.HasSuffix(m[1], "_total") && !regexp.MustCompile(`(rate|increase)\(`+m[1]).MatchString(e) {
					t.Errorf("%s: counter %s is shown as it is", where, m[1])
				}
			}
			// At a failover the counter is absent for as long as there is no leader, which a short range would not bridge.
			failovers := strings.Contains(e, "increase(flink_lineage_job_failovers_total")
			if m := regexp.MustCompile(`\[([^\]]+)\]`).FindStringSubmatch(e); m != nil && !(failovers && m[1] == "5m") &&
				m[1] != "$__rate_interval" && m[1] != "$__range" {
				t.Errorf("%s: range %s is fixed", where, m[1])
			}
		}
	})
}
