package recording

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/flink-lineage/flink-lineage-exporter/internal/lineage"
)

// Anonymize replaces, in place, what tells whose cluster it was: names of jobs, vertices, operators, topics and options of users, hosts,
// addresses, TaskManager ids, paths, class and thread names that are neither the JVM's nor of a well-known project, and free text.
//
// One original has one replacement everywhere, in REST, in threads and their stacks and, sanitised, in the labels of reporters, so that
// the views still join. Kept are states, times, numbers, subtasks and attempts, the forms of ids, the way vertex names chain (" -> ",
// "Source: ", "Sink: "), and everything whose meaning Flink defines. What is not known to be harmless is replaced.
func Anonymize(r *Recording) {
	a := newAnonymizer()
	// Free text is searched for names that stand elsewhere; the first time only learns them.
	a.recording(r.clone())
	a.recording(r)
}

// anonymizer is what was replaced so far.
type anonymizer struct {
	// names has the replacement of each original, sanitised the same as labels have them.
	names, sanitised map[string]string
	// replacements are the values of names, so that nothing is replaced twice.
	replacements map[string]bool
	// count is the number of replacements of each kind.
	count map[string]int
	// known are the originals that are searched for in free text.
	known *words
	// frames and metricNames are lines of stacks and names of metrics that were met before: a cluster repeats them thousands of times.
	frames, metricNames map[string]string
}

func newAnonymizer() *anonymizer {
	return &anonymizer{
		names: map[string]string{}, sanitised: map[string]string{}, replacements: map[string]bool{}, count: map[string]int{},
		known: newWords(), frames: map[string]string{}, metricNames: map[string]string{},
	}
}

// remember returns what f made of a text the first time.
func remember(known map[string]string, text string, f func(string) string) string {
	replacement, ok := known[text]
	if !ok {
		replacement = f(text)
		known[text] = replacement
	}
	return replacement
}

// recording anonymizes all parts in a fixed order, so that equal recordings get equal replacements.
func (a *anonymizer) recording(r *Recording) {
	for i := range r.JobManagers {
		r.JobManagers[i].URL = a.urls(r.JobManagers[i].URL)
	}
	for i := range r.TaskManagers {
		r.TaskManagers[i].MetricsURL = a.urls(r.TaskManagers[i].MetricsURL)
	}
	for i := range r.JobManagers {
		jm := &r.JobManagers[i]
		responses := make(map[string]Response, len(jm.Responses))
		for _, path := range slices.Sorted(maps.Keys(jm.Responses)) {
			resp := jm.Responses[path]
			resp.Body = a.body(path, resp)
			responses[a.responsePath(path)] = resp
		}
		jm.Responses = responses
	}
	for i := range r.TaskManagers {
		tm := &r.TaskManagers[i]
		if tm.Status == 0 {
			tm.Metrics = a.text(tm.Metrics)
		} else {
			tm.Metrics = a.metrics(tm.Metrics)
		}
	}
	r.FlinkVersion = version(r.FlinkVersion)
	r.Scenario = a.text(r.Scenario)
	r.Note = a.text(r.Note)
}

// responsePath anonymizes the ids in a path of the REST API.
func (a *anonymizer) responsePath(path string) string {
	id, ok := strings.CutPrefix(path, "/taskmanagers/")
	if !ok {
		return a.ids(path)
	}
	id, dump := strings.CutSuffix(id, "/thread-dump")
	path = "/taskmanagers/" + a.taskManager(id)
	if dump {
		path += "/thread-dump"
	}
	return path
}

// name returns the replacement of an original, a new one of this kind if it has none yet.
func (a *anonymizer) name(kind, original string) string {
	if original == "" || a.replacements[original] {
		return original
	}
	if replacement, ok := a.names[original]; ok {
		return replacement
	}
	a.count[kind]++
	// The x is there because nobody calls anything so.
	replacement := fmt.Sprintf("%s-x%d", kind, a.count[kind])
	a.learn(original, replacement)
	if len(original) >= 4 && !looseKinds[kind] {
		a.search(original, replacement)
	}
	return replacement
}

// looseKinds are kinds whose originals are no names, or too often ordinary words, to be searched for in free text.
var looseKinds = map[string]bool{"message": true, "path": true, "option": true, "thread": true, "label": true}

// learn sets the replacement of an original.
func (a *anonymizer) learn(original, replacement string) {
	a.names[original] = replacement
	a.replacements[replacement] = true
	if _, ok := a.sanitised[lineage.Sanitize(original)]; !ok {
		a.sanitised[lineage.Sanitize(original)] = lineage.Sanitize(replacement)
	}
}

// search makes an original one that is searched for in free text.
func (a *anonymizer) search(original, replacement string) {
	a.known.add(original, replacement)
	a.known.add(lineage.Sanitize(original), lineage.Sanitize(replacement))
}

// host anonymizes a host name or address. Addresses become ones of the ranges set aside for benchmarks and documentation.
func (a *anonymizer) host(h string) string {
	if h == "" || h == "(unassigned)" || h == "0.0.0.0" || h == "::" || a.replacements[h] {
		return h
	}
	if replacement, ok := a.names[h]; ok {
		return replacement
	}
	addr, err := netip.ParseAddr(strings.Trim(h, "[]"))
	if err != nil {
		return a.name("host", h)
	}
	n := a.count["address"]
	a.count["address"]++
	replacement := fmt.Sprintf("198.18.%d.%d", n/250%256, n%250+1)
	if addr.Is6() {
		replacement = fmt.Sprintf("2001:db8::%x", n+1)
		if strings.HasPrefix(h, "[") {
			replacement = "[" + replacement + "]"
		}
	}
	a.learn(h, replacement)
	a.search(h, replacement)
	return replacement
}

