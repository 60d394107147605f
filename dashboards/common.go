package main

import (
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

const (
	repository = "https://github.com/flink-lineage/flink-lineage-exporter/blob/main"
	tag        = "flink-lineage"
)

// Colours of Okabe and Ito, which people who see colours differently can tell apart. What they mean is also said in words.
const (
	fine    = "#0072B2"
	caution = "#E69F00"
	bad     = "#D55E00"
	grey    = "#999999"
)

// Selectors that every expression has one of. The names are those of the variables.
const (
	ofCluster     = `job=~"$job", instance=~"$instance"`
	ofJob         = ofCluster + `, job_name=~"$flink_job"`
	ofTaskManager = ofCluster + `, tm_id=~"$taskmanager"`
	ofBoth        = ofJob + `, tm_id=~"$taskmanager"`
)

// expr puts the selectors into an expression.
func expr(s string) string {
	return strings.NewReplacer("CLUSTER", ofCluster, "JOB", ofJob, "TASKMANAGER", ofTaskManager, "BOTH", ofBoth).Replace(s)
}

var dataSource = common.DataSourceRef{Type: new("prometheus"), Uid: new("${datasource}")}

// base is a dashboard with what all have: variables, links, and failovers as annotations.
func base(uid, title, description string, variables ...cog.Builder[dashboard.VariableModel]) *dashboard.DashboardBuilder {
	d := dashboard.NewDashboardBuilder(title).
		Uid(uid).
		Description(description).
		Tags([]string{tag}).
		Readonly().
		Timezone("browser").
		Time("now-3h", "now").
		Refresh("30s").
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		Link(dashboard.NewDashboardLinkBuilder("Flink lineage").
			Type(dashboard.DashboardLinkTypeDashboards).Tags([]string{tag}).AsDropdown(true).IncludeVars(true).KeepTime(true)).
		Link(dashboard.NewDashboardLinkBuilder("Runbook").
			Type(dashboard.DashboardLinkTypeLink).Url(repository + "/alerts/runbook/README.md").TargetBlank(true).
			Tooltip("What to do about each alert.")).
		Annotation(dashboard.NewAnnotationQueryBuilder().
			Name("Failovers").Datasource(dataSource).Enable(true).IconColor(caution).
			Expr(expr(`increase(flink_lineage_job_failovers_total{CLUSTER}[5m]) > 0`)).Step("60s").
			TitleFormat("Failover").TextFormat("A JobManager took {{job_name}} over.").TagKeys("job_name,instance")).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus")).
		WithVariable(variable("job", "Scrape job", `label_values(flink_lineage_scrape_collector_success, job)`)).
		WithVariable(variable("instance", "Flink cluster", `label_values(flink_lineage_scrape_collector_success{job=~"$job"}, instance)`))
	for _, v := range variables {
		d.WithVariable(v)
	}
	return d
}

func jobVariable() cog.Builder[dashboard.VariableModel] {
	return variable("flink_job", "Flink job", `label_values(flink_lineage_job_verdict{`+ofCluster+`}, job_name)`)
}

func taskManagerVariable() cog.Builder[dashboard.VariableModel] {
	return variable("taskmanager", "TaskManager", `label_values(flink_lineage_taskmanager_tasks{`+ofCluster+`}, tm_id)`)
}

// variable is a variable of many values. All is every value and none: what belongs to no job must not be hidden.
func variable(name, label, query string) *dashboard.QueryVariableBuilder {
	return dashboard.NewQueryVariableBuilder(name).
		Label(label).
		Datasource(dataSource).
		Query(dashboard.StringOrMap{String: new(query)}).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
		Sort(dashboard.VariableSortAlphabeticalAsc).
		Multi(true).IncludeAll(true).AllValue(".*").
		Current(dashboard.VariableOption{
			Selected: new(true),
			Text:     dashboard.StringOrArrayOfString{ArrayOfString: []string{"All"}},
			Value:    dashboard.StringOrArrayOfString{ArrayOfString: []string{"$__all"}},
		})
}

// overTime is a query whose values are drawn over time, now one for its latest.
func overTime(e, legend string) *prometheus.DataqueryBuilder {
	return prometheus.NewDataqueryBuilder().Expr(expr(e)).LegendFormat(legend).Range().Datasource(dataSource)
}

func now(e string) *prometheus.DataqueryBuilder {
	return prometheus.NewDataqueryBuilder().Expr(expr(e)).Instant().Datasource(dataSource)
}

// rows is a query whose latest values are the rows of a table.
func rows(refID, e string) *prometheus.DataqueryBuilder {
	return now(e).Format(prometheus.PromQueryFormatTable).RefId(refID)
}

// text says in words what a value means.
func text(value, words, color string) dashboard.ValueMapping {
	return dashboard.ValueMapping{ValueMap: &dashboard.ValueMap{
		Type:    dashboard.MappingTypeValueToText,
		Options: map[string]dashboard.ValueMappingResult{value: {Text: new(words), Color: new(color)}},
	}}
}

// from is thresholds: fine, and from a value on another colour.
func from(value float64, color string) cog.Builder[dashboard.ThresholdsConfig] {
	return dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps([]dashboard.Threshold{
		{Color: fine}, {Value: new(value), Color: color},
	})
}

// below is thresholds: another colour below a value, and fine from it on.
func below(value float64, color string) cog.Builder[dashboard.ThresholdsConfig] {
	return dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps([]dashboard.Threshold{
		{Color: color}, {Value: new(value), Color: fine},
	})
}

// byThresholds colours by thresholds, and in the colours of the palette for people who see colours differently.
func byThresholds() cog.Builder[dashboard.FieldColor] {
	return dashboard.NewFieldColorBuilder().Mode(dashboard.FieldColorModeIdThresholds)
}

func tile(title, description, unit string, width uint32, thresholds cog.Builder[dashboard.ThresholdsConfig],
	query *prometheus.DataqueryBuilder, mappings ...dashboard.ValueMapping,
) *stat.PanelBuilder {
	return stat.NewPanelBuilder().
		Title(title).Description(description).Unit(unit).Datasource(dataSource).Height(4).Span(width).
		Thresholds(thresholds).ColorScheme(byThresholds()).Mappings(mappings).NoValue("no data").
		ColorMode(common.BigValueColorModeBackgroundSolid).GraphMode(common.BigValueGraphModeNone).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"})).
		WithTarget(query.RefId("A"))
}

func lines(title, description, unit string, width uint32, query *prometheus.DataqueryBuilder) *timeseries.PanelBuilder {
	return timeseries.NewPanelBuilder().
		Title(title).Description(description).Unit(unit).Datasource(dataSource).Height(8).Span(width).Min(0).
		LineWidth(2).FillOpacity(10).
		// Unknown is no value, and must not look like one.
		SpanNulls(common.BoolOrFloat64{Bool: new(false)}).
		ColorScheme(dashboard.NewFieldColorBuilder().Mode(dashboard.FieldColorModeIdPaletteClassicByName)).
		Legend(common.NewVizLegendOptionsBuilder().
			DisplayMode(common.LegendDisplayModeTable).Placement(common.LegendPlacementBottom).ShowLegend(true).
			Calcs([]string{"lastNotNull", "max"})).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending)).
		WithTarget(query.RefId("A"))
}

