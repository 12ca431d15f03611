package p2ptest

import (
	"net"
	"testing"

	"hcclps/p2p/sockets"
)

// FreeAddr is an address of loopback at which nobody listens, for a process that is to be started: see [sockets.FreePort].
func FreeAddr(t testing.TB) *net.TCPAddr {
	t.Helper()
	port, err := sockets.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}
}
