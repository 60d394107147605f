package recording

import (
	"regexp"
	"strings"

	"github.com/flink-lineage/flink-lineage-exporter/internal/lineage"
)

// metrics anonymizes a reporter's answer in Prometheus' text format.
func (a *anonymizer) metrics(t string) string {
	raw := unfiltered(t)
	// The same labels stand in many lines.
	labels := map[string]string{}
	lines := strings.Split(t, "\n")
	kept := lines[:0]
	for _, line := range lines {
		switch {
		case line == "" || line == "# EOF":
			kept = append(kept, line)
		case strings.HasPrefix(line, "#"):
			if m := metaPattern.FindStringSubmatch(line); m != nil {
				kept = append(kept, a.meta(m))
			}
		default:
			if sample, ok := a.sample(line, func(label string) string {
				return remember(labels, label, func(string) string { return a.label(label, raw) })
			}); ok {
				kept = append(kept, sample)
			}
		}
	}
	return strings.Join(kept, "\n")
}

var (
	metaPattern  = regexp.MustCompile(`^# (HELP|TYPE|UNIT) ([a-zA-Z_:][a-zA-Z0-9_:]*) ?(.*)$`)
	countPattern = regexp.MustCompile(`^(.*?)(_count|_sum|_bucket|_total)?$`)
	// The value, and a timestamp if there is one.
	numbersPattern = regexp.MustCompile(`^\s+[0-9A-Za-z.+-]+(?:\s+-?\d+)?\s*$`)
)

// sample anonymizes a line of a metric, NAME{KEY="VALUE",...} NUMBER, with a function for KEY="VALUE". A line of another form is dropped.
func (a *anonymizer) sample(line string, label func(string) string) (string, bool) {
	end := 0
	for end < len(line) && (isWord(line[end]) || line[end] == ':') {
		end++
	}
	var out strings.Builder
	out.WriteString(a.metricName(line[:end]))
	rest := line[end:]
	if strings.HasPrefix(rest, "{") {
		out.WriteByte('{')
		rest = rest[1:]
		for !strings.HasPrefix(rest, "}") {
			n := labelLength(rest)
			if n == 0 {
				return "", false
			}
			out.WriteString(label(rest[:n]))
			rest = rest[n:]
			if strings.HasPrefix(rest, ",") {
				out.WriteByte(',')
				rest = rest[1:]
			}
		}
		out.WriteByte('}')
		rest = rest[1:]
	}
	out.WriteString(rest)
	return out.String(), end > 0 && numbersPattern.MatchString(rest)
}

// labelLength returns the length of KEY="VALUE" at the beginning of a text, 0 if there is none.
func labelLength(t string) int {
	end := 0
	for end < len(t) && isWord(t[end]) {
		end++
	}
	if end == 0 || !strings.HasPrefix(t[end:], `="`) {
		return 0
	}
	for end += 2; end < len(t); end++ {
		switch t[end] {
		case '\\':
			end++
		case '"':
			return end + 1
		}
	}
	return 0
}

// unfiltered is whether the values of labels are as they were (filterLabelValueCharacters: false) and not sanitised: then some name has
// a character that sanitising replaces.
func unfiltered(t string) bool {
	for _, label := range []string{`tm_id="`, `host="`, `job_name="`, `task_name="`} {
		for rest, found := t, true; found; {
			if _, rest, found = strings.Cut(rest, label); found {
				value, _, _ := strings.Cut(rest, `"`)
				if lineage.Sanitize(value) != value {
					return true
				}
			}
		}
	}
	return false
}

// meta anonymizes a comment on a metric. The help of a metric has its name as the program wrote it.
func (a *anonymizer) meta(m []string) string {
	name := a.metricName(m[2])
	if m[1] == "HELP" && name != m[2] {
		return "# HELP " + name + " " + name
	}
	return "# " + m[1] + " " + name + " " + m[3]
}

var (
	scopePattern = regexp.MustCompile(`^flink_(?:taskmanager_job_task_operator|taskmanager_job_task|taskmanager_job|taskmanager|jobmanager_job|jobmanager)_`)
	// What Flink, its connectors and Beam's runner measure. Anything else is a metric of the user's program.
	plainMetricPattern = regexp.MustCompile(`^(?:Status_\w+|Shuffle_\w+|buffers_\w+|accumulate\w+TimeMs|\w*[bB]ackPressured\w*|max(?:Hard|Soft)BackPressureTimeMs|` +
		`(?:busy|idle|changelogBusy)TimeMsPerSecond|checkpoint(?:AlignmentTime|StartDelayNanos)|current(?:Input\d*|Output)Watermark|` +
		`current(?:Emit|Fetch)EventTimeLag|currentSendTime|initializationTime|mailbox(?:LatencyMs|MailsPerSecond|QueueSize)|` +
		`num(?:Records|Bytes)(?:In|Out|Send)(?:Local|Remote)?(?:PerSecond|Errors)?|numBuffers(?:In|Out)(?:Local|Remote)?(?:PerSecond)?|` +
		`numFiredTimers(?:PerSecond)?|numLateRecordsDropped|numSplitsProcessed|numRestarts|num(?:RegisteredTaskManagers|RunningJobs)|taskSlots(?:Available|Total)|` +
		`(?:last|total|number)\w*Checkpoint\w*|(?:created|restarting|failing|cancelling|running|initializing|deploying)(?:Time|TimeTotal|State)?|uptime|downtime|fullRestarts|` +
		`pending(?:Bytes|Records)|recordsLag\w*|sourceIdleTime|source_(?:splits_\d+_)?(?:bytes|elements)_(?:read|backlog)|split_watermark_\w+|watermarkLag|watermarkAlignmentDrift|` +
		`KafkaSourceReader_\w+|KafkaConsumer_\w+|KafkaProducer_\w+|org_apache_(?:beam|flink|kafka)_\w+)$`)
	// Beam's KafkaIO names a metric by the topic and partition it reads.
	rawSizePattern     = regexp.MustCompile(`^(KafkaIOReader_rawSize_)(.+)(_\d+)$`)
	otherMetricPattern = regexp.MustCompile(`^(?:jvm|process|prometheus)_`)
)

