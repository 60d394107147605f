package lab

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Versions are the Flink releases the lab is tried with, the newest patch release of each line that the exporter supports.
var Versions = []string{"1.15.4", "1.16.3", "1.17.2", "1.18.1", "1.19.3", "1.20.5", "2.0.2", "2.1.3", "2.2.1", "2.3.0"}

// version is a Flink release, comparable by its release line.
type version struct {
	major, minor, patch int
}

// parseVersion reads "1.17.2".
func parseVersion(s string) (version, error) {
	parts := strings.Split(s, ".")
	if len(parts) != 3 {
		return version{}, fmt.Errorf("flink version %q: want three numbers, as in 1.17.2 (known: %s)", s, strings.Join(Versions, ", "))
	}
	var n [3]int
	for i, p := range parts {
		v, err := strconv.ParseUint(p, 10, 16)
		if err != nil || strconv.FormatUint(v, 10) != p {
			return version{}, fmt.Errorf("flink version %q: %q is not a number", s, p)
		}
		n[i] = int(v)
	}
	return version{n[0], n[1], n[2]}, nil
}

// atLeast reports whether v belongs to the release line major.minor or a later one.
func (v version) atLeast(major, minor int) bool {
	return v.major > major || v.major == major && v.minor >= minor
}

func (v version) String() string { return fmt.Sprintf("%d.%d.%d", v.major, v.minor, v.patch) }

// Latest returns the tried release of a line such as "1.20", or s itself if it already is a release.
func Latest(s string) (string, error) {
	i := slices.IndexFunc(Versions, func(v string) bool { return strings.Count(s, ".") == 1 && strings.HasPrefix(v, s+".") })
	if i >= 0 {
		return Versions[i], nil
	}
	v, err := parseVersion(s)
	if err != nil {
		return "", err
	}
	return v.String(), nil
}
