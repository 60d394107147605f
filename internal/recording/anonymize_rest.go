package recording

import (
	"encoding/json"
	"html"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// body anonymizes an answer of the REST API.
func (a *anonymizer) body(path string, resp Response) json.RawMessage {
	v, err := decode(resp.Body)
	if err != nil {
		return text("")
	}
	switch v := v.(type) {
	case string:
		// What went wrong with the connection, or a page of something that is no Flink.
		if resp.Status == 0 {
			return text(a.text(v))
		}
		return text(a.name("message", v))
	case []any:
		if path == "/jobmanager/config" {
			a.options(v)
			break
		}
		a.value(path, "", v)
	case map[string]any:
		switch {
		case path == "/jobmanager/environment" && resp.Status == http.StatusOK:
			a.environment(v)
		case strings.HasSuffix(path, "/thread-dump") && resp.Status == http.StatusOK:
			a.dump(v)
		default:
			a.object(path, v)
		}
	}
	out, err := encode(v)
	if err != nil {
		return text("")
	}
	return out
}

// object anonymizes the members of an object, and its keys where they are ids.
func (a *anonymizer) object(path string, o map[string]any) {
	_, isJob := o["jid"]
	for _, key := range slices.Sorted(maps.Keys(o)) {
		member := o[key]
		switch options, isObject := member.(map[string]any); {
		case key == "user-config" && isObject:
			o[key] = a.userConfig(options)
			continue
		case key == "failureLabels" && isObject:
			o[key] = a.userConfig(options)
			continue
		}
		if name, ok := member.(string); ok && key == "name" && isJob {
			o[key] = a.name("job", name)
			continue
		}
		delete(o, key)
		o[a.ids(key)] = a.value(path, key, member)
	}
}

// value anonymizes the value of a member.
func (a *anonymizer) value(path, key string, v any) any {
	switch v := v.(type) {
	case string:
		return a.field(path, key, v)
	case []any:
		for i := range v {
			v[i] = a.value(path, key, v[i])
		}
	case map[string]any:
		a.object(path, v)
	}
	return v
}

// plainKeys are members whose values Flink defines.
var plainKeys = map[string]bool{
	"arch": true, "caching": true, "changelog_storage": true, "checkpoint_type": true, "className": true, "exchange": true,
	"execution-mode": true, "flink-commit": true, "flink-revision": true, "job-type": true, "jobType": true, "local_strategy": true,
	"mode": true, "savepointFormat": true, "schedulerType": true, "ship_strategy": true, "state": true, "status": true,
	"timezone-name": true, "type": true,
}

// field anonymizes a text by the member whose value it is.
func (a *anonymizer) field(path, key, s string) string {
	switch key {
	case "id", "jid", "jobId", "application-id", "slotSharingGroupId":
		if id := a.ids(s); id != s || len(s) == 32 && strings.Trim(s, "0") == "" {
			return id
		}
		if strings.HasPrefix(path, "/taskmanagers") {
			return a.taskManager(s)
		}
		return a.name("value", s)
	case "taskmanager-id", "taskManagerId":
		if s == "(unassigned)" {
			return s
		}
		return a.taskManager(s)
	case "host", "endpoint", "location":
		return a.hostPort(s)
	case "name":
		// Only garbage collectors have names there.
		if strings.HasPrefix(path, "/taskmanagers") {
			return s
		}
		return a.vertex(s)
	case "path":
		return a.urls(s)
	case "description":
		return a.description(s)
	case "operator":
		return a.operator(s)
	case "task", "taskName":
		return a.task(s)
	case "errors", "exception", "root-exception", "stacktrace", "failure_message":
		return a.exception(s)
	case "exceptionName":
		return a.class(s)
	case "external_path":
		return a.option(key, s)
	case "checkpoint_storage", "state_backend":
		if strings.Contains(s, ".") {
			return a.class(s)
		}
		return s
	case "flink-version":
		return version(s)
	case "restart-strategy":
		if restartPattern.MatchString(s) {
			return s
		}
	}
	if plainKeys[key] {
		return s
	}
	return a.option(key, s)
}

var (
	// How Flink describes its restart strategies.
	restartPattern = regexp.MustCompile(`^(Restarts? with |Cluster level default |Restart deactivated|No restart|Failure rate|Exponential)`)
	// A task's name and what may follow it: the attempt, in one of two ways, and its id.
	taskPattern       = regexp.MustCompile(`(?s)^(.*)( \(\d+/\d+\)(?:#\d+)?(?: - execution #\d+)?)( \([0-9a-f_]+\)\.?)?$`)
	vertexIndex       = regexp.MustCompile(`^\[vertex-\d+\]`)
	treePattern       = regexp.MustCompile(`^[ :|]*(?:[+:]- )?`)
	operatorPrefixes  = []string{"Source: ", "Sink: "}
	operatorSuffixes  = []string{": Writer", ": Committer", ": Global Committer"}
	maxOperatorLength = 80
)

// task anonymizes the name of a task, VERTEX (i/n).
func (a *anonymizer) task(s string) string {
	m := taskPattern.FindStringSubmatch(s)
	if m == nil {
		return a.vertex(s)
	}
	return a.vertex(m[1]) + m[2] + a.ids(m[3])
}

// vertex anonymizes the name of a vertex: its operators, but not how they are chained.
func (a *anonymizer) vertex(name string) string {
	if replacement, ok := a.names[name]; ok {
		return replacement
	}
	if name == "" || a.replacements[name] {
		return name
	}
	index := vertexIndex.FindString(name)
	parts := strings.Split(strings.TrimPrefix(name, index), " -> ")
	for i, part := range parts {
		parts[i] = a.chained(part)
	}
	replacement := index + strings.Join(parts, " -> ")
	if replacement != name {
		a.learn(name, replacement)
		if len(name) >= 4 {
			a.search(name, replacement)
		}
	}
	return replacement
}

// chained anonymizes the operators between two arrows. Where a chain branches, they are several, in parentheses that may open here and
// close elsewhere: "A -> (B, C -> D)".
func (a *anonymizer) chained(part string) string {
	rest := strings.TrimLeft(part, "(")
	var out strings.Builder
	out.WriteString(part[:len(part)-len(rest)])
	depth, begin := 0, 0
	for i := 0; i < len(rest); i++ {
		separator := ""
		switch c := rest[i]; {
		case c == '(' || c == '[' || c == '{':
			depth++
		case depth > 0 && (c == ')' || c == ']' || c == '}'):
			depth--
		case depth == 0 && c == ')':
			separator = ")"
		case depth == 0 && strings.HasPrefix(rest[i:], ", "):
			separator = ", "
		}
		if separator != "" {
			out.WriteString(a.operator(rest[begin:i]) + separator)
			begin = i + len(separator)
			i = begin - 1
		}
	}
	out.WriteString(a.operator(rest[begin:]))
	return out.String()
}

// operator anonymizes the name of an operator, but not that it is a source or a sink.
func (a *anonymizer) operator(name string) string {
	if replacement, ok := a.names[name]; ok {
		return replacement
	}
	core, prefix, suffix := name, "", ""
	for _, p := range operatorPrefixes {
		if c, ok := strings.CutPrefix(core, p); ok {
			core, prefix = c, p
			break
		}
	}
	for _, s := range operatorSuffixes {
		if c, ok := strings.CutSuffix(core, s); ok {
			core, suffix = c, s
			break
		}
	}
	replacement := prefix + a.name("operator", core) + suffix
	if replacement == name {
		return name
	}
	if core != name {
		a.learn(name, replacement)
	}
	// Flink cuts the names of operators in metrics.
	if len(name) > maxOperatorLength {
		if cut := name[:maxOperatorLength]; a.names[cut] == "" {
			a.learn(cut, replacement)
		}
	}
	return replacement
}

// description anonymizes the tree of operators in a node of the plan, which is HTML with a line for each.
func (a *anonymizer) description(s string) string {
	lines := strings.Split(s, "<br/>")
	for i, line := range lines {
		tree := treePattern.FindString(line)
		lines[i] = tree + html.EscapeString(a.operator(html.UnescapeString(line[len(tree):])))
	}
	return strings.Join(lines, "<br/>")
}
