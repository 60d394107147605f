package config

import (
	"slices"
	"strings"
	"testing"
)

func TestParsePorts(t *testing.T) {
	tests := []struct {
		in   string
		want []int
		err  string
	}{
		{"", nil, ""},
		{"  ", nil, ""},
		{"9249", []int{9249}, ""},
		{"9250-9252", []int{9250, 9251, 9252}, ""},
		{"9249, 9300 - 9301 ,9249", []int{9249, 9300, 9301}, ""},
		{"9250-9252,9251-9253", []int{9250, 9251, 9252, 9253}, ""},
		{"65535-65535", []int{65535}, ""},
		{"0", nil, `"0" is not a port`},
		{"65536", nil, `"65536" is not a port`},
		{"-1", nil, `"" is not a port`},
		{"9249,", nil, `"" is not a port`},
		{"9250-9260-9270", nil, `"9260-9270" is not a port`},
		{"http", nil, `"http" is not a port`},
		{"9260-9250", nil, `port range "9260-9250" runs backwards, want 9250-9260`},
		{"1-65535", nil, "more than 256 ports"},
		{"1-256", nil, ""},
		{"1-256,1-256,257", nil, "more than 256 ports"},
	}
	for _, test := range tests {
		got, err := ParsePorts(test.in)
		switch {
		case test.err == "" && err != nil, test.err != "" && (err == nil || !strings.HasPrefix(err.Error(), test.err)):
			t.Errorf("%q: error %v, want %q", test.in, err, test.err)
		case test.want != nil && !slices.Equal(got, test.want):
			t.Errorf("%q: %v, want %v", test.in, got, test.want)
		}
	}
	if got, _ := ParsePorts("1-256"); len(got) != 256 {
		t.Errorf("%d ports, want 256", len(got))
	}
}

func FuzzParsePorts(f *testing.F) {
	for _, s := range []string{"", "9249", "9250-9260,9300", "1-65535", "9260-9250", "-", ","} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ports, err := ParsePorts(s)
		if err != nil && ports != nil {
			t.Errorf("%q: both ports and error %v", s, err)
		}
		if len(ports) > maxPorts {
			t.Errorf("%q: %d ports", s, len(ports))
		}
		for i, port := range ports {
			if port < 1 || port > 65535 || slices.Contains(ports[:i], port) {
				t.Errorf("%q: %v", s, ports)
			}
		}
	})
}
