package tcp_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"hcclps/p2p/sockets"
	"hcclps/p2p/tcp"
)

// wrapped is a connection with something around it that might spoil what goes through.
type wrapped struct{ net.Conn }

// TestSumsWhereTheyProtect: whoever dialled and whoever was dialled both see what a connection is, whatever stands at its door.
func TestSumsWhereTheyProtect(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(secret, []byte("a secret of this test"), 0o600); err != nil {
		t.Fatal(err)
	}
	guarded, err := sockets.New(sockets.Config{TokenFile: secret})
	if err != nil {
		t.Fatal(err)
	}
	const overTCP, overUnix = "127.0.0.1:0", "unix"
	for _, c := range []struct {
		name    string
		network sockets.Network
		addr    string
		wrap    bool
		sums    bool
	}{
		{"tcp", sockets.Network{}, overTCP, false, true},
		{"tcp with a token", guarded, overTCP, false, true},
		{"tls", secured(t), overTCP, false, false},
		{"unix", sockets.Network{}, overUnix, false, false},
		{"unix with a token", guarded, overUnix, false, false},
		{"unix in a wrapper", sockets.Network{}, overUnix, true, true},
		{"tls in a wrapper", secured(t), overTCP, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			addr := c.addr
			if addr == overUnix {
				addr = "unix:" + filepath.Join(t.TempDir(), "s")
			}
			a, b := connected(t, c.network, addr, 1)
			if c.wrap {
				a, b = []net.Conn{wrapped{a[0]}}, []net.Conn{wrapped{b[0]}}
			}
			for side, conns := range map[string][]net.Conn{"dialler": a, "acceptor": b} {
				comm := tcp.Pair(conns, 0)
				if comm.Sums() != c.sums {
					t.Errorf("the %s sends with sums: %v, want %v", side, comm.Sums(), c.sums)
				}
				_ = comm.Close()
			}
		})
	}
}
