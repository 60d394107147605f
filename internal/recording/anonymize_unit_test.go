package recording

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestAnonymizeVertex(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"Source: orders", "Source: operator-x1"},
		{"Source: orders -> map -> Sink: out", "Source: operator-x1 -> operator-x2 -> Sink: operator-x3"},
		{"a -> (b, c -> d)", "operator-x1 -> (operator-x2, operator-x3 -> operator-x4)"},
		{"a -> (b -> (c, d), Sink: e)", "operator-x1 -> (operator-x2 -> (operator-x3, operator-x4), Sink: operator-x5)"},
		{"[vertex-3]a -> a", "[vertex-3]operator-x1 -> operator-x1"},
		{"Calc(select=[a, b]) -> ParDo(x)/y(z)", "operator-x1 -> operator-x2"},
		{"out: Writer -> out: Committer", "operator-x1: Writer -> operator-x1: Committer"},
		{"(", "("},
		{"", ""},
	} {
		a := newAnonymizer()
		got := a.vertex(test.in)
		if got != test.want {
			t.Errorf("%q became %q, want %q", test.in, got, test.want)
		}
		if again := a.vertex(test.in); again != got {
			t.Errorf("%q became %q and %q", test.in, got, again)
		}
		if again := a.vertex(got); again != got {
			t.Errorf("the replacement %q became %q", got, again)
		}
	}
}

func TestAnonymizeThread(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef"
	a := newAnonymizer()
	hex := a.ids(id)
	if hex == id || len(hex) != 32 {
		t.Fatalf("id became %q", hex)
	}
	for _, test := range []struct{ in, want string }{
		{"Source: orders -> map (1/3)#0", "Source: operator-x1 -> operator-x2 (1/3)#0"},
		{"Canceler/Interrupts for Source: orders -> map (1/3)#0 (" + id + "_" + id + "_0_0).",
			"Canceler/Interrupts for Source: operator-x1 -> operator-x2 (1/3)#0 (" + hex + "_" + hex + "_0_0)."},
		{"Source Data Fetcher for Source: orders -> map (1/3)#0", "Source Data Fetcher for Source: operator-x1 -> operator-x2 (1/3)#0"},
		{"Kafka Fetcher for Source: orders -> map (1/3)#0", "Kafka Fetcher for Source: operator-x1 -> operator-x2 (1/3)#0"},
		{"Legacy Source Thread - Source: orders -> map (3/3)#12", "Legacy Source Thread - Source: operator-x1 -> operator-x2 (3/3)#12"},
		{"odd (1/2)#3 name (1/3)#0", "operator-x3 (1/3)#0"},
		{"KafkaConsumerPoll-thread", "KafkaConsumerPoll-thread"},
		{"FlinkSource-Executor-Thread-12", "FlinkSource-Executor-Thread-12"},
		{"flink-akka.actor.default-dispatcher-4", "flink-akka.actor.default-dispatcher-4"},
		{"kafka-producer-network-thread | acme-1", "kafka-producer-network-thread | value-x1"},
		{"main-SendThread(zk.acme.example:2181)", "main-SendThread(host-x1:2181)"},
		{"OkHttp kubernetes.acme.example Writer", "OkHttp host-x2 Writer"},
		{"OkHttp ConnectionPool", "OkHttp ConnectionPool"},
		{"acme-cleaner-1", "thread-x1-1"},
		{"acme-cleaner-2", "thread-x1-2"},
	} {
		if got := a.thread(test.in); got != test.want {
			t.Errorf("%q became %q, want %q", test.in, got, test.want)
		}
	}
}