// metricName anonymizes the name of a metric of a user's program.
func (a *anonymizer) metricName(name string) string {
	return remember(a.metricNames, name, a.newMetricName)
}

func (a *anonymizer) newMetricName(name string) string {
	if otherMetricPattern.MatchString(name) {
		return name
	}
	scope := scopePattern.FindString(name)
	c := countPattern.FindStringSubmatch(name[len(scope):])
	base, suffix := c[1], c[2]
	if scope != "" && (plainMetricPattern.MatchString(base) || plainMetricPattern.MatchString(base+suffix)) {
		return name
	}
	if m := rawSizePattern.FindStringSubmatch(base); m != nil {
		return scope + m[1] + a.sanitisedName("value", m[2]) + m[3] + suffix
	}
	m := threadTailPattern.FindStringSubmatch(base)
	return scope + a.sanitisedName("metric", m[1]) + m[2] + suffix
}

// plainLabels are labels that Flink and its connectors set.
var plainLabels = wordSet(`host tm_id job_id job_name task_id task_name task_attempt_id task_attempt_num subtask_index operator_id operator_name
	quantile le split topic partition client_id`)

// label anonymizes a label, KEY="VALUE", raw or as the reporter sanitised it.
func (a *anonymizer) label(label string, raw bool) string {
	key, value, _ := strings.Cut(label, "=")
	value = value[1 : len(value)-1]
	if !plainLabels[key] {
		key = a.sanitisedName("label", key)
	}
	if raw {
		value = labelEscape.Replace(a.rawLabel(key, labelUnescape.Replace(value)))
	} else {
		value = a.sanitisedLabel(key, value)
	}
	return key + `="` + value + `"`
}

var (
	labelEscape   = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	labelUnescape = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n")
)

// rawLabel anonymizes the value of a label that is as Flink set it.
func (a *anonymizer) rawLabel(key, value string) string {
	switch key {
	case "quantile", "le":
		return value
	case "host":
		return a.host(value)
	case "tm_id":
		return a.taskManager(value)
	case "job_name":
		return a.name("job", value)
	case "task_name":
		return a.vertex(value)
	case "operator_name":
		return a.operator(value)
	case "job_id", "task_id", "operator_id", "task_attempt_id":
		return a.ids(value)
	}
	return a.option("", value)
}

var (
	sanitisedIDPattern      = regexp.MustCompile(`^(.+)(:\d{1,5}_[0-9a-f]{6,})$`)
	sanitisedAddressPattern = regexp.MustCompile(`^\d{1,3}(?:_\d{1,3}){3}$`)
)

// sanitisedLabel anonymizes the value of a label that the reporter sanitised: what REST has in full is found by its sanitised form.
func (a *anonymizer) sanitisedLabel(key, value string) string {
	switch key {
	case "quantile", "le":
		return value
	case "job_id", "task_id", "operator_id", "task_attempt_id":
		return a.ids(value)
	}
	if replacement, ok := a.sanitised[value]; ok {
		return replacement
	}
	switch key {
	case "host":
		return a.sanitisedHost(value)
	case "tm_id":
		if m := sanitisedIDPattern.FindStringSubmatch(value); m != nil {
			return a.sanitisedHost(m[1]) + m[2]
		}
		return a.sanitisedName("taskmanager", value)
	case "job_name":
		return a.sanitisedName("job", value)
	case "task_name":
		// " -> " sanitised.
		parts := strings.Split(value, "____")
		for i, part := range parts {
			parts[i] = a.sanitisedOperator(part)
		}
		return strings.Join(parts, "____")
	case "operator_name":
		return a.sanitisedOperator(value)
	}
	return lineage.Sanitize(a.option("", value))
}

// sanitisedName is name for an original that is known in its sanitised form only.
func (a *anonymizer) sanitisedName(kind, original string) string {
	if replacement, ok := a.sanitised[original]; ok {
		return replacement
	}
	return lineage.Sanitize(a.name(kind, original))
}

func (a *anonymizer) sanitisedHost(h string) string {
	if replacement, ok := a.sanitised[h]; ok {
		return replacement
	}
	if sanitisedAddressPattern.MatchString(h) {
		return lineage.Sanitize(a.host(strings.ReplaceAll(h, "_", ".")))
	}
	return lineage.Sanitize(a.host(h))
}

func (a *anonymizer) sanitisedOperator(name string) string {
	if replacement, ok := a.sanitised[name]; ok {
		return replacement
	}
	for _, prefix := range operatorPrefixes {
		if core, ok := strings.CutPrefix(name, lineage.Sanitize(prefix)); ok {
			return lineage.Sanitize(prefix) + a.sanitisedName("operator", core)
		}
	}
	return a.sanitisedName("operator", name)
}
