package lab

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
)

// Processes come and go on their ports for as long as a cluster lives. So the lab takes ports below the range from which the kernel gives
// out client ports: a connection of somebody else never sits on the port of a TaskManager that is down for a moment.
const lowestPort = 15000

// ephemeralRange is where the kernel's client ports begin.
const ephemeralRange = "/proc/sys/net/ipv4/ip_local_port_range"

// reservation is a port held by a listener until the process that wants it starts.
type reservation struct {
	port     int
	listener net.Listener
}

// reservePort finds a free loopback port and holds it.
func reservePort() (*reservation, error) {
	highest, err := firstEphemeral()
	if err != nil {
		return nil, err
	}
	var last error
	for range 1000 {
		port := lowestPort + rand.IntN(highest-lowestPort) //nolint:gosec // any free port will do
		l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return &reservation{port: port, listener: l}, nil
		}
		last = err
	}
	return nil, fmt.Errorf("no free port between %d and %d on 127.0.0.1: %w", lowestPort, highest, last)
}

func (r *reservation) release() { r.listener.Close() }

func firstEphemeral() (int, error) {
	text, err := os.ReadFile(ephemeralRange)
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) != 2 {
		return 0, fmt.Errorf("%s: want two numbers, got %q", ephemeralRange, text)
	}
	first, err := strconv.Atoi(fields[0])
	if err != nil {
		return 0, fmt.Errorf("%s: %w", ephemeralRange, err)
	}
	if first <= lowestPort+1000 {
		return 65536, nil // nothing left below it
	}
	return first, nil
}

// reservePorts reserves n distinct ports.
func reservePorts(n int) ([]*reservation, error) {
	var all []*reservation
	for range n {
		r, err := reservePort()
		if err != nil {
			for _, held := range all {
				held.release()
			}
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}
