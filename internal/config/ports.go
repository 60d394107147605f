package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxPorts bounds what one TaskManager can cost: every port is tried on every host.
const maxPorts = 256

// ParsePorts reads ports and inclusive ranges of ports, separated by commas: "9249", "9250-9260", "9249,9300-9310".
// It returns each port once, in the order given; none for the empty string; an error for more than 256.
func ParsePorts(s string) ([]int, error) {
	if strings.TrimSpace(s) == "" {
		return nil, nil
	}
	var ports []int
	for part := range strings.SplitSeq(s, ",") {
		first, last, isRange := strings.Cut(part, "-")
		from, err := parsePort(first)
		if err != nil {
			return nil, err
		}
		to := from
		if isRange {
			if to, err = parsePort(last); err != nil {
				return nil, err
			}
		}
		if to < from {
			return nil, fmt.Errorf("port range %q runs backwards, want %d-%d", strings.TrimSpace(part), to, from)
		}
		for port := from; port <= to; port++ {
			if slices.Contains(ports, port) {
				continue
			}
			if len(ports) == maxPorts {
				return nil, fmt.Errorf("more than %d ports, each is tried on each TaskManager: name fewer", maxPorts)
			}
			ports = append(ports, port)
		}
	}
	return ports, nil
}

func parsePort(s string) (int, error) {
	s = strings.TrimSpace(s)
	port, err := strconv.ParseUint(s, 10, 16)
	if err != nil || port == 0 {
		return 0, fmt.Errorf("%q is not a port, want a number from 1 to 65535", s)
	}
	return int(port), nil
}
