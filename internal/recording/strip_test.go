package recording

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/flink-lineage/flink-lineage-exporter/internal/lineage"
)

func TestLooksSecret(t *testing.T) {
	for _, name := range []string{
		"password", "db.password", "DB_PASSWORD", "dbPassword", "passwd", "s3.access-key", "s3.secret-key", "fs.azure.account.key.x.net",
		"security.ssl.internal.key-password", "apiKey", "API_KEY", "x-api-key", "accessKey", "token", "oauthToken", "gcs.credentials",
		"sasl.jaas.config", "Authorization", "basic-auth", "rest.http-headers", "pwd", "signature", "sig", "privateKey",
	} {
		if !looksSecret(name) {
			t.Errorf("%s does not look secret", name)
		}
	}
	for _, name := range []string{
		"", "keyed", "monkey", "parallelism.default", "heartbeat.timeout", "state.backend.type", "taskmanager.memory.process.size",
		"high-availability.cluster-id", "keyspace", "passage", "author", "signal", "topic", "maxParallelism", "task.cancellation.timeout",
	} {
		if looksSecret(name) {
			t.Errorf("%s looks secret", name)
		}
	}
}

func TestStripText(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"http://user:hunter2@host:8081/x", "http://host:8081/x"},
		{"https://ghp_token1@host/x", "https://host/x"},
		{"postgres://u:p@ss@host/db", "postgres://host/db"},
		{"akka.tcp://flink@10.0.0.1:6123/user/rpc/x", "akka.tcp://flink@10.0.0.1:6123/user/rpc/x"},
		{"pekko.tcp://flink@10.0.0.1:6123/user", "pekko.tcp://flink@10.0.0.1:6123/user"},
		{"abfss://data@account.dfs.net/x", "abfss://data@account.dfs.net/x"},
		{"mail me@host", "mail me@host"},
		{"jdbc:oracle:thin:scott/tiger@//host/db", "jdbc:oracle:thin:******@//host/db"},
		{"jdbc:mysql://h/db?user=u&password=hunter2&ssl=true", "jdbc:mysql://h/db?user=u&password=******&ssl=true"},
		{"-Djavax.net.ssl.keyStorePassword=hunter2", "-Djavax.net.ssl.keyStorePassword=******"},
		{"-Dx.password=hunter2 -Dy=1", "-Dx.password=****** -Dy=1"},
		{`PlainLoginModule required username="u" password="a b;c";`, `PlainLoginModule required username="u" password="******";`},
		{`{"password":"hunter2","user":"u"}`, `{"password":"******","user":"u"}`},
		{`{\"password\": \"hunter2\"}`, `{\"password\": \"******\"}`},
		{"--topic;t;--db-password;hunter2;--x;y", "--topic;t;--db-password;******;--x;y"},
		{"--token hunter2 --x", "--token ****** --x"},
		{"--token --x", "--token --x"},
		{"Authorization: Basic dTpwYXNz\nnext", "Authorization: ******\nnext"},
		{"sent Bearer abcdefghijklmnopqrstuvwx to", "sent Bearer ****** to"},
		{"the bearer of news", "the bearer of news"},
		{"Cookie: session=abc; x=y", "Cookie: ******"},
		{"key AKIAABCDEFGHIJKLMNOP used", "key ****** used"},
		{"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc_-1", "******"},
		{"-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "-----BEGIN RSA PRIVATE KEY-----******-----END RSA PRIVATE KEY-----"},
		{"security.token.enabled=true", "security.token.enabled=true"},
		{"password=******", "password=******"},
		{"password=", "password="},
		{"at org.apache.flink.security.token.TokenManager.start(TokenManager.java:12)", "at org.apache.flink.security.token.TokenManager.start(TokenManager.java:12)"},
		{"org.apache.kafka.TokenException: expired", "org.apache.kafka.TokenException: expired"},
		{"Source: token events -> key by", "Source: token events -> key by"},
		{`a{job_name="x",tm_id="y",} 1`, `a{job_name="x",tm_id="y",} 1`},
	} {
		s := &stripper{secrets: map[string]bool{}}
		got := s.text(test.in)
		if got != test.want {
			t.Errorf("%q became %q, want %q", test.in, got, test.want)
		}
		if again := s.text(got); again != got {
			t.Errorf("%q became %q when stripped again", got, again)
		}
	}
}

