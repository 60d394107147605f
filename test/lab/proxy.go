package lab

import (
	"errors"
	"io"
	"net"
	"sync"
)

// Proxy passes TCP connections on to one address until it is cut: the network between two machines, for processes on one.
type Proxy struct {
	target   string
	listener net.Listener
	handlers sync.WaitGroup

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool // both ends of each connection
}

// NewProxy listens on a free port of loopback for connections to the target.
func NewProxy(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{target: target, listener: l, conns: map[net.Conn]bool{}}
	p.handlers.Go(p.accept)
	return p, nil
}

// Address is where it listens.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Cut ends every connection and refuses new ones, until Mend.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	for conn := range p.conns {
		_ = conn.Close()
	}
}

// Mend lets connections through again.
func (p *Proxy) Mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
}

// Close ends it and every connection.
func (p *Proxy) Close() error {
	p.Cut()
	err := p.listener.Close()
	p.handlers.Wait()
	return err
}

func (p *Proxy) accept() {
	for {
		in, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			p.handlers.Go(func() { p.pass(in) })
		}
	}
}

// pass copies both ways until one end closes.
func (p *Proxy) pass(in net.Conn) {
	defer p.drop(in)
	if !p.hold(in) {
		return
	}
	out, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer p.drop(out)
	if !p.hold(out) {
		return
	}
	p.handlers.Go(func() {
		_, _ = io.Copy(out, in)
		_ = out.Close()
	})
	_, _ = io.Copy(in, out)
}

// hold notes a connection, unless the proxy is cut.
func (p *Proxy) hold(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.cut {
		p.conns[conn] = true
	}
	return !p.cut
}

func (p *Proxy) drop(conn net.Conn) {
	_ = conn.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
}
