package lab

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// The paths Flink uses below high-availability.zookeeper.path.root and the cluster id.
const (
	clusterID     = "lab"
	zookeeperRoot = "/flink"
	restLeader    = zookeeperRoot + "/" + clusterID + "/leader/rest_server/connection_info"
)

// errNoNode says that a path does not exist in ZooKeeper.
var errNoNode = errors.New("no such node")

// Numbers of ZooKeeper's wire protocol (zookeeper.jute and ZooDefs of Apache ZooKeeper).
const (
	opGetData    = 4
	codeNoNode   = -101
	sessionMs    = 10000
	maxZNodeSize = 1 << 20
)

// zookeeperGet reads one node: connect, one getData request, disconnect.
func zookeeperGet(ctx context.Context, address, path string) ([]byte, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	deadline := time.Now().Add(5 * time.Second)
	if t, ok := ctx.Deadline(); ok && t.Before(deadline) {
		deadline = t
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, err
	}

	// ConnectRequest: protocol version, last zxid seen, session timeout, session id, password
	hello := binary.BigEndian.AppendUint32(nil, 0)
	hello = binary.BigEndian.AppendUint64(hello, 0)
	hello = binary.BigEndian.AppendUint32(hello, sessionMs)
	hello = binary.BigEndian.AppendUint64(hello, 0)
	hello = appendBuffer(hello, make([]byte, 16))
	if err := writePacket(conn, hello); err != nil {
		return nil, err
	}
	if _, err := readPacket(conn); err != nil {
		return nil, fmt.Errorf("open a ZooKeeper session: %w", err)
	}

	// RequestHeader (xid, type) and GetDataRequest (path, watch)
	request := binary.BigEndian.AppendUint32(nil, 1)
	request = binary.BigEndian.AppendUint32(request, opGetData)
	request = appendBuffer(request, []byte(path))
	request = append(request, 0)
	if err := writePacket(conn, request); err != nil {
		return nil, err
	}
	reply, err := readPacket(conn)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return parseGetData(reply)
}

// parseGetData reads ReplyHeader (xid, zxid, error code) and the data of GetDataResponse.
func parseGetData(reply []byte) ([]byte, error) {
	if len(reply) < 16 {
		return nil, fmt.Errorf("ZooKeeper answered %d bytes, want 16 or more", len(reply))
	}
	switch code := int32(binary.BigEndian.Uint32(reply[12:])); code {
	case 0:
	case codeNoNode:
		return nil, errNoNode
	default:
		return nil, fmt.Errorf("ZooKeeper answered error %d", code)
	}
	body := reply[16:]
	if len(body) < 4 {
		return nil, errors.New("ZooKeeper's answer ends before its data")
	}
	n := int64(int32(binary.BigEndian.Uint32(body)))
	if n < 0 {
		return nil, nil // a node without data
	}
	if n > int64(len(body)-4) {
		return nil, errors.New("ZooKeeper's answer is shorter than it says")
	}
	return body[4 : 4+n], nil
}

func appendBuffer(b, data []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
	return append(b, data...)
}

func writePacket(w io.Writer, body []byte) error {
	_, err := w.Write(appendBuffer(nil, body))
	return err
}

func readPacket(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxZNodeSize {
		return nil, fmt.Errorf("ZooKeeper announces a packet of %d bytes", n)
	}
	body := make([]byte, n)
	_, err := io.ReadFull(r, body)
	return body, err
}

// parseLeaderAddress reads the address from a leader node: Flink writes a Java object stream that begins with one block of data, which
// is the address as Java's writeUTF encodes it (2 bytes of length, then the text), followed by the session id as an object.
func parseLeaderAddress(data []byte) (string, error) {
	const header = 4 + 2 + 2 // stream magic and version; TC_BLOCKDATA and block length; text length
	if len(data) < header || binary.BigEndian.Uint32(data) != 0xaced0005 || data[4] != 0x77 {
		return "", fmt.Errorf("leader node: %d bytes that are not a Java object stream with a block of data", len(data))
	}
	n := int(binary.BigEndian.Uint16(data[6:]))
	if n+2 > int(data[5]) || n > len(data)-header {
		return "", errors.New("leader node: the address is longer than its block")
	}
	return string(data[header : header+n]), nil
}
