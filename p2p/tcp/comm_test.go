package tcp_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/inproc"
	"hcclps/p2p/p2ptest"
	"hcclps/p2p/sockets"
	"hcclps/p2p/sockets/certs"
	"hcclps/p2p/tcp"
)

// connected makes both ends of some connections at addr.
func connected(tb testing.TB, network sockets.Network, addr string, stripes int) (client, server []net.Conn) {
	tb.Helper()
	l, err := network.Listen(tb.Context(), addr)
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	for range stripes {
		accepted := make(chan net.Conn, 1)
		go func() {
			defer close(accepted)
			if s, err := l.Accept(); err == nil {
				_, _ = s.Write(nil) // opens the door
				accepted <- s
			}
		}()
		c, err := network.Dial(tb.Context(), l.Addr().String())
		if err != nil {
			tb.Fatal(err)
		}
		s := <-accepted
		if s == nil {
			tb.Fatal("nothing accepted")
		}
		client, server = append(client, c), append(server, s)
	}
	return client, server
}

// secured makes a network with certificates of a new CA.
func secured(tb testing.TB) sockets.Network {
	tb.Helper()
	dir := tb.TempDir()
	crt, key, ca := filepath.Join(dir, "crt"), filepath.Join(dir, "key"), filepath.Join(dir, "ca")
	authority, err := certs.NewAuthority("test", time.Hour)
	if err != nil {
		tb.Fatal(err)
	}
	pair, err := authority.Issue(certs.Request{Name: "someone", Validity: time.Hour})
	if err == nil {
		err = errors.Join(pair.Write(crt, key), os.WriteFile(ca, authority.Pair().Cert, 0o600))
	}
	if err != nil {
		tb.Fatal(err)
	}
	network, err := sockets.New(sockets.Config{TLSCert: crt, TLSKey: key, TLSCA: ca})
	if err != nil {
		tb.Fatal(err)
	}
	return network
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
	protected := secured(tb)
	return map[string]func() (a, b []net.Conn){
		"tcp": func() (a, b []net.Conn) { return connected(tb, sockets.Network{}, "127.0.0.1:0", stripes) },
		"tls": func() (a, b []net.Conn) { return connected(tb, protected, "127.0.0.1:0", stripes) },
		"unix": func() (a, b []net.Conn) {
			return connected(tb, sockets.Network{}, "unix:"+filepath.Join(tb.TempDir(), "s"), stripes)
		},
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
	before := cpuSeconds(b)
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
	b.ReportMetric((cpuSeconds(b)-before)/(float64(b.N)*float64(size)/1e9), "cpu-s/GB")
}

// cpuSeconds is what this process, which is both ranks, has used.
func cpuSeconds(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}
