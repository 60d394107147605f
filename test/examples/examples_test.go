package examples

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-jsonnet"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	monitoringv1alpha1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1alpha1"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const (
	top   = "../.."
	chart = "../../examples/helm/flink-lineage-exporter"
)

// kinds are the types of the objects that the examples have.
var kinds = map[string]func() any{
	"apps/v1 Deployment":                          func() any { return &appsv1.Deployment{} },
	"v1 Service":                                  func() any { return &corev1.Service{} },
	"v1 ConfigMap":                                func() any { return &corev1.ConfigMap{} },
	"networking.k8s.io/v1 NetworkPolicy":          func() any { return &networkingv1.NetworkPolicy{} },
	"monitoring.coreos.com/v1 ServiceMonitor":     func() any { return &monitoringv1.ServiceMonitor{} },
	"monitoring.coreos.com/v1 PodMonitor":         func() any { return &monitoringv1.PodMonitor{} },
	"monitoring.coreos.com/v1 Probe":              func() any { return &monitoringv1.Probe{} },
	"monitoring.coreos.com/v1 PrometheusRule":     func() any { return &monitoringv1.PrometheusRule{} },
	"monitoring.coreos.com/v1alpha1 ScrapeConfig": func() any { return &monitoringv1alpha1.ScrapeConfig{} },
}

// objects decodes each object of a YAML text strictly into its type, and returns them by kind and name. A field that the API does not have
// is an error.
func objects(t *testing.T, where, text string) map[string]any {
	t.Helper()
	out := map[string]any{}
	for _, doc := range regexp.MustCompile(`(?m)^---\s*$`).Split(text, -1) {
		var head struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Metadata   struct {
				Name string `json:"name"`
			} `json:"metadata"`
		}
		if err := yaml.Unmarshal([]byte(doc), &head); err != nil {
			t.Fatalf("%s: %v", where, err)
		}
		if head.Kind == "" {
			continue
		}
		newObject, ok := kinds[head.APIVersion+" "+head.Kind]
		if !ok {
			t.Errorf("%s: no type is known for %s %s", where, head.APIVersion, head.Kind)
			continue
		}
		object := newObject()
		if err := yaml.UnmarshalStrict([]byte(doc), object); err != nil {
			t.Errorf("%s: %s %s: %v", where, head.Kind, head.Metadata.Name, err)
		}
		key := head.Kind + " " + head.Metadata.Name
		if out[key] != nil || head.Metadata.Name == "" {
			t.Errorf("%s: %q has no name or is there twice", where, key)
		}
		out[key] = object
	}
	return out
}

// checkWorkload checks that Services and monitors select what a Deployment runs.
func checkWorkload(t *testing.T, where string, all map[string]any) {
	t.Helper()
	var pods map[string]string
	for _, o := range all {
		d, ok := o.(*appsv1.Deployment)
		if !ok {
			continue
		}
		pods = d.Spec.Template.Labels
		if !contains(pods, d.Spec.Selector.MatchLabels) {
			t.Errorf("%s: the Deployment does not select its own pods", where)
		}
		c := d.Spec.Template.Spec.Containers[0]
		if c.SecurityContext == nil || !*c.SecurityContext.ReadOnlyRootFilesystem || !*d.Spec.Template.Spec.SecurityContext.RunAsNonRoot {
			t.Errorf("%s: the container may write or is root", where)
		}
		checkFlags(t, where, c.Args)
	}
	if pods == nil {
		t.Fatalf("%s: there is no Deployment", where)
	}
	for name, o := range all {
		switch o := o.(type) {
		case *corev1.Service:
			if o.Spec.ClusterIP != "None" && !contains(pods, o.Spec.Selector) {
				t.Errorf("%s: %s selects %v, the pods have %v", where, name, o.Spec.Selector, pods)
			}
		case *monitoringv1.ServiceMonitor:
			found := false
			for _, s := range all {
				if s, ok := s.(*corev1.Service); ok && contains(s.Labels, o.Spec.Selector.MatchLabels) {
					found = true
					for _, e := range o.Spec.Endpoints {
						if !slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == e.Port }) {
							t.Errorf("%s: %s wants port %s, the Service has none of this name", where, name, e.Port)
						}
					}
				}
			}
			if !found {
				t.Errorf("%s: %s selects no Service", where, name)
			}
		}
	}
}

