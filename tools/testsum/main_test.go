package main

import (
	"strings"
	"testing"
)

func TestSummarize(t *testing.T) {
	tests := map[string]struct {
		in, out, sum string
	}{
		"nothing":                  {"", "", "0 passed, 0 failed, 0 skipped"},
		"lines that are no events": {"go vet ./...\n{}\nhalf", "go vet ./...\n{}\nhalf", "0 passed, 0 failed, 0 skipped"},
		"passed, with a subtest": {
			`{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN TestA\n"}
{"Action":"pass","Package":"p","Test":"TestA/sub"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"skip","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p"}
`, "ok  \tp\t0.1s\n", "2 passed, 0 failed, 1 skipped"},
		"failed": {
			`{"Action":"output","Package":"p","Test":"TestA","Output":"boom\n"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}
{"Action":"fail","Package":"p"}
`, "FAIL p TestA\nboom\nFAIL\tp\t0.1s\n", "1 passed, 1 failed, 0 skipped"},
		"does not build": {
			`{"ImportPath":"p","Action":"build-output","Output":"x.go:1: undefined: y\n"}
{"ImportPath":"p","Action":"build-fail"}
{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}
{"Action":"fail","Package":"p","FailedBuild":"p"}
`, "x.go:1: undefined: y\nFAIL\tp [build failed]\n", "0 passed, 1 failed, 0 skipped"},
		"panics": {
			`{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"panic: boom\n"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p"}
`, "FAIL p TestA\npanic: boom\n", "0 passed, 1 failed, 0 skipped"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			sum, err := summarize(strings.NewReader(test.in), &out)
			if err != nil {
				t.Fatal(err)
			}
			if out.String() != test.out || sum.String() != test.sum {
				t.Errorf("shows %q and %s, want %q and %s", out.String(), sum, test.out, test.sum)
			}
		})
	}
}
