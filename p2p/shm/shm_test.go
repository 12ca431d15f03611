package shm_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"hcclps/p2p"
	"hcclps/p2p/inproc"
	"hcclps/p2p/p2ptest"
	"hcclps/p2p/shm"
)

// sockets makes both ends of a connection of a network.
func sockets(tb testing.TB, network, addr string) (client, server net.Conn) {
	tb.Helper()
	l, err := net.Listen(network, addr)
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	client, err = net.Dial(network, l.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	server, err = l.Accept()
	if err != nil {
		tb.Fatal(err)
	}
	return client, server
}

// connections are the kinds of connection that memory is negotiated over.
func connections(t *testing.T) map[string]func() (net.Conn, net.Conn) {
	t.Helper()
	return map[string]func() (net.Conn, net.Conn){
		"unix":   func() (net.Conn, net.Conn) { return sockets(t, "unix", filepath.Join(t.TempDir(), "s")) },
		"tcp":    func() (net.Conn, net.Conn) { return sockets(t, "tcp", "127.0.0.1:0") },
		"inproc": func() (net.Conn, net.Conn) { return inproc.Pipe(0) },
	}
}

// negotiate makes both ranks over two ends.
func negotiate(tb testing.TB, a, b net.Conn, config [2]shm.Config) ([2]*shm.Comm, [2]error) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var comms [2]*shm.Comm
	var errs [2]error
	var wg sync.WaitGroup
	for r, conn := range []net.Conn{a, b} {
		wg.Go(func() { comms[r], errs[r] = shm.Negotiate(ctx, conn, r, config[r]) })
	}
	wg.Wait()
	return comms, errs
}

// run makes the pair over two ends and runs both ranks until the test is over.
func run(tb testing.TB, a, b net.Conn) [2]*shm.Comm {
	tb.Helper()
	comms, errs := negotiate(tb, a, b, [2]shm.Config{})
	if err := errors.Join(errs[:]...); err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, c := range comms {
		wg.Go(func() { _ = c.Run(ctx) })
	}
	tb.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return comms
}

func TestPair(t *testing.T) {
	for name, connect := range connections(t) {
		t.Run(name, func(t *testing.T) {
			p2ptest.TestComm(t, func(t *testing.T, n int) []p2p.Comm {
				t.Helper()
				if n != 2 {
					t.Skip("a pair has two ranks")
				}
				a, b := connect()
				comms := run(t, a, b)
				return []p2p.Comm{comms[0], comms[1]}
			})
		})
	}
}
