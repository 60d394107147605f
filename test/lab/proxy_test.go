package lab

import (
	"bufio"
	"fmt"
	"net"
	"testing"
)

func TestProxyPassesUntilItIsCut(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					fmt.Fprintf(conn, "you said %s\n", lines.Text())
				}
			}()
		}
	}()
	p, err := NewProxy(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}()

	say := func(conn net.Conn) (string, error) {
		if _, err := fmt.Fprintln(conn, "hello"); err != nil {
			return "", err
		}
		return bufio.NewReader(conn).ReadString('\n')
	}
	conn, err := net.Dial("tcp", p.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if answer, err := say(conn); err != nil || answer != "you said hello\n" {
		t.Fatalf("answer %q, %v", answer, err)
	}
	p.Cut()
	if answer, err := say(conn); err == nil {
		t.Errorf("answer %q although the connection was cut", answer)
	}
	refused, err := net.Dial("tcp", p.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer refused.Close()
	if answer, err := say(refused); err == nil {
		t.Errorf("answer %q although the proxy is cut", answer)
	}
	p.Mend()
	again, err := net.Dial("tcp", p.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if answer, err := say(again); err != nil || answer != "you said hello\n" {
		t.Errorf("after it was mended: answer %q, %v", answer, err)
	}
}