func contains(labels, selector map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return len(selector) > 0
}

func TestKustomize(t *testing.T) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(top, "examples/kubernetes"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := built.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	all := objects(t, "examples/kubernetes", string(text))
	checkWorkload(t, "examples/kubernetes", all)
	dashboards, ok := all["ConfigMap flink-lineage-dashboards"].(*corev1.ConfigMap)
	if !ok || len(dashboards.Data) != 3 || dashboards.Labels["grafana_dashboard"] != "1" {
		t.Errorf("the dashboards are not there as Grafana's sidecar wants them: %v", dashboards)
	}
	if rule, ok := all["PrometheusRule flink-lineage"].(*monitoringv1.PrometheusRule); !ok || len(rule.Spec.Groups) != 2 {
		t.Errorf("the rules are not there: %v", rule)
	}
}

// TestKubernetesFiles checks each file by itself, those too that the kustomization leaves out.
func TestKubernetesFiles(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(top, "examples/kubernetes/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal("no files: ", err)
	}
	for _, f := range files {
		if filepath.Base(f) != "kustomization.yaml" {
			if len(objects(t, f, read(t, f))) == 0 {
				t.Errorf("%s has no object", f)
			}
		}
	}
}

func TestStrictDecodingRefuses(t *testing.T) {
	for _, text := range []string{
		"apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {port: 1}\n",
		"apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata: {name: x}\nspec: {groups: [{name: g, rules: [{alert: a, express: up}]}]}\n",
	} {
		for _, newObject := range kinds {
			if err := yaml.UnmarshalStrict([]byte(text), newObject()); err == nil {
				t.Errorf("an unknown field is taken by %T: %s", newObject(), text)
			}
		}
	}
}

// values are the ways in which the chart is rendered.
var values = map[string]string{
	"defaults": "{}",
	"everything": `
flink: {urls: [http://a:8081, http://b:8081], credentialsSecret: flink}
extraArgs: [--threads.interval=2m]
imagePullSecrets: [{name: pull}]
nodeSelector: {disk: ssd}
tolerations: [{key: k, operator: Exists}]
podAnnotations: {a: b}
serviceMonitor: {enabled: true, labels: {release: prometheus}}
prometheusRule: {enabled: true, labels: {release: prometheus}}
`,
	"many clusters": `
config: {clusters: {orders: {flink_urls: ["http://a:8081"]}, payments: {flink_urls: ["http://b:8081"]}}}
serviceMonitor: {enabled: true}
`,
}

