package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	promconfig "github.com/prometheus/common/config"
	"go.yaml.in/yaml/v3"
)

// maxFileSize is far above any real file: it keeps a wrong path from filling the memory.
const maxFileSize = 16 << 20

// syntaxError is what the yaml package says about a file that is not YAML.
var syntaxError = regexp.MustCompile(`(?s)^yaml: (?:line (\d+): )?(.*)$`)

// Load reads the file of --config.file:
//
//	defaults:            # optional: what every cluster has unless it says otherwise, field by field
//	  timeout: 10s
//	clusters:
//	  NAME:              # /probe?target=NAME
//	    flink_urls: [http://jobmanager-1:8081, http://jobmanager-2:8081]
//
// The fields of a cluster are those of Cluster. Unknown fields, values of the wrong kind and secrets inside the file are
// errors, all of them are reported, each as FILE:LINE: FIELD: TEXT. Relative paths are relative to the file's directory;
// nothing in the file is expanded. The files it names must be readable.
func Load(path string) (*Config, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	cfg, d := parse(data, filepath.Dir(path))
	if len(d.problems) == 0 {
		d.checkFiles(cfg)
	}
	if len(d.problems) == 0 {
		return cfg, nil
	}
	slices.SortStableFunc(d.problems, func(a, b problem) int { return cmp.Or(a.line-b.line, strings.Compare(a.path, b.path)) })
	errs := make([]error, len(d.problems))
	for i, p := range d.problems {
		text := p.text
		if p.path != "" {
			text = p.path + ": " + text
		}
		errs[i] = fmt.Errorf("%s:%d: %s", path, max(p.line, 1), text)
	}
	return nil, errors.Join(errs...)
}

func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFileSize+1))
	if err == nil && len(data) > maxFileSize {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxFileSize)
	}
	return data, err
}

// parse reads a configuration whose relative paths are relative to dir. It is good if the decoder has no problems.
func parse(data []byte, dir string) (*Config, *decoder) {
	d := &decoder{lines: map[string]int{}}
	root, err := parseYAML(data)
	if err != nil {
		d.problems = append(d.problems, *err)
		return nil, d
	}
	d.check(root, "")
	if len(d.problems) > 0 {
		return nil, d
	}
	sections := map[string]*yaml.Node{}
	for i := 0; i < len(root.Content); i += 2 {
		key := root.Content[i]
		if key.Value != "defaults" && key.Value != "clusters" {
			d.addf(key, key.Value, "unknown field, known are clusters, defaults")
		}
		sections[key.Value] = root.Content[i+1]
	}
	clusters := sections["clusters"]
	if clusters == nil || clusters.Kind != yaml.MappingNode || len(clusters.Content) == 0 {
		if clusters == nil {
			clusters = root
		}
		d.addf(clusters, "clusters", "missing, name each cluster and its flink_urls")
		return nil, d
	}
	d.decodeDefaults(sections["defaults"])

	cfg := &Config{Clusters: map[string]Cluster{}}
	for i := 0; i < len(clusters.Content); i += 2 {
		name := clusters.Content[i].Value
		cluster := d.decodeCluster(clusters.Content[i], clusters.Content[i+1], sections["defaults"])
		cluster.setDirectory(dir)
		cfg.Clusters[name] = cluster
	}
	return cfg, d
}

// parseYAML returns the mapping that the one document in data is.
func parseYAML(data []byte) (*yaml.Node, *problem) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	if err := decoder.Decode(&document); err != nil && !errors.Is(err, io.EOF) {
		return nil, syntaxProblem(err)
	}
	if document.Kind != yaml.DocumentNode || document.Content[0].Kind != yaml.MappingNode {
		return nil, &problem{line: document.Line, text: "want a mapping with the sections clusters and, optionally, defaults"}
	}
	var second yaml.Node
	switch err := decoder.Decode(&second); {
	case errors.Is(err, io.EOF):
		return document.Content[0], nil
	case err != nil:
		return nil, syntaxProblem(err)
	default:
		return nil, &problem{line: second.Line, text: "a second YAML document, want one"}
	}
}

func syntaxProblem(err error) *problem {
	match := syntaxError.FindStringSubmatch(err.Error())
	if match == nil {
		return &problem{text: err.Error()}
	}
	line, _ := strconv.Atoi(match[1]) // no line: 0, which Load shows as the first one
	return &problem{line: line, text: "not valid YAML: " + match[2]}
}

