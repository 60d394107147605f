package lab

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net"
	"testing"
)

// leaderNode is what Flink 1.17.2 wrote to a leader node.
const leaderNode = "aced000577180016687474703a2f2f3132372e302e302e313a32363531397372" +
	"000e6a6176612e7574696c2e55554944bc9903f7986d852f0200024a000c6c65617374536967426974734a000b6d6f73745369674269747378708f76a81e9a750e2664d236adfbe04811"

func TestParseLeaderAddress(t *testing.T) {
	node, err := hex.DecodeString(leaderNode)
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseLeaderAddress(node)
	if err != nil || got != "http://127.0.0.1:26519" {
		t.Errorf("got %q, %v", got, err)
	}
	for n := range 8 + len(got) {
		if got, err := parseLeaderAddress(node[:n]); err == nil {
			t.Errorf("the first %d bytes: got %q, want an error", n, got)
		}
	}
	for i := range 5 {
		broken := append([]byte(nil), node...)
		broken[i] ^= 1
		if got, err := parseLeaderAddress(broken); err == nil {
			t.Errorf("byte %d changed: got %q, want an error", i, got)
		}
	}
}

func FuzzParseLeaderAddress(f *testing.F) {
	node, err := hex.DecodeString(leaderNode)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(node)
	f.Add([]byte{0xac, 0xed, 0, 5, 0x77, 2, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		if got, err := parseLeaderAddress(data); err == nil && len(got) > len(data)-8 {
			t.Fatalf("an address of %d bytes out of %d", len(got), len(data))
		}
	})
}

// getDataReply is ZooKeeper's answer with an error code and, if it is not nil, data.
func getDataReply(code int32, data []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, 1)
	b = binary.BigEndian.AppendUint64(b, 42)
	b = binary.BigEndian.AppendUint32(b, uint32(code))
	if data != nil {
		b = appendBuffer(b, data)
	}
	return b
}

func FuzzParseGetData(f *testing.F) {
	f.Add(getDataReply(0, []byte("x")))
	f.Add(getDataReply(codeNoNode, nil))
	f.Add(append(getDataReply(0, nil), 0xff, 0xff, 0xff, 0xff))
	f.Fuzz(func(t *testing.T, reply []byte) {
		if data, err := parseGetData(reply); err == nil && len(data) > len(reply)-20 && len(data) > 0 {
			t.Fatalf("%d bytes of data out of %d", len(data), len(reply))
		}
	})
}

// TestZooKeeperGet talks to a server that speaks just enough of the protocol, and checks what it is asked.
func TestZooKeeperGet(t *testing.T) {
	for _, tc := range []struct {
		name    string
		reply   []byte
		want    string
		wantErr bool
		noNode  bool
	}{
		{"data", getDataReply(0, []byte("hello")), "hello", false, false},
		{"a node without data", append(getDataReply(0, nil), 0xff, 0xff, 0xff, 0xff), "", false, false},
		{"no node", getDataReply(codeNoNode, nil), "", true, true},
		{"another error", getDataReply(-102, nil), "", true, false},
		{"less data than announced", append(getDataReply(0, nil), 0, 0, 0, 9, 'x'), "", true, false},
		{"no answer", nil, "", true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l, err := net.Listen("tcp4", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			served := make(chan error, 1)
			go func() { served <- serveZooKeeper(l, "/flink/leader", tc.reply) }()
			got, err := zookeeperGet(t.Context(), l.Addr().String(), "/flink/leader")
			if string(got) != tc.want || (err != nil) != tc.wantErr || errors.Is(err, errNoNode) != tc.noNode {
				t.Errorf("got %q, %v; want %q, error %v, no node %v", got, err, tc.want, tc.wantErr, tc.noNode)
			}
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
	}
}

func serveZooKeeper(l net.Listener, wantPath string, reply []byte) error {
	conn, err := l.Accept()
	if err != nil {
		return err
	}
	defer conn.Close()
	if hello, err := readPacket(conn); err != nil || len(hello) != 44 {
		return errors.Join(err, errors.New("not a ConnectRequest"))
	}
	if err := writePacket(conn, make([]byte, 36)); err != nil {
		return err
	}
	request, err := readPacket(conn)
	if err != nil {
		return err
	}
	if op := binary.BigEndian.Uint32(request[4:]); op != opGetData || string(request[12:len(request)-1]) != wantPath {
		return errors.New("not a GetDataRequest of " + wantPath)
	}
	if reply == nil {
		return nil
	}
	return writePacket(conn, reply)
}

func TestZooKeeperGetGivesUpWithItsContext(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := zookeeperGet(ctx, l.Addr().String(), "/"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
}