func TestAnonymizeStack(t *testing.T) {
	in := "\" Id=7 WAITING on com.acme.Lock@1f owned by \"acme-1\" Id=8\n" +
		"\tat java.base@17.0.15/java.lang.Thread.sleep(Native Method)\n" +
		"\tat app//com.acme.Orders$Charge.chargeCard(Orders.java:12)\n" +
		"\tat com.acme.Orders$$Lambda$9/0x00007f.apply(Unknown Source)\n" +
		"\tat Main.main(Main.scala:3)\n" +
		"\tat app//org.apache.flink.runtime.taskmanager.Task.run(Task.java:562)\n" +
		"\tat org.apache.flink.util.ChildFirst//com.acme.Orders.<init>(Orders.java:1)\n" +
		"\t- locked com.acme.Lock@1f\n\t...\n\n\tNumber of locked synchronizers = 1\n"
	want := "\" Id=7 WAITING on user.Class1@1f owned by \"thread-x1-1\" Id=8\n" +
		"\tat java.base@17.0.15/java.lang.Thread.sleep(Native Method)\n" +
		"\tat app//user.Class2$Nested1.method1(Class2.java:12)\n" +
		"\tat user.Class2$$Lambda$9/0x00007f.method2(Unknown Source)\n" +
		"\tat user.Class3.method3(Class3.scala:3)\n" +
		"\tat app//org.apache.flink.runtime.taskmanager.Task.run(Task.java:562)\n" +
		"\tat org.apache.flink.util.ChildFirst//user.Class2.<init>(Class2.java:1)\n" +
		"\t- locked user.Class1@1f\n\t...\n\n\tNumber of locked synchronizers = 1\n"
	a := newAnonymizer()
	// The order in which things get their replacement does not matter to this test.
	a.class("com.acme.Lock")
	if got := a.stack(in); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestAnonymizeException(t *testing.T) {
	a := newAnonymizer()
	a.taskManager("10.1.2.3:6122-abcdef")
	for _, test := range []struct{ in, want string }{
		{"java.util.concurrent.TimeoutException: Heartbeat of TaskManager with id 10.1.2.3:6122-abcdef timed out.",
			"java.util.concurrent.TimeoutException: Heartbeat of TaskManager with id 198.18.0.1:6122-abcdef timed out."},
		{"com.acme.CardException: card of Jane Doe refused\n\tat com.acme.Card.charge(Card.java:1)\nCaused by: java.io.IOException: no route to pay.acme.example\n\t... 3 more",
			"user.Class1: message-x1\n\tat user.Class2.method1(Class2.java:1)\nCaused by: java.io.IOException: message-x2\n\t... 3 more"},
		{"java.lang.NullPointerException", "java.lang.NullPointerException"},
		{"Internal server error.", "Internal server error."},
		{"Caused by: TimerException{java.lang.RuntimeException: Jane}", "Caused by: TimerException{java.lang.RuntimeException: message-x3}"},
		{"Cannot connect to ResourceManager right now. Please try to refresh.", "Cannot connect to ResourceManager right now. Please try to refresh."},
	} {
		if got := a.exception(test.in); got != test.want {
			t.Errorf("%q became\n%q, want\n%q", test.in, got, test.want)
		}
	}
}

func TestAnonymizeOptions(t *testing.T) {
	for _, test := range []struct{ key, value, wantKey, wantValue string }{
		{"heartbeat.timeout", "50 s", "heartbeat.timeout", "50 s"},
		{"task.cancellation.timeout", "0", "task.cancellation.timeout", "0"},
		{"state.backend.type", "rocksdb", "state.backend.type", "rocksdb"},
		{"state.backend.type", "com.acme.Backend", "state.backend.type", "user.Class1"},
		{"high-availability", "org.apache.flink.kubernetes.highavailability.KubernetesHaServicesFactory", "high-availability",
			"org.apache.flink.kubernetes.highavailability.KubernetesHaServicesFactory"},
		{"high-availability.cluster-id", "acme-prod", "high-availability.cluster-id", "value-x1"},
		{"high-availability.storageDir", "s3://acme-bucket/ha/prod", "high-availability.storageDir", "s3://host-x1/path-x1/path-x2"},
		{"high-availability.zookeeper.quorum", "zk1.acme:2181,zk2.acme:2181", "high-availability.zookeeper.quorum", "host-x1:2181,host-x2:2181"},
		{"jobmanager.rpc.address", "jm.acme", "jobmanager.rpc.address", "host-x1"},
		{"web.tmpdir", "/tmp/flink-web-01a6406f-0bd2-4d58-9c9e-55ad66f41ca7", "web.tmpdir", ""},
		{"blob.server.port", "50100-50200", "blob.server.port", "50100-50200"},
		{"s3.secret-key", masked, "s3.secret-key", masked},
		{"acme.customer.table", "12monkeys", "option-x1", "value-x1"},
		{"containerized.master.env.ACME_REGION", "eu", "containerized.master.env.option-x1", "value-x1"},
		{"metrics.reporter.acme.port", "9249", "metrics.reporter.option-x1", "9249"},
		{"metrics.reporter.prom.port", "9249-9260", "metrics.reporter.prom.port", "9249-9260"},
		{"env.java.opts.all", "-Xmx1g -Dacme.user=jane -XX:HeapDumpPath=/acme/x.hprof", "env.java.opts.all", "-Xmx1g -Doption-x1=value-x1 -XX:HeapDumpPath=/path-x1/path-x2.hprof"},
		{"parallelism.default", "4", "parallelism.default", "4"},
		{"jdbcUrl", "jdbc:postgresql://db.acme:5432/orders?user=jane", "option-x1", "jdbc:postgresql://host-x1:5432/path-x1?value-x1"},
	} {
		a := newAnonymizer()
		value := a.option(test.key, test.value)
		key := a.optionKey(test.key)
		if test.key == "web.tmpdir" {
			if !strings.HasPrefix(value, "/path-x1/flink-web-") || len(value) != len("/path-x1/flink-web-")+36 || strings.Contains(value, "01a6406f") {
				t.Errorf("web.tmpdir became %q", value)
			}
			continue
		}
		if value != test.wantValue || key != test.wantKey && !strings.HasPrefix(test.value, "-X") {
			t.Errorf("%s: %s became %s: %s, want %s: %s", test.key, test.value, key, value, test.wantKey, test.wantValue)
		}
	}
}

func TestAnonymizeMetrics(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef"
	metrics := `# HELP flink_taskmanager_job_task_numRecordsIn numRecordsIn (scope: taskmanager_job_task)
# TYPE flink_taskmanager_job_task_numRecordsIn gauge
flink_taskmanager_job_task_numRecordsIn{job_id="` + id + `",job_name="acme_orders",task_name="Source:_read____pay_card",tm_id="acme_tm_1_1",host="acme_tm_1_1",region="eu_acme",} 5.0
# HELP flink_taskmanager_job_task_operator_acme_cards acme.cards (scope: taskmanager_job_task_operator_acme)
# TYPE flink_taskmanager_job_task_operator_acme_cards gauge
flink_taskmanager_job_task_operator_acme_cards{operator_name="pay_card",job_name="acme_orders",} 1.0
`
	rest := map[string]Response{
		"/jobs/overview":            ok(`{"jobs":[{"jid":"` + id + `","name":"acme orders"}]}`),
		"/jobs/" + id:               ok(`{"jid":"` + id + `","vertices":[{"name":"Source: read -> pay card"}]}`),
		"/taskmanagers":             ok(`{"taskmanagers":[{"id":"acme-tm-1-1"}]}`),
		"/taskmanagers/acme-tm-1-1": ok(`{"id":"acme-tm-1-1"}`),
	}
	r := tiny(rest)
	r.TaskManagers = []TaskManager{{Status: 200, Metrics: metrics}, {Status: 200, Metrics: strings.NewReplacer(
		"acme_orders", "acme orders", "Source:_read____pay_card", "Source: read -> pay card", "acme_tm_1_1", "acme-tm-1-1", `"pay_card"`, `"pay card"`,
	).Replace(metrics)}}
	Anonymize(r)
	filtered, raw := r.TaskManagers[0].Metrics, r.TaskManagers[1].Metrics
	for _, want := range []string{`job_name="job_x1"`, `task_name="Source:_operator_x1____operator_x2"`, `tm_id="taskmanager_x1"`, `label_x1="value_x1"`,
		`operator_name="operator_x2"`, "# HELP flink_taskmanager_job_task_numRecordsIn numRecordsIn (scope: taskmanager_job_task)\n", "} 5.0\n",
		"flink_taskmanager_job_task_operator_metric_x1{"} {
		if !strings.Contains(filtered, want) {
			t.Errorf("%s is not in\n%s", want, filtered)
		}
	}
	for _, want := range []string{`job_name="job-x1"`, `task_name="Source: operator-x1 -> operator-x2"`, `tm_id="taskmanager-x1"`, `operator_name="operator-x2"`} {
		if !strings.Contains(raw, want) {
			t.Errorf("%s is not in\n%s", want, raw)
		}
	}
	all, _ := json.Marshal(r)
	for _, gone := range []string{"acme", "pay", "cards", "region", id} {
		if strings.Contains(string(all), gone) {
			t.Errorf("%s is in\n%s", gone, all)
		}
	}
	if _, ok := r.JobManagers[0].Responses["/taskmanagers/taskmanager-x1"]; !ok {
		t.Errorf("no details of the TaskManager: %s", all)
	}
}

func TestAnonymizeText(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"dial tcp 10.1.2.3:8081: connect: connection refused", "dial tcp 198.18.0.1:8081: connect: connection refused"},
		{"dial tcp [fd00::12]:8081: refused", "dial tcp [2001:db8::1]:8081: refused"},
		{"to broker-1.acme.example:9092 (Main.java:12)", "to host-x1:9092 (Main.java:12)"},
		{"read /var/acme/orders.json, then file:/acme/x", "read /path-x1/path-x2/path-x3.json, then file:/path-x2/path-x4"},
		{"see https://wiki.acme.example/runbook?page=1", "see https://host-x1/path-x1?value-x1"},
		{"akka.tcp://flink@jm.acme:6123/user/rpc/dispatcher_0", "akka.tcp://flink@host-x1:6123/user/rpc/dispatcher_0"},
		{"Actor[akka://flink/temp/dispatcher_0$Z]", "Actor[akka://flink/temp/dispatcher_0$Z]"},
		{"version 1.17.2 of 2026-12-01", "version 1.17.2 of 2026-12-01"},
		{"with com.acme.Job in org.apache.flink.runtime.Task", "with user.Class1 in org.apache.flink.runtime.Task"},
		{"300.1.1.1", "300.1.1.1"},
	} {
		a := newAnonymizer()
		got := a.text(test.in)
		if got != test.want {
			t.Errorf("%q became %q, want %q", test.in, got, test.want)
		}
		if again := a.text(got); again != got {
			t.Errorf("%q became %q when anonymized again", got, again)
		}
	}
}

func TestAnonymizeUnknownLabels(t *testing.T) {
	a := newAnonymizer()
	for _, test := range []struct{ in, want string }{
		{`tm_id="10_1_2_3:6122_abcdef"`, `tm_id="198_18_0_1:6122_abcdef"`},
		{`tm_id="tm_acme:6122_abcdef"`, `tm_id="host_x1:6122_abcdef"`},
		{`host="10_1_2_3"`, `host="198_18_0_1"`},
		{`host="tm_acme"`, `host="host_x1"`},
		{`task_name="Source:_orders____map"`, `task_name="Source:_operator_x1____operator_x2"`},
		{`operator_name="Source:_orders"`, `operator_name="Source:_operator_x1"`},
		{`quantile="0.99"`, `quantile="0.99"`},
		{`partition="3"`, `partition="3"`},
	} {
		if got := a.label(test.in, false); got != test.want {
			t.Errorf("%s became %s, want %s", test.in, got, test.want)
		}
	}
	for _, line := range []string{`a{b="c} 1`, `a{b=c} 1`, `a{b="c\"} 1`, `{} 1`, `a{} one two three`, `a`} {
		if got := a.metrics(line); got != "" {
			t.Errorf("%s was kept as %s", line, got)
		}
	}
}