func TestStrip(t *testing.T) {
	r := tiny(map[string]Response{
		"/jobmanager/config": ok(`[{"key":"rest.port","value":"8081"},{"key":"s3.secret-key","value":"hunter22"},{"key":"flag.token","value":"true"},` +
			`{"key":"env.java.opts.all","value":"-Da.b=1 -Dmy.password=sesame1"},{"key":"pin.token","value":"123456"}]`),
		"/jobs/j/config":          ok(`{"execution-config":{"user-config":{"dbPassword":"correct-horse","parallelism":"2","url":"jdbc:x://u:swordfish@h/d"}}}`),
		"/jobmanager/environment": ok(`{"jvm":{"options":["-Xmx1g","-Dapi.token=sesame1"]}}`),
		"/jobs/j":                 ok(`{"name":"key","vertices":[{"name":"Source: correct-horse -> map","id":"123456"}]}`),
		"/jobs/j/exceptions":      ok(`{"root-exception":"cannot log in to http://u:swordfish@h with hunter22, but hunter222"}`),
		"/refused":                {Status: 0, Body: text("http://u:swordfish@h refused")},
	})
	r.JobManagers[0].URL = "https://admin:letmein1@jm:8081"
	r.Note = "the password is letmein1"
	r.TaskManagers = []TaskManager{{MetricsURL: "http://u:p@tm:9249/metrics?token=abc", Status: 200, Metrics: `a{task_name="Source:_correct_horse____map"} 1` + "\n"}}
	Strip(r)
	for path, want := range map[string]string{
		"/jobmanager/config": `[{"key":"rest.port","value":"8081"},{"key":"s3.secret-key","value":"******"},{"key":"flag.token","value":"true"},` +
			`{"key":"env.java.opts.all","value":"-Da.b=1 -Dmy.password=******"},{"key":"pin.token","value":"******"}]`,
		"/jobs/j/config":          `{"execution-config":{"user-config":{"dbPassword":"******","parallelism":"2","url":"jdbc:x://h/d"}}}`,
		"/jobmanager/environment": `{"jvm":{"options":["-Xmx1g","-Dapi.token=******"]}}`,
		"/jobs/j":                 `{"name":"key","vertices":[{"id":"123456","name":"Source: ****** -> map"}]}`,
		"/jobs/j/exceptions":      `{"root-exception":"cannot log in to http://h with ******, but hunter222"}`,
		"/refused":                `"http://h refused"`,
	} {
		if got := string(r.JobManagers[0].Responses[path].Body); got != want {
			t.Errorf("%s: %s\nwant %s", path, got, want)
		}
	}
	tm := r.TaskManagers[0]
	if r.JobManagers[0].URL != "https://jm:8081" || tm.MetricsURL != "http://tm:9249/metrics?token=******" || r.Note != "the password is ******" {
		t.Errorf("%s, %s, %s", r.JobManagers[0].URL, tm.MetricsURL, r.Note)
	}
	// The label is what the reporter would make of the name in REST.
	if want := `a{task_name="` + lineage.Sanitize("Source: ****** -> map") + `"} 1` + "\n"; tm.Metrics != want {
		t.Errorf("%s, want %s", tm.Metrics, want)
	}
	before, _ := json.Marshal(r)
	Strip(r)
	if after, _ := json.Marshal(r); string(before) != string(after) {
		t.Errorf("stripping again changes\n%s\nto\n%s", before, after)
	}
}

// TestStripRecordings: the recordings hold no secrets, so nothing in them may be taken for one.
func TestStripRecordings(t *testing.T) {
	forEachRecording(t, func(t *testing.T, r *Recording) {
		c := r.clone()
		Strip(c)
		if !reflect.DeepEqual(c, r) {
			t.Error("something was taken for a secret")
		}
	})
}

func TestWords(t *testing.T) {
	w := newWords()
	w.add("ab", "1")
	w.add("ab-cd", "2")
	w.add("é", "3")
	for in, want := range map[string]string{
		"": "", "ab": "1", "abc": "abc", "ab ab": "1 1", "ab-cd": "2", "ab-cde": "1-cde", "(ab)": "(1)", "x_ab": "x_ab", "é": "3", "aab-ab": "aab-1",
	} {
		if got := w.replace(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
	if got := w.replace(strings.Repeat("ab ", 3)); got != "1 1 1 " {
		t.Errorf("%q", got)
	}
}