func states(title, description string, width uint32, query *prometheus.DataqueryBuilder, mappings ...dashboard.ValueMapping,
) *statetimeline.PanelBuilder {
	return statetimeline.NewPanelBuilder().
		Title(title).Description(description).Unit("none").Datasource(dataSource).Height(6).Span(width).
		Mappings(mappings).ColorScheme(byThresholds()).Thresholds(from(1, bad)).
		ShowValue(common.VisibilityModeAuto).MergeValues(true).FillOpacity(80).LineWidth(0).
		Legend(common.NewVizLegendOptionsBuilder().ShowLegend(false).DisplayMode(common.LegendDisplayModeList).
			Placement(common.LegendPlacementBottom)).
		WithTarget(query.RefId("A"))
}

// list is a table of the latest values; columns are renamed, in this order, and those renamed to nothing are left out.
func list(title, description string, width uint32, columns []column, queries ...cog.Builder[variants.Dataquery]) *table.PanelBuilder {
	index, rename, exclude := map[string]any{}, map[string]any{}, map[string]any{"Time": true}
	for i, c := range columns {
		index[c.field] = i
		if c.title == "" {
			exclude[c.field] = true
		} else {
			rename[c.field] = c.title
		}
	}
	p := table.NewPanelBuilder().
		Title(title).Description(description).Unit("none").Datasource(dataSource).Height(7).Span(width).
		NoValue("none").Filterable(true).
		Targets(queries).
		WithTransformation(dashboard.DataTransformerConfig{Id: "merge", Options: map[string]any{}}).
		WithTransformation(dashboard.DataTransformerConfig{Id: "organize", Options: map[string]any{
			"indexByName": index, "renameByName": rename, "excludeByName": exclude,
		}})
	for _, c := range columns {
		if c.unit != "" {
			p.OverrideByName(c.title, []dashboard.DynamicConfigValue{{Id: "unit", Value: c.unit}})
		}
		if c.link != "" {
			p.OverrideByName(c.title, []dashboard.DynamicConfigValue{{Id: "links", Value: []map[string]any{
				{"title": "Runbook", "url": repository + "/alerts/runbook/" + c.link, "targetBlank": true},
			}}})
		}
	}
	return p
}

// column is a column of a table: the field, the title, the unit if it is no plain number or text, and the page of the runbook it links to.
type column struct{ field, title, unit, link string }