// hostPort anonymizes the host of host:port, or a host alone.
func (a *anonymizer) hostPort(s string) string {
	if m := hostPortPattern.FindStringSubmatch(s); m != nil {
		return a.host(m[1]) + m[2]
	}
	return a.host(s)
}

// taskManager anonymizes a TaskManager id, HOST:PORT-RANDOM or a name, as of a pod.
func (a *anonymizer) taskManager(id string) string {
	if replacement, ok := a.names[id]; ok {
		return replacement
	}
	m := taskManagerPattern.FindStringSubmatch(id)
	if m == nil {
		return a.name("taskmanager", id)
	}
	replacement := a.host(m[1]) + m[2]
	if replacement != id {
		a.learn(id, replacement)
		a.search(id, replacement)
	}
	return replacement
}

var (
	hostPortPattern    = regexp.MustCompile(`^(.+)(:\d{1,5})$`)
	taskManagerPattern = regexp.MustCompile(`^(.+)(:\d{1,5}-[0-9a-f]{6,})$`)
	idPattern          = regexp.MustCompile(`[0-9a-f]{32,}`)
	uuidPattern        = regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	addressPattern     = regexp.MustCompile(`\b\d{1,3}(?:\.\d{1,3}){3}\b`)
	address6Pattern    = regexp.MustCompile(`[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}`)
	urlPattern         = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*)://([^\s/"'<>,;?#)\]]*)([^\s"'<>,;)\]]*)`)
	// host:port of a host with a name. The line of a Java file looks the same.
	textHostPattern = regexp.MustCompile(`\b((?:[A-Za-z0-9_-]+\.)*[A-Za-z][A-Za-z0-9_-]*)(:\d{2,5})\b`)
	// A path of at least one segment, not within a word or another path.
	textPathPattern = regexp.MustCompile(`(^|[\s"'=(\[,;:])(/[^\s/"'<>,;:)\]][^\s"'<>,;:)\]]*)`)
)

// ids anonymizes ids of 32 hexadecimal digits, alone or as parts of an attempt id, and UUIDs. That of all zeros says nothing and stays.
func (a *anonymizer) ids(t string) string {
	t = idPattern.ReplaceAllStringFunc(t, func(id string) string {
		if len(id) != 32 || strings.Trim(id, "0") == "" {
			return id
		}
		return a.id(id)
	})
	return uuidPattern.ReplaceAllStringFunc(t, func(uuid string) string {
		id := a.id(strings.ReplaceAll(uuid, "-", ""))
		return strings.Join([]string{id[:8], id[8:12], id[12:16], id[16:20], id[20:]}, "-")
	})
}

func (a *anonymizer) id(id string) string {
	if a.replacements[id] {
		return id
	}
	if replacement, ok := a.names[id]; ok {
		return replacement
	}
	a.count["id"]++
	sum := sha256.Sum256([]byte(fmt.Sprintf("id %d", a.count["id"])))
	replacement := hex.EncodeToString(sum[:16])
	a.learn(id, replacement)
	return replacement
}

// text anonymizes what it finds in free text that is to be kept.
func (a *anonymizer) text(t string) string {
	t = a.urls(t)
	t = a.known.replace(t)
	t = replaceGroups(textPathPattern, t, func(g []string) string { return g[1] + a.path(g[2]) })
	t = a.ids(t)
	t = a.classes(t)
	t = addressPattern.ReplaceAllStringFunc(t, a.addressInText)
	t = address6Pattern.ReplaceAllStringFunc(t, a.addressInText)
	return replaceGroups(textHostPattern, t, func(g []string) string {
		if javaFile(g[1]) || a.replacements[g[1]] {
			return g[0]
		}
		return a.host(g[1]) + g[2]
	})
}

// addressInText anonymizes numbers with dots or colons if they are an address.
func (a *anonymizer) addressInText(s string) string {
	if _, err := netip.ParseAddr(s); err != nil {
		return s
	}
	return a.host(s)
}

// urls anonymizes the URLs in a text. Actor systems keep user and path, which Flink makes.
func (a *anonymizer) urls(t string) string {
	if !strings.Contains(t, "://") {
		return t
	}
	return replaceGroups(urlPattern, t, func(g []string) string {
		scheme, authority, rest := g[1], g[2], g[3]
		user, host, found := strings.Cut(authority, "@")
		if !found {
			user, host = "", authority
		}
		actor := strings.HasPrefix(scheme, "akka") || strings.HasPrefix(scheme, "pekko")
		if found {
			if !actor {
				user = a.name("value", user)
			}
			user += "@"
		}
		if actor {
			// Without an @ the authority is the name of the actor system.
			if found {
				host = a.hostPort(host)
			}
			return scheme + "://" + user + host + rest
		}
		path, query, hasQuery := strings.Cut(rest, "?")
		out := scheme + "://" + user + a.hostPort(host) + a.path(path)
		if hasQuery {
			out += "?" + a.name("value", query)
		}
		return out
	})
}

// version keeps the numbers of a Flink version, and that it is a private build.
func version(v string) string {
	m := versionPattern.FindStringSubmatch(v)
	if m == nil {
		return ""
	}
	if m[2] != "" && m[2] != "-SNAPSHOT" {
		return m[1] + "-x"
	}
	return v
}

var versionPattern = regexp.MustCompile(`^(\d+(?:\.\d+)*)(.*)$`)
