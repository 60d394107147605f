package lab

import (
	"errors"
	"testing"
	"time"
)

func TestParseLeaderConfigMap(t *testing.T) {
	for _, tc := range []struct {
		name, text, want string
		noLeader         bool
	}{
		{"led", `{"data":{"org.apache.flink.k8s.leader.restserver":"5a1e,http://127.0.0.1:8081"}}`, "http://127.0.0.1:8081", false},
		{"no leader yet", `{"data":{"org.apache.flink.k8s.leader.dispatcher":"5a1e,pekko.tcp://x"}}`, "", true},
		{"no data", `{"metadata":{}}`, "", true},
		{"no comma", `{"data":{"org.apache.flink.k8s.leader.restserver":"5a1e"}}`, "", false},
		{"no address", `{"data":{"org.apache.flink.k8s.leader.restserver":"5a1e,"}}`, "", false},
		{"no JSON", `<html>`, "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parseLeaderConfigMap([]byte(tc.text))
			if got != tc.want || (err == nil) != (tc.want != "") || errors.Is(err, ErrNoLeader) != tc.noLeader {
				t.Errorf("got %q, %v; want %q, no leader %v", got, err, tc.want, tc.noLeader)
			}
		})
	}
}

func FuzzParseLeaderConfigMap(f *testing.F) {
	f.Add([]byte(`{"data":{"org.apache.flink.k8s.leader.restserver":"5a1e,http://127.0.0.1:8081"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if got, err := parseLeaderConfigMap(text); (got == "") != (err != nil) {
			t.Fatalf("got %q, %v", got, err)
		}
	})
}

func TestFailoverKubernetes(t *testing.T) {
	if err := KubernetesReady(); err != nil {
		t.Skip(err)
	}
	c, ctx := startReal(t, Options{HA: Kubernetes})
	old, restored := failOver(ctx, t, c)
	if restored.ID != old.ID || restored.StartTime <= old.StartTime {
		t.Errorf("restored job %+v: want id %s and a start-time after %d", restored, old.ID, old.StartTime)
	}
	writesOnce(ctx, t, c, time.Now())
}
