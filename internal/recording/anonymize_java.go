package recording

import (
	"fmt"
	"regexp"
	"strings"
)

// publicClasses begin the names of classes of the JVM and of projects that everybody may use.
var publicClasses = []string{
	"java.", "javax.", "jdk.", "sun.", "com.sun.", "jakarta.", "scala.", "kotlin.", "akka.", "io.netty.", "org.jboss.netty.",
	"org.apache.flink.", "org.apache.kafka.", "org.apache.beam.", "org.apache.pekko.", "org.apache.zookeeper.", "org.apache.curator.",
	"org.apache.hadoop.", "org.apache.commons.", "org.apache.logging.", "org.apache.avro.", "org.apache.iceberg.", "org.rocksdb.",
	"org.slf4j.", "org.postgresql.", "com.mysql.", "com.zaxxer.hikari.", "okhttp3.", "okio.", "io.fabric8.", "io.prometheus.",
}

func publicClass(name string) bool {
	for _, prefix := range publicClasses {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

var (
	// A class with its package, as in text. The parts of nested and generated classes follow after dollars.
	classPattern = regexp.MustCompile(`\b(?:[a-z_][A-Za-z0-9_]*\.)+[A-Z][A-Za-z0-9_$]*`)
	// "at [loader/module@version/]class.method(File.java:1)"; a lambda's class has a slash of its own.
	framePattern = regexp.MustCompile(`^(\s*at (?:[^/()\s]*/[^/()\s]*/|[^/()\s]*@[^/()\s]*/|[^/().\s]*/)?)([^/()\s]+?)(/0x[0-9a-f]+|/\d+)?\.([^./()\s]+)\((.*)\)$`)
	filePattern  = regexp.MustCompile(`^([^:]+?)(\.(?:java|scala|kt|groovy))?(:-?\d+)?$`)
	ownerPattern = regexp.MustCompile(`(owned by ")(.*)(" Id=\d+)`)
	// The class of an exception and its message.
	exceptionPattern = regexp.MustCompile(`(?s)^([A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)+|\w+(?:Exception|Error))(?:: (.*))?$`)
	timerPattern     = regexp.MustCompile(`(?s)^(TimerException\{)(.*)(\})$`)
	causePattern     = regexp.MustCompile(`^(\s*(?:Caused by: |Suppressed: )?)(.*)$`)
	morePattern      = regexp.MustCompile(`^\s*\.\.\. \d+ (?:more|common frames omitted)$`)
)

// javaFile is whether host:port in a text is rather the line of a file.
func javaFile(s string) bool {
	for _, suffix := range []string{".java", ".scala", ".kt", ".groovy"} {
		if strings.HasSuffix(s, suffix) {
			return true
		}
	}
	return false
}

// class anonymizes the name of a class, but not how deep it nests and that it is generated.
func (a *anonymizer) class(name string) string {
	if name == "" || publicClass(name) || strings.HasPrefix(name, "user.Class") {
		return name
	}
	parts := strings.Split(name, "$")
	for i, part := range parts {
		switch {
		case i == 0:
			parts[i] = a.identifier("user.Class", part)
		case part == "Lambda" || strings.Trim(part, "0123456789") == "":
		default:
			parts[i] = a.identifier("Nested", part)
		}
	}
	return strings.Join(parts, "$")
}

// identifier is name for words of Java, which have no hyphens.
func (a *anonymizer) identifier(kind, original string) string {
	key := kind + " " + original
	if replacement, ok := a.names[key]; ok {
		return replacement
	}
	a.count[kind]++
	replacement := fmt.Sprintf("%s%d", kind, a.count[kind])
	a.names[key] = replacement
	if kind == "user.Class" && len(original) >= 4 {
		a.known.add(original, replacement)
		a.known.add(strings.ReplaceAll(original, ".", "_"), strings.ReplaceAll(replacement, ".", "_"))
	}
	return replacement
}

// classes anonymizes the classes in a text.
func (a *anonymizer) classes(t string) string {
	return classPattern.ReplaceAllStringFunc(t, a.class)
}

// frame anonymizes a line of a stack trace.
func (a *anonymizer) frame(line string) string {
	m := framePattern.FindStringSubmatch(line)
	if m == nil {
		return a.classes(line)
	}
	if publicClass(m[2]) {
		return line
	}
	class := a.class(m[2])
	method := m[4]
	if method != "<init>" && method != "<clinit>" {
		method = a.identifier("method", method)
	}
	file := m[5]
	if f := filePattern.FindStringSubmatch(file); f != nil && f[1] != "Native Method" && f[1] != "Unknown Source" {
		outer, _, _ := strings.Cut(class[strings.LastIndex(class, ".")+1:], "$")
		file = outer + f[2] + f[3]
	}
	return m[1] + class + m[3] + "." + method + "(" + file + ")"
}

// keptMessages begin the messages of Flink that tell what happened; others may be anyone's and may tell anything.
var keptMessages = []string{
	"<Exception on server side:", "End of exception on server side>", "Internal server error.", "Service temporarily unavailable",
	"Cannot connect to ResourceManager", "Could not send message [", "Not found: ", "Unable to load requested file",
	"No TaskExecutor registered under", "Job could not be found", "Could not find Flink job", "Job not found", "Heartbeat of ",
	"The heartbeat of ", "Caught exception while processing timer", "Could not forward element to next operator",
	"Checkpoint Coordinator is suspending", "Checkpoint expired before completing", "Checkpoint was declined",
	"Recovery is suppressed by ", "The TaskExecutor is shutting down", "TaskExecutor ", "Task did not exit gracefully within",
	"Could not complete the operation", "Could not acquire the minimum required resources", "JobManager responsible for ",
	"Job leader for job id", "Remote connection to ", "Connection unexpectedly closed by remote task manager", "Asynchronous task checkpoint failed",
	"Could not materialize checkpoint", "Exceeded checkpoint tolerable failure threshold", "Invalid attempt num", "Ask timed out",
	"Slot request bulk is not fulfillable", "The requested resources are not available", "null",
}

// exception anonymizes a stack trace, or a message without one.
func (a *anonymizer) exception(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		switch {
		case line == "" || morePattern.MatchString(line):
		case strings.HasPrefix(strings.TrimSpace(line), "at "):
			lines[i] = remember(a.frames, line, a.frame)
		default:
			m := causePattern.FindStringSubmatch(line)
			lines[i] = m[1] + a.message(m[2])
		}
	}
	return strings.Join(lines, "\n")
}

// message anonymizes a message, which may begin with the class of an exception, and again with that of its cause.
func (a *anonymizer) message(m string) string {
	if m == "" || a.replacements[m] {
		return m
	}
	for _, prefix := range keptMessages {
		if strings.HasPrefix(m, prefix) {
			return a.text(m)
		}
	}
	if t := timerPattern.FindStringSubmatch(m); t != nil {
		return t[1] + a.message(t[2]) + t[3]
	}
	if e := exceptionPattern.FindStringSubmatch(m); e != nil {
		class := a.class(e[1])
		if !strings.Contains(m, ": ") {
			return class
		}
		return class + ": " + a.message(e[2])
	}
	return a.name("message", m)
}

// dump anonymizes a thread dump.
func (a *anonymizer) dump(v map[string]any) {
	threads, _ := v["threadInfos"].([]any)
	for _, t := range threads {
		thread, ok := t.(map[string]any)
		if !ok {
			continue
		}
		name, _ := thread["threadName"].(string)
		stack, _ := thread["stringifiedThreadInfo"].(string)
		thread["threadName"] = a.thread(name)
		// The name may have line breaks of its own.
		if rest, ok := strings.CutPrefix(stack, `"`+name+`"`); ok {
			thread["stringifiedThreadInfo"] = `"` + a.thread(name) + `"` + a.stack(rest)
		} else if stack != "" {
			thread["stringifiedThreadInfo"] = a.stack(stack)
		}
	}
}

// stack anonymizes the lines after a thread's name.
func (a *anonymizer) stack(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		if strings.HasPrefix(strings.TrimSpace(line), "at ") {
			lines[i] = remember(a.frames, line, a.frame)
			continue
		}
		line = replaceGroups(ownerPattern, line, func(g []string) string { return g[1] + a.thread(g[2]) + g[3] })
		lines[i] = a.classes(line)
	}
	return strings.Join(lines, "\n")
}

