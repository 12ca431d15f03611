package inproc

import (
	"context"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// backlog is how many connections may wait for Accept before Dial blocks.
const backlog = 128

// Network is a set of addresses inside this process. Its methods may be called concurrently. Errors are *net.OpError
// around the errors of real sockets (syscall.ECONNREFUSED, syscall.EADDRINUSE, net.ErrClosed, os.ErrDeadlineExceeded).
type Network struct {
	mu        sync.Mutex
	listeners map[string]*listener
	lastPort  int
}

// NewNetwork makes a network where nobody listens yet.
func NewNetwork() *Network { return &Network{listeners: make(map[string]*listener)} }

// Listen opens addr, which may be any string that is not empty. One that ends in ":0" gets a number that is free;
// the listener's Addr tells it.
func (n *Network) Listen(ctx context.Context, addr string) (net.Listener, error) {
	return n.listen(ctx, addr)
}

// Dial connects to addr. It waits, until ctx ends, only while the listener's queue is full; where nobody listens it fails at once.
func (n *Network) Dial(ctx context.Context, addr string) (net.Conn, error) {
	return n.dial(ctx, "", addr)
}

// Host returns the view that the host called name has of this network: the same addresses, and connections whose
// dialling end has the address name.
func (n *Network) Host(name string) *Host { return &Host{network: n, name: name} }

// Host is one named host on a Network. Its methods may be called concurrently.
type Host struct {
	network *Network
	name    string
}

// Listen is [Network.Listen].
func (h *Host) Listen(ctx context.Context, addr string) (net.Listener, error) {
	return h.network.listen(ctx, addr)
}

// Dial is [Network.Dial] in the name of this host.
func (h *Host) Dial(ctx context.Context, addr string) (net.Conn, error) {
	return h.network.dial(ctx, h.name, addr)
}

func (n *Network) listen(ctx context.Context, addr string) (net.Listener, error) {
	if ctx.Err() != nil {
		return nil, opError("listen", "", addr, context.Cause(ctx))
	}
	if addr == "" {
		return nil, opError("listen", "", addr, syscall.EADDRNOTAVAIL)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if host, ok := strings.CutSuffix(addr, ":0"); ok {
		addr = n.freePort(host)
	}
	if n.listeners[addr] != nil {
		return nil, opError("listen", "", addr, syscall.EADDRINUSE)
	}
	l := &listener{
		network: n,
		addr:    Addr(addr),
		queue:   make(chan net.Conn, backlog),
		closed:  make(chan struct{}),
	}
	n.listeners[addr] = l
	return l, nil
}

// freePort makes an address nobody listens on; n.mu is held.
func (n *Network) freePort(host string) string {
	for {
		n.lastPort++
		addr := host + ":" + strconv.Itoa(n.lastPort)
		if n.listeners[addr] == nil {
			return addr
		}
	}
}

func (n *Network) dial(ctx context.Context, from, addr string) (net.Conn, error) {
	if ctx.Err() != nil {
		return nil, opError("dial", from, addr, context.Cause(ctx))
	}
	n.mu.Lock()
	l := n.listeners[addr]
	n.mu.Unlock()
	if l == nil {
		return nil, opError("dial", from, addr, syscall.ECONNREFUSED)
	}
	client, server := pair(Addr(from), Addr(addr), 0)
	select {
	case l.queue <- server:
	case <-l.closed:
		return nil, opError("dial", from, addr, syscall.ECONNREFUSED)
	case <-ctx.Done():
		return nil, opError("dial", from, addr, context.Cause(ctx))
	}
	select {
	case <-l.closed: // the queue may have been emptied before our connection got there
		_ = server.Close()
		return nil, opError("dial", from, addr, syscall.ECONNREFUSED)
	default:
		return client, nil
	}
}

type listener struct {
	network *Network
	addr    Addr
	queue   chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

// Accept waits for a connection or for Close.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.closed:
		return nil, opError("accept", "", string(l.addr), net.ErrClosed)
	default:
	}
	select {
	case c := <-l.queue:
		return c, nil
	case <-l.closed:
		return nil, opError("accept", "", string(l.addr), net.ErrClosed)
	}
}

// Close frees the address and closes the connections that nobody has accepted.
func (l *listener) Close() error {
	l.once.Do(func() {
		l.network.mu.Lock()
		delete(l.network.listeners, string(l.addr))
		l.network.mu.Unlock()
		close(l.closed)
		for {
			select {
			case c := <-l.queue:
				_ = c.Close()
			default:
				return
			}
		}
	})
	return nil
}

// Addr is the address that Dial takes.
func (l *listener) Addr() net.Addr { return l.addr }

// Addr is an address of a Network.
type Addr string

// Network is "inproc".
func (Addr) Network() string { return "inproc" }

// String is the address itself, "(anonymous)" for the dialling end of a connection without a host.
func (a Addr) String() string {
	if a == "" {
		return "(anonymous)"
	}
	return string(a)
}

func opError(op, from, addr string, err error) error {
	e := &net.OpError{Op: op, Net: "inproc", Err: err, Addr: Addr(addr)}
	if from != "" {
		e.Source = Addr(from)
	}
	return e
}
