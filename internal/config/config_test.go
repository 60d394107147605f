package config

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	promconfig "github.com/prometheus/common/config"
)

func TestDefaultIsValidOnceItHasAURL(t *testing.T) {
	c := Default()
	var field *FieldError
	if err := c.Validate(); !errors.As(err, &field) || field.Field != "flink_urls" {
		t.Errorf("error %v, want flink_urls missing", err)
	}
	c.FlinkURLs = []string{"http://localhost:8081/"}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	if c.FlinkURLs[0] != "http://localhost:8081" {
		t.Errorf("URL %s keeps its slash", c.FlinkURLs[0])
	}
}

func TestSameNameJobsRegexp(t *testing.T) {
	c := Default()
	if re, err := c.SameNameJobsRegexp(); re != nil || err != nil {
		t.Errorf("none configured: %v, %v", re, err)
	}
	c.SameNameJobs = []string{"a|b", "copy-.*"}
	re, err := c.SameNameJobsRegexp()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"a": true, "b": true, "copy-1": true, "ab": false, "my copy-1": false, "": false} {
		if re.MatchString(name) != want {
			t.Errorf("%q matches: %t, want %t", name, !want, want)
		}
	}
}

// get returns the status of the answer.
func get(t *testing.T, client *http.Client, url string) (int, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Credentials of the JobManagers go to the JobManagers, those of the reporters to the reporters, and neither to where
// a redirect points.
func TestClientsSendTheirOwnCredentialsAndFollowNoRedirect(t *testing.T) {
	var strangers atomic.Int32
	stranger := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { strangers.Add(1) }))
	defer stranger.Close()
	var seen http.Header
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Clone()
		http.Redirect(w, r, stranger.URL, http.StatusFound)
	}))
	defer server.Close()

	c := Default()
	c.HTTP.BasicAuth = &promconfig.BasicAuth{Username: "flink", PasswordFile: writeFile(t, "password", "hunter2\n")}
	c.HTTP.HTTPHeaders = &promconfig.Headers{Headers: map[string]promconfig.Header{"X-Key": {Files: []string{writeFile(t, "key", "k")}}}}
	c.HTTP.FollowRedirects = true // whatever the configuration says
	c.TaskManagers.HTTP.Authorization = &promconfig.Authorization{Type: "Bearer", CredentialsFile: writeFile(t, "token", "tok-3n\n")}

	for _, test := range []struct {
		client        func() (*http.Client, error)
		authorization string
		key           string
	}{
		{c.FlinkClient, "Basic Zmxpbms6aHVudGVyMg==", "k"},
		{c.ReporterClient, "Bearer tok-3n", ""},
	} {
		client, err := test.client()
		if err != nil {
			t.Fatal(err)
		}
		if client.Timeout != c.Timeout {
			t.Errorf("timeout %s, want %s", client.Timeout, c.Timeout)
		}
		status, err := get(t, client, server.URL)
		if err != nil {
			t.Fatal(err)
		}
		if status != http.StatusFound || strangers.Load() != 0 {
			t.Errorf("status %d, %d requests to a host nobody configured", status, strangers.Load())
		}
		if got := seen.Get("Authorization"); got != test.authorization {
			t.Errorf("Authorization %q, want %q", got, test.authorization)
		}
		if got := seen.Get("X-Key"); got != test.key {
			t.Errorf("X-Key %q, want %q", got, test.key)
		}
		client.CloseIdleConnections()
	}
}

func TestFlinkClientTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are what is tested
	server.StartTLS()
	defer server.Close()
	ca := writeFile(t, "ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	tests := map[string]struct {
		tls promconfig.TLSConfig
		ok  bool
	}{
		"system CAs":        {promconfig.TLSConfig{}, false},
		"CA":                {promconfig.TLSConfig{CAFile: ca}, true},
		"CA and right name": {promconfig.TLSConfig{CAFile: ca, ServerName: "example.com"}, true},
		"CA and wrong name": {promconfig.TLSConfig{CAFile: ca, ServerName: "flink.invalid"}, false},
		"insecure":          {promconfig.TLSConfig{InsecureSkipVerify: true}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := Default()
			c.HTTP.TLSConfig = test.tls
			client, err := c.FlinkClient()
			if err != nil {
				t.Fatal(err)
			}
			defer client.CloseIdleConnections()
			_, err = get(t, client, server.URL)
			if (err == nil) != test.ok {
				t.Errorf("error %v, want success: %t", err, test.ok)
			}
			var unknown x509.UnknownAuthorityError
			if name == "system CAs" && !errors.As(err, &unknown) {
				t.Errorf("error %v, want an unknown authority", err)
			}
		})
	}
}

func TestReloader(t *testing.T) {
	write := func(path, content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "clusters.yml")
	if _, err := NewReloader(path); err == nil {
		t.Fatal("starts without a file")
	}
	before := time.Now()
	write(path, "clusters: {one: {flink_urls: [http://one:8081]}}\n")
	r, err := NewReloader(path)
	if err != nil {
		t.Fatal(err)
	}
	first, status := r.Config(), r.Status()
	if len(first.Clusters) != 1 || !status.Successful || status.LastSuccess.Before(before) {
		t.Errorf("%v, %+v", first, status)
	}

	write(path, "clusters:\n  one: {flink_urls: [http://one:8081]}\n  two: {flink_url: [http://two:8081]}\n")
	if err := r.Reload(); err == nil || !strings.Contains(err.Error(), path+":3: clusters.two.flink_url: unknown field") {
		t.Errorf("error %v does not name the line", err)
	}
	if r.Config() != first {
		t.Error("a bad file replaced the configuration")
	}
	if got := r.Status(); got.Successful || got.LastSuccess != status.LastSuccess {
		t.Errorf("%+v after a failure", got)
	}

	write(path, "clusters:\n  one: {flink_urls: [http://one:8081]}\n  two: {flink_urls: [http://two:8081]}\n")
	if err := r.Reload(); err != nil {
		t.Fatal(err)
	}
	if len(r.Config().Clusters) != 2 || !r.Status().Successful || r.Status().LastSuccess.Before(status.LastSuccess) {
		t.Errorf("%v, %+v after a success", r.Config(), r.Status())
	}
	if len(first.Clusters) != 1 {
		t.Error("a reload changed the configuration a request may still use")
	}
}
