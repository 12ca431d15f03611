package tcp

import (
	"crypto/tls"
	"net"
	"syscall"
)

// What a connection can do tells what it is; around one that only looks like another, as a proxy's, these methods are lost.
type (
	// encrypted is TLS.
	encrypted interface{ ConnectionState() tls.ConnectionState }
	// local is a Unix socket.
	local interface {
		ReadFromUnix(b []byte) (int, *net.UnixAddr, error)
	}
	// tcpSocket is a TCP socket, of which package sockets may have taken the first bytes.
	tcpSocket interface {
		syscall.Conn
		SetNoDelay(noDelay bool) error
	}
	// gathering is a connection that is no socket and still has a better way than one Write after the other.
	gathering interface {
		WriteBuffers(vectors net.Buffers) (int, error)
	}
)

// sound says whether bytes that come out of conn are those that went in, as far as a CRC could tell.
func sound(conn net.Conn) bool {
	switch conn.(type) {
	case encrypted, local:
		return true
	default:
		return false
	}
}

// writeVectors writes all of them, in one system call where conn can. It empties vectors.
func writeVectors(conn net.Conn, vectors *net.Buffers) error {
	if c, ok := conn.(gathering); ok {
		_, err := c.WriteBuffers(*vectors)
		return err
	}
	_, err := vectors.WriteTo(conn)
	return err
}
