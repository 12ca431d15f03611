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

// Network listens and dials on real sockets: "host:port" is TCP, "unix:/path" a Unix socket. Its methods may be called
// concurrently. TCP sockets have no Nagle delay (Go's default), and buffers that the kernel grows as needed.
type Network struct{}

// Listen opens addr. The path of a Unix socket whose owner was killed is taken over.
func (Network) Listen(ctx context.Context, addr string) (net.Listener, error) {
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
	return listener{l}, nil
}

// Dial connects to addr.
func (Network) Dial(ctx context.Context, addr string) (net.Conn, error) {
	family, address := split(addr)
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, family, address)
	if err != nil {
		return nil, fmt.Errorf("dial %q: %w", addr, err)
	}
	if err := tune(conn); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// listener tunes what it accepts.
type listener struct {
	net.Listener
}

func (l listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if err := tune(conn); err != nil {
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

// tune gives a Unix socket its buffers, within the limits of the kernel.
func tune(conn net.Conn) error {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return nil
	}
	if err := errors.Join(c.SetReadBuffer(unixBuffer), c.SetWriteBuffer(unixBuffer)); err != nil {
		return fmt.Errorf("set socket buffers to %d bytes: %w", unixBuffer, err)
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
