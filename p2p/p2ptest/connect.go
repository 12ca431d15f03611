package p2ptest

import (
	"net"
	"testing"

	"hcclps/p2p/sockets"
)

// Connect makes n connections at addr, 127.0.0.1:0 or unix:PATH, through sockets as backends get them: ends[0] dialled, ends[1] accepted.
func Connect(t testing.TB, addr string, n int) (ends [2][]net.Conn) {
	t.Helper()
	network, err := sockets.New(sockets.Config{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := network.Listen(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	for range n {
		dialled, err := network.Dial(t.Context(), l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		accepted, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		ends[0], ends[1] = append(ends[0], dialled), append(ends[1], accepted)
	}
	return ends
}
