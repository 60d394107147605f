package recording

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// options anonymizes /jobmanager/config.
func (a *anonymizer) options(list []any) {
	for _, element := range list {
		option, ok := element.(map[string]any)
		if !ok {
			continue
		}
		key, _ := option["key"].(string)
		if value, ok := option["value"].(string); ok {
			option["value"] = a.option(key, value)
		}
		option["key"] = a.optionKey(key)
	}
}

// userConfig anonymizes the options that a job's program sets, names included.
func (a *anonymizer) userConfig(options map[string]any) map[string]any {
	out := make(map[string]any, len(options))
	for _, key := range slices.Sorted(maps.Keys(options)) {
		value := options[key]
		if s, ok := value.(string); ok {
			value = a.option(key, s)
		}
		out[a.optionKey(key)] = value
	}
	return out
}

// environment anonymizes /jobmanager/environment.
func (a *anonymizer) environment(v map[string]any) {
	if classpath, ok := v["classpath"].([]any); ok {
		for i := range classpath {
			if s, ok := classpath[i].(string); ok {
				classpath[i] = a.path(s)
			}
		}
	}
	jvm, _ := v["jvm"].(map[string]any)
	if options, ok := jvm["options"].([]any); ok {
		for i := range options {
			if s, ok := options[i].(string); ok {
				options[i] = a.jvmOption(s)
			}
		}
	}
}

var (
	plainJVMPattern = regexp.MustCompile(`^(?:--add-(?:opens|exports|modules|reads)=\S*|-X(?:mx|ms|ss|mn)\d+[a-zA-Z]?|-XX:[+-]?\w+(?:=\d+[a-zA-Z]?)?|-server|-X(?:int|rs|debug))$`)
	setPattern      = regexp.MustCompile(`(?s)^(-D|-XX:)([^=]+)=(.*)$`)
)

// jvmOption anonymizes an option of the JVM or an argument of a program.
func (a *anonymizer) jvmOption(s string) string {
	if plainJVMPattern.MatchString(s) {
		return s
	}
	m := setPattern.FindStringSubmatch(s)
	switch {
	case m == nil:
		return a.name("option", s)
	case m[1] == "-D":
		return m[1] + a.optionKey(m[2]) + "=" + a.option(m[2], m[3])
	}
	return m[1] + m[2] + "=" + a.option(m[2], m[3])
}

// optionFamilies are the first parts of the names of options of Flink and of the JVM.
var optionFamilies = wordSet(`akka blob classloader client cluster env execution external-resource fs heartbeat high-availability
	historyserver io java jmx job-result-store jobmanager jobstore kubernetes library-cache local log log4j log4j2 logback metrics minicluster
	parallelism pekko pipeline pipeline-options plugin process python queryable-state query resourcemanager rest restart-strategy rpc s3
	scheduler security slot slotmanager sql-client sql-gateway state sun table task taskmanager tasks user web yarn zookeeper $internal
	internal containerized cleanup-strategy`)

// beamOptions are options of Beam's Flink runner, which are in the user configuration of a job.
var beamOptions = wordSet(`appName attachedMode autoBalanceWriteFilesShardingEnabled autoWatermarkInterval blockOnRun checkpointTimeoutMillis
	checkpointingInterval checkpointingMode disableMetrics enableStableInputDrain executionModeForBatch executionRetryDelay
	experiments failOnCheckpointingErrors fasterCopy filesToStage finishBundleBeforeCheckpointing flinkMaster forceSlotSharingGroup
	forceUnalignedCheckpointEnabled gcsPerformanceMetrics jobName latencyTrackingInterval maxBundleSize maxBundleTimeMills maxParallelism
	minPauseBetweenCheckpoints numConcurrentCheckpoints numberOfExecutionRetries objectReuse operatorChaining optionsId parallelism
	reIterableGroupByKeyResult resourceHints retainExternalizedCheckpointsOnCancellation reuseObject runner savepointPath shuffle
	shutdownSourcesAfterIdleMs stableUniqueNames stateBackend stateBackendStoragePath streaming tempLocation
	tolerableCheckpointFailureNumber unalignedCheckpointEnabled useDataStreamForBatch`)