// decodeDefaults reports what is wrong with the section defaults itself, before clusters inherit from it.
func (d *decoder) decodeDefaults(defaults *yaml.Node) {
	if defaults == nil {
		return
	}
	cluster := Default()
	d.decode(defaults, reflect.ValueOf(&cluster), "defaults")
	if line, ok := d.lines["defaults.flink_urls"]; ok {
		d.problems = append(d.problems, problem{line, "defaults.flink_urls", "two clusters cannot be the same one, give each its own"})
	}
}

// decodeCluster decodes the cluster of that name over the defaults, which are read anew each time so that no two
// clusters share a map or pointer, and validates it.
func (d *decoder) decodeCluster(name, node, defaults *yaml.Node) Cluster {
	path := join("clusters", name.Value)
	cluster := Default()
	cluster.Name = name.Value
	if strings.TrimSpace(name.Value) == "" {
		d.addf(name, path, "a cluster needs a name")
	}
	if defaults != nil {
		again := decoder{lines: map[string]int{}} // its problems are known
		again.decode(defaults, reflect.ValueOf(&cluster), "defaults")
	}
	replaceAuthentication(&cluster.HTTP, child(node, "http"))
	replaceAuthentication(&cluster.TaskManagers.HTTP, child(child(node, "taskmanagers"), "http"))
	before := len(d.problems)
	d.decode(node, reflect.ValueOf(&cluster), path)
	d.lines[path] = name.Line
	if len(d.problems) > before {
		return cluster
	}
	for _, err := range cluster.validate() {
		d.problems = append(d.problems, problem{d.lineOf(path, err.Field), join(path, err.Field), err.Err.Error()})
	}
	return cluster
}

// checkFiles reports the files that a good configuration names and that cannot be used.
func (d *decoder) checkFiles(cfg *Config) {
	for name, cluster := range cfg.Clusters {
		path := join("clusters", name)
		for _, err := range cluster.checkFiles() {
			d.problems = append(d.problems, problem{d.lineOf(path, err.Field), join(path, err.Field), err.Err.Error()})
		}
	}
}

// lineOf returns the line where the field of a cluster, or else the innermost section around it, is given: by the
// cluster itself if it is there, by the defaults otherwise.
func (d *decoder) lineOf(cluster, field string) int {
	for field != "" {
		for _, section := range []string{cluster, "defaults"} {
			if line, ok := d.lines[join(section, field)]; ok {
				return line
			}
		}
		field = field[:max(strings.LastIndexAny(field, ".["), 0)]
	}
	return d.lines[cluster]
}

// replaceAuthentication drops the inherited ways to authenticate if node, a cluster's own section, names another one:
// only one of them can be used.
func replaceAuthentication(c *promconfig.HTTPClientConfig, node *yaml.Node) {
	own := map[string]bool{}
	for _, way := range []string{"basic_auth", "authorization", "oauth2", "bearer_token_file"} {
		own[way] = child(node, way) != nil
	}
	if !own["basic_auth"] && !own["authorization"] && !own["oauth2"] && !own["bearer_token_file"] {
		return
	}
	if !own["basic_auth"] {
		c.BasicAuth = nil
	}
	if !own["authorization"] {
		c.Authorization = nil
	}
	if !own["oauth2"] {
		c.OAuth2 = nil
	}
	if !own["bearer_token_file"] {
		c.BearerTokenFile = ""
	}
}

// child returns the value of a key of a mapping; nil if node is no mapping or has no such key.
func child(node *yaml.Node, key string) *yaml.Node {
	if node == nil || node.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i < len(node.Content); i += 2 {
		if node.Content[i].Value == key {
			return node.Content[i+1]
		}
	}
	return nil
}

// setDirectory makes relative paths relative to dir.
func (c *Cluster) setDirectory(dir string) {
	c.HTTP.SetDirectory(dir)
	c.TaskManagers.HTTP.SetDirectory(dir)
	for i, file := range c.TaskManagers.MetricsFiles {
		c.TaskManagers.MetricsFiles[i] = promconfig.JoinDir(dir, file)
	}
	c.Kafka.TLS.SetDirectory(dir)
	c.Kafka.SASL.PasswordFile = promconfig.JoinDir(dir, c.Kafka.SASL.PasswordFile)
}
