package sockets

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
)

// unixBuffer is the size of a Unix socket's buffers: the kernel does not tune them, and bulk gains a quarter from it. TCP's are left to
// the kernel, which grows them to the product of bandwidth and delay; a size given by hand would end that, at a lower bound.
const unixBuffer = 4 << 20

// Config says how a Network protects its connections. The zero value does not.
type Config struct {
	// TLSCert, TLSKey and TLSCA are PEM files: this process's certificate and key, and the CA of the cluster. Given all three, every TCP
	// connection is TLS 1.3 with a certificate of that CA on both sides. A new certificate and key in the same files are shown from the next
	// connection on.
	TLSCert, TLSKey, TLSCA string
	// TokenFile holds a secret of 16 to 1024 bytes, blanks around it aside, that every process of the cluster must know. It is never sent.
	TokenFile string
	// Local is the name of the cluster whose servers on this host are reached by a Unix socket; "": everybody is reached by TCP.
	Local  string
	Logger *slog.Logger // nil = discard
}

// Network listens and dials on real sockets: "host:port" is TCP, "unix:/path" a Unix socket. Its methods may be called
// concurrently. TCP sockets have no Nagle delay (Go's default). The zero value has neither TLS nor a token.
//
// With TLS or a token a dialler is admitted by the acceptor before anything else is read, within 3 s. Dial returns when it is. A
// connection that was accepted does its part in its first Read, so that Accept never waits.
//
// Unix sockets are never encrypted: nothing of them leaves the host. Those of Local ask for certificates and the token as TCP does; those
// with a path ask for the token alone, the rest is in the permissions of their folder.
type Network struct {
	tls   *credentials
	token []byte
	local string
	log   *slog.Logger
}

// New reads the files and checks what can be checked of them. It starts nothing.
func New(cfg Config) (Network, error) {
	n := Network{local: cfg.Local, log: cfg.Logger}
	var errs []error
	if cfg.TLSCert != "" || cfg.TLSKey != "" || cfg.TLSCA != "" {
		var err error
		n.tls, err = readCredentials(cfg.TLSCert, cfg.TLSKey, cfg.TLSCA)
		errs = append(errs, err)
	}
	if cfg.TokenFile != "" {
		var err error
		n.token, err = readToken(cfg.TokenFile)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return Network{}, fmt.Errorf("configure network: %w", err)
	}
	return n, nil
}

func (n Network) logger() *slog.Logger {
	if n.log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return n.log
}

// Listen opens addr, in which an interface's name or a CIDR may stand for the host (see Resolve). The path of a Unix socket whose owner
// was killed is taken over.
func (n Network) Listen(ctx context.Context, addr string) (net.Listener, error) {
	addr, err := Resolve(addr)
	if err != nil {
		return nil, err
	}
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
	if family == "tcp" && n.local != "" {
		if conn := n.dialLocal(ctx, addr); conn != nil {
			return conn, nil
		}
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, family, address)
	if err != nil {
		err = fmt.Errorf("dial %q: %w", addr, err)
		if _, bad := errors.AsType[*net.AddrError](err); bad {
			err = refusal{err}
		}
		return nil, err
	}
	return n.dialled(ctx, conn, addr)
}

// dialled tunes a fresh connection and has it admitted. It closes it on error.
func (n Network) dialled(ctx context.Context, conn net.Conn, addr string) (net.Conn, error) {
	err := tune(conn)
	if err == nil {
		var admitted net.Conn
		if admitted, err = n.knock(ctx, conn, addr); err == nil {
			return admitted, nil
		}
	}
	_ = conn.Close()
	return nil, fmt.Errorf("dial %q: %w", addr, err)
}

// listener tunes and guards what it accepts.
type listener struct {
	net.Listener
	network Network
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
	return l.network.guard(conn), nil
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
	c, ok := conn.(interface {
		SetReadBuffer(bytes int) error
		SetWriteBuffer(bytes int) error
	})
	if !ok || !isUnix(conn) {
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