// reporterNames are usual names of metric reporters, which the names of their options contain.
var reporterNames = wordSet(`prom promgateway prometheus jmx slf4j statsd datadog influxdb graphite ganglia otel`)

// plainValues are values of options that Flink defines.
var plainValues = wordSet(`true false null none NONE default auto [auto] disable disabled zookeeper kubernetes ZOOKEEPER KUBERNETES
	fixed-delay fixeddelay failure-rate failurerate exponential-delay exponentialdelay off full region full-restarts EXACTLY_ONCE AT_LEAST_ONCE
	exactly_once at_least_once RETAIN_ON_CANCELLATION DELETE_ON_CANCELLATION NO_EXTERNALIZED_CHECKPOINTS hashmap rocksdb forst filesystem
	jobmanager embedded remote local yarn-session yarn-per-job yarn-application kubernetes-session kubernetes-application NO_CLAIM CLAIM
	LEGACY PIPELINED BATCH STREAMING AUTOMATIC Default Adaptive AdaptiveBatch adaptive reactive REACTIVE child-first parent-first LOG FAIL DISABLED
	WARNING ERROR OFF INFO DEBUG LAZY EAGER UTF-8 BeamJob NaN ANONYMOUS open FIXED ENABLED <checkpoint-not-externally-addressable>`)

// wordSet is the set of the words of a text.
func wordSet(s string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(s) {
		set[word] = true
	}
	return set
}

// optionKey anonymizes the name of an option that is neither Flink's, Beam's nor the JVM's, and names within names.
func (a *anonymizer) optionKey(key string) string {
	parts := strings.Split(key, ".")
	if key == "" || beamOptions[key] {
		return key
	}
	if len(parts) < 2 && key != "high-availability" && key != "restart-strategy" || !optionFamilies[parts[0]] {
		return a.name("option", key)
	}
	for i := 1; i < len(parts); i++ {
		named := parts[0] == "metrics" && parts[i-1] == "reporter" && i == 2 && !reporterNames[parts[i]] ||
			parts[0] == "containerized" && parts[i-1] == "env" ||
			parts[0] == "external-resource" && i == 1 ||
			parts[0] == "kubernetes" && (parts[i-1] == "labels" || parts[i-1] == "annotations") ||
			parts[0] == "table" && parts[i-1] == "catalog" ||
			parts[0] == "pipeline" && parts[i-1] == "global-job-parameters"
		if named {
			return strings.Join(parts[:i], ".") + "." + a.name("option", strings.Join(parts[i:], "."))
		}
	}
	return key
}

var (
	numberPattern   = regexp.MustCompile(`^[+-]?\d+(?:\.\d+)?(?:\s*(?i:ns|us|ms|s|secs?|seconds?|min|minutes?|h|hours?|d|days?|b|bytes?|k|kb|m|mb|g|gb|t|tb|%))?$|^P(?:T?\d+(?:\.\d+)?[DHMS])+$`)
	rangePattern    = regexp.MustCompile(`^\d+-\d+$`)
	fullClass       = regexp.MustCompile(`^(?:[A-Za-z_]\w*\.)+[A-Z][\w$]*$`)
	endpointPattern = regexp.MustCompile(`^\[?[A-Za-z0-9_.:-]+\]?:\d{1,5}$`)
	hostKeyPattern  = regexp.MustCompile(`(?i)(?:host|address|quorum|servers?|brokers?|endpoint)$`)
	schemePattern   = regexp.MustCompile(`^([a-z][a-z0-9+.-]*:)([^:]*/?[^:]*)$`)
	separators      = regexp.MustCompile(`[;,]\s*`)
)