var (
	// Threads that work for a task: what they do, the task's name, and for some the attempt id.
	taskThreadPattern = regexp.MustCompile(`(?s)^((?:Legacy Source Thread - |Source Data Fetcher for |Kafka Fetcher for |(?:Canceler|Canceler/Interrupts|Cancellation Watchdog) for |` +
		`OutputFlusher for |(?:System )?Time Trigger for |Channel state writer |Async calls on )?)(.*)( \(\d+/\d+\)#\d+)( \([0-9a-f_]+\)\.)?$`)
	clientThreadPattern = regexp.MustCompile(`^(kafka-[a-z-]+ \| )(.*)$`)
	// Threads of the JVM, of Flink and of what it is made of. Digits stand for N.
	publicThreadPattern = regexp.MustCompile(`^(?:main(?:-EventThread|-SendThread\(.*\))?|Finalizer|Reference Handler|Signal Dispatcher|` +
		`Common-Cleaner|Notification Thread|Attach Listener|DestroyJavaVM|Cleaner-N|process reaper.*|AsyncOperations-thread-N|` +
		`CachedSingleThreadScheduler-N-pool-N-thread-N|CloseableReaperThread|Curator-[A-Za-z]+-N|Flink Netty (?:Server|Client) \(N\) Thread N|` +
		`Flink-Metric[A-Za-z-]+-thread-N|FlinkSource-Executor-Thread-N|FlinkCompletableFutureDelayScheduler-thread-N|HTTP-Dispatcher|Hashed wheel timer #N|IOManager (?:reader|writer) thread #N|` +
		`KafkaConsumerPoll-thread|KubernetesClient-Informer-thread-N|New I/O [a-z ]+ #N|OkHttp .*|Okio Watchdog|idle-timeout-task|` +
		`config-map-watch-handler-thread-N|flink-(?:metrics-)?(?:N|scheduler-N|(?:akka|pekko)\.[a-z.-]+-N)|flink-taskexecutor-io-thread-N|` +
		`jobmanager-io-thread-N|taskmanager_N-main-scheduler-thread-N|cluster-io-thread-N|pool-N-thread-N|prometheus-http-N-N|Timer-N|Thread-N|` +
		`ForkJoinPool.*-worker-N|resourceManager_N-main-scheduler-thread-N)$`)
	digitsPattern     = regexp.MustCompile(`\d+`)
	threadTailPattern = regexp.MustCompile(`^(.*?)([-_ #]*\d*)$`)
)

