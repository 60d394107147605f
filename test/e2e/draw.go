package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What a drawing measures: a dashboard is 24 columns wide, and its panels are so many rows high.
const (
	columnWidth = 55
	rowHeight   = 32
	margin      = 6
	textHeight  = 15
)

// palette is that of Okabe and Ito.
var palette = []string{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31"}

// drawnPanel is what a drawing takes of a panel of a dashboard.
type drawnPanel struct {
	Type, Title string
	GridPos     struct{ H, W, X, Y int }
	Targets     []struct{ RefID, LegendFormat string }
	FieldConfig struct {
		Defaults struct {
			Unit, NoValue string
			Mappings      []struct {
				Options map[string]struct{ Text, Color string }
			}
			Thresholds struct {
				Steps []struct {
					Color string
					Value *float64
				}
			}
		}
		Overrides []struct {
			Matcher    struct{ Options string }
			Properties []struct {
				ID    string
				Value any
			}
		}
	}
	Transformations []struct {
		ID      string
		Options struct {
			ExcludeByName map[string]bool
			IndexByName   map[string]int
			RenameByName  map[string]string
		}
	}
}

// draw writes an SVG of each dashboard with what its queries returned. It is no picture of Grafana: it draws the panels' places, titles, colours
// and words from the dashboard's JSON, plainly.
func draw(dir string, results []panelResult) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	files, err := filepath.Glob("dashboards/*.json")
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var d struct {
			UID, Title string
			Panels     []drawnPanel
		}
		if err := json.Unmarshal(text, &d); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		height := 0
		for _, p := range d.Panels {
			height = max(height, p.GridPos.Y+p.GridPos.H)
		}
		c := &canvas{}
		c.printf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n",
			24*columnWidth, height*rowHeight+40)
		c.printf("<title>%s, drawn from the data of a replayed incident</title>\n", html.EscapeString(d.Title))
		c.rect(0, 0, 24*columnWidth, height*rowHeight+40, "#f4f5f5")
		c.text(margin, 26, 20, "#1f1f1f", d.Title, 24*columnWidth)
		for i := range d.Panels {
			p := &d.Panels[i]
			queries := map[string][]series{}
			for _, r := range results {
				if r.Dashboard == d.UID && r.Panel == p.Title {
					queries[r.Ref] = r.Result
				}
			}
			c.panel(p, queries)
		}
		c.printf("</svg>\n")
		if err := os.WriteFile(filepath.Join(dir, d.UID+".svg"), []byte(c.String()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

type canvas struct{ strings.Builder }

func (c *canvas) printf(format string, args ...any) { fmt.Fprintf(&c.Builder, format, args...) }

func (c *canvas) rect(x, y, w, h int, fill string) {
	c.printf(`<rect x="%d" y="%d" width="%d" height="%d" fill="%s"/>`+"\n", x, y, w, h, fill)
}

// text writes a line, cut off where it would leave the width.
func (c *canvas) text(x, y, size int, fill, s string, width int) {
	if room := max(width*10/(size*6), 1); len([]rune(s)) > room {
		s = string([]rune(s)[:max(room-1, 0)]) + "…"
	}
	c.printf(`<text x="%d" y="%d" font-size="%d" fill="%s">%s</text>`+"\n", x, y, size, fill, html.EscapeString(s))
}

func (c *canvas) panel(p *drawnPanel, queries map[string][]series) {
	x, y := p.GridPos.X*columnWidth+margin/2, p.GridPos.Y*rowHeight+40
	w, h := p.GridPos.W*columnWidth-margin, p.GridPos.H*rowHeight-margin
	if p.Type == "row" {
		c.text(x, y+20, 14, "#1f1f1f", p.Title, w)
		return
	}
	c.rect(x, y, w, h, "#ffffff")
	c.text(x+margin, y+textHeight+2, 12, "#1f1f1f", p.Title, w-2*margin)
	x, y, w, h = x+margin, y+24, w-2*margin, h-24-margin
	switch p.Type {
	case "stat":
		c.stat(p, queries["A"], x, y, w, h)
	case "table":
		c.table(p, queries, x, y, w, h)
	case "state-timeline":
		c.timeline(p, queries["A"], x, y, w, h)
	default:
		c.lines(p, queries["A"], x, y, w, h)
	}
}

func (c *canvas) stat(p *drawnPanel, found []series, x, y, w, h int) {
	words, color := p.FieldConfig.Defaults.NoValue, "#999999"
	if len(found) > 0 {
		words, color = p.shown(found[0].value())
	}
	c.rect(x, y, w, h, color)
	c.text(x+margin, y+h/2+10, 24, "#ffffff", words, w-2*margin)
}

// shown is what a value is shown as, in words or with its unit, and its colour.
func (p *drawnPanel) shown(v float64) (words, color string) {
	color = palette[0]
	for _, s := range p.FieldConfig.Defaults.Thresholds.Steps {
		if s.Value == nil || v >= *s.Value {
			color = s.Color
		}
	}
	for _, m := range p.FieldConfig.Defaults.Mappings {
		if o, ok := m.Options[strconv.FormatFloat(v, 'f', -1, 64)]; ok {
			return o.Text, o.Color
		}
	}
	return withUnit(v, p.FieldConfig.Defaults.Unit), color
}

func withUnit(v float64, unit string) string {
	switch unit {
	case "s":
		if math.Abs(v) < 1 {
			return strconv.FormatFloat(v*1000, 'f', 0, 64) + " ms"
		}
		return time.Duration(v * float64(time.Second)).Round(time.Second).String()
	case "percentunit":
		return strconv.FormatFloat(v*100, 'f', 0, 64) + "%"
	case "bytes":
		return strconv.FormatFloat(v/(1<<20), 'f', 1, 64) + " MiB"
	case "dateTimeAsIso":
		return time.UnixMilli(int64(v)).UTC().Format(time.DateTime)
	case "reqps", "cps":
		return strconv.FormatFloat(v, 'f', 2, 64) + "/s"
	}
	return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64)
}

// table merges the queries' rows by their labels, and shows the columns that the panel names, in its order.
func (c *canvas) table(p *drawnPanel, queries map[string][]series, x, y, w, h int) {
	merged := map[string]map[string]string{}
	units := map[string]string{}
	for _, o := range p.FieldConfig.Overrides {
		for _, property := range o.Properties {
			if unit, ok := property.Value.(string); ok && property.ID == "unit" {
				units[o.Matcher.Options] = unit
			}
		}
	}
	columns := p.Transformations[len(p.Transformations)-1].Options
	for ref, result := range queries {
		field := "Value"
		if len(queries) > 1 {
			field = "Value #" + ref
		}
		for i := range result {
			// What has the same labels is one row; a query with more labels than another has rows of its own and gives them its labels.
			row := map[string]string{}
			maps.Copy(row, result[i].Metric)
			row[field] = withUnit(result[i].value(), units[columns.RenameByName[field]])
			key := fmt.Sprint(result[i].Metric["instance"], result[i].Metric["job_id"], result[i].Metric["job_name"], result[i].Metric["tm_id"],
				result[i].Metric["vertex_name"], result[i].Metric["subtask"], result[i].Metric["view"], result[i].Metric["reason"])
			if merged[key] == nil {
				merged[key] = map[string]string{}
			}
			maps.Copy(merged[key], row)
		}
	}
	fields := slices.SortedFunc(maps.Keys(columns.RenameByName), func(a, b string) int {
		return cmp.Compare(columns.IndexByName[a], columns.IndexByName[b])
	})
	if len(merged) == 0 {
		c.text(x, y+textHeight, 12, "#666666", p.FieldConfig.Defaults.NoValue, w)
		return
	}
	// Each column is as wide as what it has, by what all have.
	at, widths, all := make([]int, len(fields)), make([]int, len(fields)), 0
	for i, f := range fields {
		widths[i] = len(columns.RenameByName[f]) + 2
		for _, row := range merged {
			widths[i] = max(widths[i], len(row[f])+2)
		}
		all += widths[i]
	}
	for i, f := range fields {
		widths[i] = widths[i] * w / all
		if i > 0 {
			at[i] = at[i-1] + widths[i-1]
		}
		c.text(x+at[i], y+textHeight, 12, "#0072B2", columns.RenameByName[f], widths[i])
	}
	for n, key := range slices.Sorted(maps.Keys(merged)) {
		line := y + (n+2)*(textHeight+4)
		if line > y+h {
			break
		}
		for i, f := range fields {
			c.text(x+at[i], line, 12, "#1f1f1f", merged[key][f], widths[i])
		}
	}
}

// points are the values of a series over time.
func (s *series) points() (times, values []float64) {
	for _, v := range s.Values {
		t, ok := v[0].(float64)
		text, isText := v[1].(string)
		value, err := strconv.ParseFloat(text, 64)
		if ok && isText && err == nil {
			times, values = append(times, t), append(values, value)
		}
	}
	return times, values
}

// span is the time that the series of a panel cover, and their largest value.
func span(result []series) (from, to, largest float64) {
	from, to = math.Inf(1), math.Inf(-1)
	for i := range result {
		times, values := result[i].points()
		for k := range times {
			from, to, largest = min(from, times[k]), max(to, times[k]), max(largest, values[k])
		}
	}
	return from, max(to, from+1), largest
}

var inLegend = regexp.MustCompile(`\{\{(\w+)\}\}`)

func (p *drawnPanel) legend(s *series) string {
	return inLegend.ReplaceAllStringFunc(p.Targets[0].LegendFormat, func(m string) string { return s.Metric[m[2:len(m)-2]] })
}

func (c *canvas) timeline(p *drawnPanel, result []series, x, y, w, h int) {
	if len(result) == 0 {
		c.text(x, y+textHeight, 12, "#666666", "no data", w)
		return
	}
	from, to, _ := span(result)
	names := w * 2 / 5
	each := min(h/len(result), 2*textHeight)
	for i := range result {
		top := y + i*each
		c.text(x, top+each/2+4, 11, "#1f1f1f", p.legend(&result[i]), names-margin)
		times, values := result[i].points()
		for k := 0; k < len(times); {
			begin := k
			for k < len(times) && values[k] == values[begin] && (k == begin || times[k]-times[k-1] < 2*replayedInterval.Seconds()) {
				k++
			}
			words, color := p.shown(values[begin])
			left := x + names + int((times[begin]-from)/(to-from)*float64(w-names))
			right := x + names + int((times[k-1]+replayedInterval.Seconds()-from)/(to-from)*float64(w-names))
			right = min(right, x+w)
			c.rect(left, top+1, max(right-left, 2), max(each-3, 1), color)
			if right-left > 40 && each > 14 {
				c.text(left+4, top+each/2+4, 11, "#ffffff", words, right-left-8)
			}
		}
	}
}

func (c *canvas) lines(p *drawnPanel, result []series, x, y, w, h int) {
	if len(result) == 0 {
		c.text(x, y+textHeight, 12, "#666666", "no data", w)
		return
	}
	from, to, largest := span(result)
	if largest == 0 {
		largest = 1
	}
	listed := min(len(result), 5)
	plot := h - listed*textHeight - margin
	axis := 60
	for i, v := range []float64{largest, largest / 2, 0} {
		level := y + 10 + i*(plot-20)/2
		c.printf(`<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#dddddd"/>`+"\n", x+axis, level, x+w, level)
		c.text(x, level+4, 11, "#666666", withUnit(v, p.FieldConfig.Defaults.Unit), axis)
	}
	for i := range result {
		color := palette[i%len(palette)]
		times, values := result[i].points()
		var path strings.Builder
		for k := range times {
			move := "L"
			// A gap is a time in which it was not known.
			if k == 0 || times[k]-times[k-1] > 2*replayedInterval.Seconds() {
				move = "M"
			}
			fmt.Fprintf(&path, "%s%.1f %.1f", move, float64(x+axis)+(times[k]-from)/(to-from)*float64(w-axis),
				float64(y+10)+(1-values[k]/largest)*float64(plot-20))
		}
		c.printf(`<path d="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", path.String(), color)
		if i < listed && len(values) > 0 {
			line := y + plot + (i+1)*textHeight
			c.rect(x, line-9, 10, 10, color)
			name := p.legend(&result[i]) + ": " + withUnit(values[len(values)-1], p.FieldConfig.Defaults.Unit)
			if i == listed-1 && len(result) > listed {
				name += fmt.Sprintf(" (and %d more)", len(result)-listed)
			}
			c.text(x+16, line, 11, "#1f1f1f", name, w-16)
		}
	}
}