// option anonymizes the value of an option, unless it is a number, a duration, a size or a word that Flink defines.
func (a *anonymizer) option(key, value string) string {
	switch {
	case value == "" || value == masked || a.replacements[value], plainValues[value], numberPattern.MatchString(value), rangePattern.MatchString(value),
		key == "metrics.reporters" && reporterNames[value]:
		return value
	case a.names[value] != "":
		return a.names[value]
	case len(value) == 32 && idPattern.MatchString(value):
		return a.ids(value)
	case strings.HasPrefix(value, "-"):
		words := strings.Fields(value)
		for i := range words {
			words[i] = a.jvmOption(words[i])
		}
		return strings.Join(words, " ")
	case separators.MatchString(value):
		var out strings.Builder
		end := 0
		for _, m := range separators.FindAllStringIndex(value, -1) {
			out.WriteString(a.option(key, value[end:m[0]]) + value[m[0]:m[1]])
			end = m[1]
		}
		out.WriteString(a.option(key, value[end:]))
		return out.String()
	case strings.Contains(value, "://"):
		// What stands before and after the URL is no more than the jdbc: of a database.
		prefix, rest, found := strings.Cut(value, "jdbc:")
		if found && prefix == "" {
			return "jdbc:" + a.urls(rest)
		}
		if m := urlPattern.FindStringIndex(value); m != nil && m[0] == 0 && m[1] == len(value) {
			return a.urls(value)
		}
	case strings.HasPrefix(value, "/"):
		return a.path(value)
	case fullClass.MatchString(value):
		return a.class(value)
	case endpointPattern.MatchString(value):
		return a.hostPort(value)
	case addressPattern.FindString(value) == value, hostKeyPattern.MatchString(key):
		return a.host(value)
	}
	if m := schemePattern.FindStringSubmatch(value); m != nil && (m[1] == "file:" || m[1] == "hdfs:" || m[1] == "s3:") {
		return m[1] + a.path(m[2])
	}
	return a.name("value", value)
}

// plainSegments are parts of paths that Flink makes, or that any installation of Flink has.
var plainSegments = regexp.MustCompile(`^(?:|\.|\.\.|\.\.\.|lib|plugins|usrlib|metrics|chk-\d+|shared|taskowned|user|rpc|[a-z]+_\d+|jobs|vertices|taskmanagers|thread-dump|overview|config|` +
	`jobmanager|environment|exceptions|checkpoints|` +
	`(?:flink-(?:cep|csv|json|dist|scala_[\d.]+|table[a-z-]*|connector-files|connector-kafka|metrics-[a-z]+|shaded-[a-z0-9-]+|python|sql-[a-z-]+)|log4j-[a-z0-9.-]+?|beam-(?:runners|sdks|vendor|model)-[a-z0-9_.-]+?|kafka-clients|metrics-[a-z]+|slf4j-[a-z0-9-]+)(?:-[0-9][0-9.-]*)?(?:\.jar)?)$`)

var extensionPattern = regexp.MustCompile(`\.(?:jar|properties|xml|ya?ml|conf|log|out|txt|json|jks|p12|pem|hprof|py|zip)$`)

// path anonymizes the segments of a path.
func (a *anonymizer) path(p string) string {
	segments := strings.Split(p, "/")
	for i, s := range segments {
		if m := webTmpPattern.FindStringSubmatch(s); m != nil {
			segments[i] = m[1] + a.ids(m[2])
			continue
		}
		if plainSegments.MatchString(s) || a.replacements[s] {
			continue
		}
		if id := a.ids(s); id != s || len(s) == 32 && strings.Trim(s, "0") == "" {
			segments[i] = id
			continue
		}
		extension := extensionPattern.FindString(s)
		segments[i] = a.name("path", strings.TrimSuffix(s, extension)) + extension
	}
	return strings.Join(segments, "/")
}

// The directory of a JobManager's web server, whose random part tells one JobManager process from another.
var webTmpPattern = regexp.MustCompile(`^(flink-web-)([0-9a-f-]{36})$`)
