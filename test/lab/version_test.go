package lab

import "testing"

func TestLatest(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"1.17", "1.17.2"}, {"1.20", "1.20.5"}, {"2.0", "2.0.2"}, {"1.17.0", "1.17.0"}, {"2.3.0", "2.3.0"},
		{"", ""}, {"1", ""}, {"1.1", ""}, {"1.17.2.1", ""}, {"1.17.x", ""}, {"1.17.-2", ""}, {"1.17.02", ""}, {"../..", ""},
	} {
		got, err := Latest(tc.in)
		if got != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("Latest(%q) = %q, %v; want %q", tc.in, got, err, tc.want)
		}
	}
}

func TestAtLeast(t *testing.T) {
	for _, tc := range []struct {
		v            version
		major, minor int
		want         bool
	}{
		{version{1, 17, 2}, 1, 17, true}, {version{1, 17, 2}, 1, 18, false}, {version{2, 0, 2}, 1, 20, true}, {version{1, 20, 5}, 2, 0, false},
	} {
		if got := tc.v.atLeast(tc.major, tc.minor); got != tc.want {
			t.Errorf("%v at least %d.%d: got %v", tc.v, tc.major, tc.minor, got)
		}
	}
}
