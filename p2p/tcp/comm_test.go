package tcp_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"hcclps/p2p"
	"hcclps/p2p/inproc"
	"hcclps/p2p/p2ptest"
	"hcclps/p2p/tcp"
)

// sockets makes both ends of some connections at addr.
func sockets(tb testing.TB, addr string, stripes int) (client, server []net.Conn) {
	tb.Helper()
	var network tcp.Network
	l, err := network.Listen(tb.Context(), addr)
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	for range stripes {
		c, err := network.Dial(tb.Context(), l.Addr().String())
		if err != nil {
			tb.Fatal(err)
		}
		s, err := l.Accept()
		if err != nil {
			tb.Fatal(err)
		}
		client, server = append(client, c), append(server, s)
	}
	return client, server
}

// pipes makes both ends of some connections in memory.
func pipes(stripes int) (a, b []net.Conn) {
	for range stripes {
		x, y := inproc.Pipe(0)
		a, b = append(a, x), append(b, y)
	}
	return a, b
}

// run makes the pair over both ends and runs both ranks until the test is over.
func run(tb testing.TB, cfg tcp.Config, a, b []net.Conn) []p2p.Comm {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var comms []p2p.Comm
	for r, conns := range [][]net.Conn{a, b} {
		c := cfg.Pair(conns, r)
		wg.Go(func() { _ = c.Run(ctx) })
		comms = append(comms, c)
	}
	tb.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return comms
}

func kinds(tb testing.TB, stripes int) map[string]func() (a, b []net.Conn) {
	tb.Helper()
	return map[string]func() (a, b []net.Conn){
		"tcp":    func() (a, b []net.Conn) { return sockets(tb, "127.0.0.1:0", stripes) },
		"unix":   func() (a, b []net.Conn) { return sockets(tb, "unix:"+filepath.Join(tb.TempDir(), "s"), stripes) },
		"inproc": func() (a, b []net.Conn) { return pipes(stripes) },
	}
}

func TestPair(t *testing.T) {
	for _, stripes := range []int{1, 3} {
		for name, connect := range kinds(t, stripes) {
			for sums, cfg := range map[string]tcp.Config{"auto": {}, "raw": {Checksum: tcp.ChecksumOff}} {
				t.Run(fmt.Sprintf("%d %s %s", stripes, name, sums), func(t *testing.T) {
					p2ptest.TestComm(t, func(t *testing.T, n int) []p2p.Comm {
						t.Helper()
						if n != 2 {
							t.Skip("a pair has two ranks")
						}
						a, b := connect()
						return run(t, cfg, a, b)
					})
				})
			}
		}
	}
}

func BenchmarkPair(b *testing.B) {
	for _, stripes := range []int{1, 2, 4} {
		for name, connect := range kinds(b, stripes) {
			for sums, cfg := range map[string]tcp.Config{"sum": {Checksum: tcp.ChecksumOn}, "raw": {Checksum: tcp.ChecksumOff}} {
				for _, size := range []int{4 << 10, 1 << 20, 4 << 20} {
					b.Run(fmt.Sprintf("%s%d/%s/%dKiB", name, stripes, sums, size>>10), func(b *testing.B) {
						x, y := connect()
						benchmark(b, run(b, cfg, x, y), size)
					})
				}
			}
		}
	}
}

// benchmark keeps a window of four messages under way, as the control plane does.
func benchmark(b *testing.B, comms []p2p.Comm, size int) {
	b.Helper()
	const window = 4
	out, in := make([]byte, size), make([]byte, window*size)
	var recvs, sends [window]*p2p.Request
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		w := i % window
		if i >= window {
			if err := recvs[w].Wait(b.Context()); err != nil {
				b.Fatal(err)
			}
			if err := sends[w].Wait(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		recvs[w] = comms[1].Irecv(0, p2p.Bytes(in[w*size:(w+1)*size]))
		sends[w] = comms[0].Isend(1, p2p.Bytes(out))
	}
}