func TestHelm(t *testing.T) {
	loaded, err := loader.Load(chart)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range values {
		t.Run(name, func(t *testing.T) {
			given, err := chartutil.ReadValues([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range lint.All(chart, given, "flink", true).Messages {
				// Information is only that an icon is recommended.
				if m.Severity > 1 {
					t.Errorf("helm lint: %s", m)
				}
			}
			all, err := chartutil.ToRenderValues(loaded, given, chartutil.ReleaseOptions{Name: "lineage", Namespace: "flink"}, chartutil.DefaultCapabilities)
			if err != nil {
				t.Fatal(err)
			}
			rendered, err := engine.Engine{Strict: true}.Render(loaded, all)
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			for file, content := range rendered {
				if strings.HasSuffix(file, ".yaml") {
					fmt.Fprintf(&text, "\n---\n%s", content)
				}
			}
			found := objects(t, name, text.String())
			checkWorkload(t, name, found)
			var got []string
			for key := range found {
				got = append(got, key)
			}
			slices.Sort(got)
			if !slices.Equal(got, rendersTo[name]) {
				t.Errorf("renders to %v, want %v", got, rendersTo[name])
			}
			if probe, ok := found["Probe lineage-flink-lineage-exporter"].(*monitoringv1.Probe); ok &&
				!slices.Equal(probe.Spec.Targets.StaticConfig.Targets, []string{"orders", "payments"}) {
				t.Errorf("the Probe asks for %v", probe.Spec.Targets.StaticConfig.Targets)
			}
		})
	}
}

var rendersTo = map[string][]string{
	"defaults": {
		"Deployment lineage-flink-lineage-exporter", "Service lineage-flink-lineage-exporter",
		"Service lineage-flink-lineage-exporter-taskmanagers",
	},
	"everything": {
		"Deployment lineage-flink-lineage-exporter", "PrometheusRule lineage-flink-lineage-exporter",
		"Service lineage-flink-lineage-exporter", "Service lineage-flink-lineage-exporter-taskmanagers",
		"ServiceMonitor lineage-flink-lineage-exporter",
	},
	"many clusters": {
		"ConfigMap lineage-flink-lineage-exporter", "Deployment lineage-flink-lineage-exporter",
		"Probe lineage-flink-lineage-exporter", "Service lineage-flink-lineage-exporter",
	},
}

func TestMixin(t *testing.T) {
	vm := jsonnet.MakeVM()
	vm.Importer(&jsonnet.FileImporter{JPaths: []string{top}})
	text, err := vm.EvaluateAnonymousSnippet("test", `
local m = import 'mixin.libsonnet';
{
  alerts: [r.alert for g in m.prometheusAlerts.groups for r in g.rules],
  flinkOnly: [r.alert for g in m.flinkOnlyAlerts.groups for r in g.rules],
  dashboards: { [name]: m.grafanaDashboards[name].uid for name in std.objectFieldsAll(m.grafanaDashboards) },
}`)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Alerts, FlinkOnly []string
		Dashboards        map[string]string
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(got.Alerts, "FlinkLineageDuplicateExecution") || !slices.Contains(got.FlinkOnly, "FlinkReporterSubtaskTwice") {
		t.Errorf("alerts are %v and %v", got.Alerts, got.FlinkOnly)
	}
	files, err := filepath.Glob(filepath.Join(top, "dashboards/*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := filepath.Base(f)
		if got.Dashboards[name] != strings.TrimSuffix(name, ".json") {
			t.Errorf("dashboard %s has uid %q", name, got.Dashboards[name])
		}
	}
}

// exporter is the path of the exporter, built once.
var exporter string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "examples-")
	if err != nil {
		panic(err)
	}
	exporter = filepath.Join(dir, "flink-lineage-exporter")
	build := exec.Command("go", "build", "-C", top, "-o", exporter, ".")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// checkFlags checks that the exporter has each flag.
func checkFlags(t *testing.T, where string, args []string) {
	t.Helper()
	command := "serve"
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		command = args[0]
	}
	help, err := exec.Command(exporter, command, "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, help)
	}
	flag := regexp.MustCompile(`--(?:no-)?([a-z.-]+)`)
	for _, a := range args {
		if m := flag.FindStringSubmatch(a); m != nil && !regexp.MustCompile(`--(\[no-\])?`+regexp.QuoteMeta(m[1])+`\b`).Match(help) {
			t.Errorf("%s: %s has no flag --%s", where, command, m[1])
		}
	}
}

func TestFlagsAndClusters(t *testing.T) {
	compose := read(t, filepath.Join(top, "examples/compose/compose.yml"))
	var parsed struct {
		Services map[string]struct {
			Build   string
			Command []string
			Volumes []string
		}
	}
	if err := yaml.Unmarshal([]byte(compose), &parsed); err != nil {
		t.Fatal(err)
	}
	checkFlags(t, "compose.yml", parsed.Services["exporter"].Command)
	if _, err := os.Stat(filepath.Join(top, "examples/compose", parsed.Services["exporter"].Build, "Dockerfile")); err != nil {
		t.Error(err)
	}
	for name, s := range parsed.Services {
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":")
			if _, err := os.Stat(filepath.Join(top, "examples/compose", source)); err != nil {
				t.Errorf("service %s: %v", name, err)
			}
		}
	}
	flags := regexp.MustCompile(`--[^ "]+`).FindAllString(read(t, filepath.Join(top, "examples/systemd/flink-lineage-exporter.default")), -1)
	if len(flags) == 0 {
		t.Error("the file of flags for systemd has none")
	}
	checkFlags(t, "systemd", flags)
	out, err := exec.Command(exporter, "serve", "--config.file="+filepath.Join(top, "examples/clusters.yml"), "--config.check").CombinedOutput()
	if err != nil {
		t.Errorf("clusters.yml: %v\n%s", err, out)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