// thread anonymizes the name of a thread.
func (a *anonymizer) thread(name string) string {
	if m := taskThreadPattern.FindStringSubmatch(name); m != nil {
		return m[1] + a.vertex(m[2]) + m[3] + a.ids(m[4])
	}
	if publicThreadPattern.MatchString(digitsPattern.ReplaceAllString(name, "N")) {
		name = addressPattern.ReplaceAllStringFunc(a.urls(name), a.addressInText)
		if m := sendThreadPattern.FindStringSubmatch(name); m != nil {
			return m[1] + a.hostPort(m[2]) + ")"
		}
		if host, ok := strings.CutPrefix(name, "OkHttp "); ok && okHostPattern.MatchString(host) {
			writer := strings.HasSuffix(host, " Writer")
			name = "OkHttp " + a.host(strings.TrimSuffix(host, " Writer"))
			if writer {
				name += " Writer"
			}
		}
		return name
	}
	if m := clientThreadPattern.FindStringSubmatch(name); m != nil {
		return m[1] + a.name("value", m[2])
	}
	m := threadTailPattern.FindStringSubmatch(name)
	if m == nil {
		return a.name("thread", name)
	}
	return a.name("thread", m[1]) + m[2]
}

var (
	sendThreadPattern = regexp.MustCompile(`^(main-SendThread\()(.*)\)$`)
	// What OkHttp names a thread by when it is a host, and not its own work.
	okHostPattern = regexp.MustCompile(`^[A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)+(?: Writer)?$`)
)
