package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
)

// unixBuffer is the size of a Unix socket's buffers: the kernel does not tune them, and bulk gains a quarter from it.
const unixBuffer = 4 << 20

// Network listens and dials on real sockets: "host:port" is TCP, "unix:/path" a Unix socket. The zero value is ready;
// its methods may be called concurrently. TCP sockets have no Nagle delay (Go's default).
type Network struct {
	// Buffer is the size in bytes of the socket's send and receive buffers, within the limits of the kernel. 0 leaves TCP
	// to the kernel, which grows the buffers as needed while a fixed size ends that, and gives Unix sockets 4 MiB.
	Buffer int
}

// Listen opens addr. The path of a Unix socket whose owner was killed is taken over.
func (n Network) Listen(ctx context.Context, addr string) (net.Listener, error) {
	family, address := split(addr)
	var config net.ListenConfig
	l, err := config.Listen(ctx, family, address)
	if family == "unix" && errors.Is(err, syscall.EADDRINUSE) && abandoned(ctx, address) {
		if err := os.Remove(address); err != nil {
			return nil, fmt.Errorf("remove abandoned socket: %w", err)
		}
		l, err = config.Listen(ctx, family, address)
	}
	if err != nil {
		return nil, fmt.Errorf("listen at %q: %w", addr, err)
	}
	return listener{l, n}, nil
}

// Dial connects to addr.
func (n Network) Dial(ctx context.Context, addr string) (net.Conn, error) {
	family, address := split(addr)
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, family, address)
	if err != nil {
		return nil, fmt.Errorf("dial %q: %w", addr, err)
	}
	if err := n.tune(conn); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// listener tunes what it accepts.
type listener struct {
	net.Listener
	network Network
}

func (l listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if err := l.network.tune(conn); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// Addr is the address that Dial takes, with "unix:" before a path.
func (l listener) Addr() net.Addr {
	if a, ok := l.Listener.Addr().(*net.UnixAddr); ok {
		return unixAddr{a}
	}
	return l.Listener.Addr()
}

type unixAddr struct{ *net.UnixAddr }

func (a unixAddr) String() string { return "unix:" + a.Name }

func (n Network) tune(conn net.Conn) error {
	size := n.Buffer
	if _, ok := conn.(*net.UnixConn); ok && size == 0 {
		size = unixBuffer
	}
	c, ok := conn.(interface {
		SetReadBuffer(bytes int) error
		SetWriteBuffer(bytes int) error
	})
	if !ok || size == 0 {
		return nil
	}
	if err := errors.Join(c.SetReadBuffer(size), c.SetWriteBuffer(size)); err != nil {
		return fmt.Errorf("set socket buffers to %d bytes: %w", size, err)
	}
	return nil
}

func split(addr string) (family, address string) {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		return "unix", path
	}
	return "tcp", addr
}

// abandoned says whether path is a socket that nobody listens at.
func abandoned(ctx context.Context, path string) bool {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != os.ModeSocket {
		return false
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
