package sockets

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// A server that is reached at a TCP address is reached on its own host by a Unix socket too, which costs half as much CPU: an abstract one, that
// is in no folder and is gone with the process, under a name made of cluster and address. Its namespace is that of the network
// devices, so whoever finds a name there would have reached the same address by TCP. Anybody on the host may take such a
// name, so each side has the kernel say whose process the other is: the same user's, or it is not used. Certificates, token and
// hello are asked for as everywhere; only the encryption is left out.

// localName is the name of a server's socket.
func localName(cluster, addr string) string {
	sum := sha256.Sum256([]byte("hcclps\x00" + cluster + "\x00" + addr))
	return fmt.Sprintf("@hcclps-%x", sum[:16])
}

// ListenLocal opens the socket by which diallers of advertised on this host reach this process; it wants Config.Local.
func (n Network) ListenLocal(ctx context.Context, advertised string) (net.Listener, error) {
	if n.local == "" {
		return nil, errors.New("listen for this host: the network does not know its cluster: set Local in its Config")
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "unix", localName(n.local, advertised))
	if err != nil {
		return nil, fmt.Errorf("listen for this host as %q of cluster %q: %w", advertised, n.local, err)
	}
	return localListener{l, n}, nil
}

// localListener accepts from processes of this user.
type localListener struct {
	net.Listener
	network Network
}

func (l localListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		local, err := identify(conn)
		if err == nil {
			err = tune(local.UnixConn)
		}
		if err != nil {
			l.network.logger().Debug("close connection from this host", "err", err)
			_ = conn.Close()
			continue
		}
		return l.network.guard(local), nil
	}
}

// dialLocal connects to a server of this host, nil if there is none at addr, or it is not to be trusted.
func (n Network) dialLocal(ctx context.Context, addr string) net.Conn {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", localName(n.local, addr))
	if err != nil {
		return nil // the usual case: another host, or a server without such a socket
	}
	local, err := identify(conn)
	if err == nil {
		var admitted net.Conn
		if admitted, err = n.dialled(ctx, local, addr); err == nil {
			return admitted
		}
	}
	n.logger().Debug("a socket of this host is not used, TCP is", "addr", addr, "err", err)
	_ = conn.Close()
	return nil
}

// localConn is a connection within this host.
type localConn struct {
	*net.UnixConn
	peer net.Addr
}

// RemoteAddr says which process the other side is.
func (c *localConn) RemoteAddr() net.Addr { return c.peer }

// identify asks the kernel whose process the other side is, and refuses another user's.
func identify(conn net.Conn) (*localConn, error) {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, fmt.Errorf("identify the process behind a %T: it is no Unix socket", conn)
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("identify the process behind a socket: %w", err)
	}
	var cred *unix.Ucred
	var failure error
	err = raw.Control(func(fd uintptr) { cred, failure = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err == nil {
		err = failure
	}
	if err != nil {
		return nil, fmt.Errorf("identify the process behind a socket: %w", err)
	}
	if self := os.Geteuid(); int(cred.Uid) != self {
		return nil, fmt.Errorf("process %d behind the socket is of user %d, this one of user %d: not trusted", cred.Pid, cred.Uid, self)
	}
	return &localConn{socket, &net.UnixAddr{Net: "unix", Name: fmt.Sprintf("@pid %d", cred.Pid)}}, nil
}
