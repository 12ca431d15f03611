package link_test

import (
	"bytes"
	"context"
	"flag"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hcclps/p2p/link"
	"hcclps/p2p/p2ptest"
	"hcclps/p2p/sockets"
)

var badCalls = flag.Int("calls", 100, "calls of TestBadNetwork")

// detour is a Network whose first connection is a direct one; the others go through a proxy.
type detour struct {
	boundNetwork
	proxy string
	dials atomic.Int64
}

func (d *detour) Dial(ctx context.Context, addr string) (net.Conn, error) {
	if d.dials.Add(1) > 1 {
		addr = d.proxy
	}
	return d.boundNetwork.Dial(ctx, addr)
}

// TestBadNetwork makes calls with bodies of random sizes, both ways, while the bulk connections are cut, stand still
// and have bits flipped. No call may fail, or bring other bytes.
func TestBadNetwork(t *testing.T) {
	n := &detour{}
	proxyLn, err := sockets.Network{}.Listen(t.Context(), "127.0.0.1:0")
	check(t, err)
	n.proxy = proxyLn.Addr().String()
	w := start(t, echo(nil), func(s *settings) {
		s.network, s.addr = n, "127.0.0.1:0"
		s.server.Chunk, s.client.Chunk = 128<<10, 256<<10
		s.server.Stall, s.client.Stall = 400*time.Millisecond, 400*time.Millisecond
		s.client.Stripes = 2
	})
	proxy := &p2ptest.Proxy{
		Seed: rand.Uint64(), Cut: 0.002, Stall: 0.0005, Corrupt: 0.001, Spare: 200,
		Dial: func(ctx context.Context) (net.Conn, error) { return n.boundNetwork.Dial(ctx, n.bound) },
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	served := make(chan error, 1)
	go func() { served <- proxy.Serve(ctx, proxyLn) }()
	jobs := make(chan int)
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for i := range jobs {
				body := noise(link.MaxInline+rand.IntN(4<<20), uint64(i))
				cut := rand.IntN(len(body))
				r, err := w.client.Call(ctx, n.bound, link.Call{Head: []byte("echo"), Body: [][]byte{body[:cut], body[cut:]}, Priority: link.Priority(i % 3)})
				if err != nil || !bytes.Equal(r.Body, body) {
					t.Errorf("call %d: %d bytes of %d came back: %v", i, len(r.Body), len(body), err)
				}
			}
		})
	}
	for i := range *badCalls {
		jobs <- i
	}
	close(jobs)
	callers.Wait()
	s := w.client.Stats()
	t.Logf("seed %d: %d cuts, %d stalls, %d bits flipped; %d epochs lost, %d of %d bytes resumed, %d moved again",
		proxy.Seed, proxy.Cuts.Load(), proxy.Stalls.Load(), proxy.Corruptions.Load(), s.Resets, s.Resumed, s.Sent+s.Received, s.Again)
	if s.Resets == 0 || s.Resumed == 0 {
		t.Errorf("nothing went wrong: %+v", s)
	}
	cancel()
	w.stop()
	check(t, <-served)
}
