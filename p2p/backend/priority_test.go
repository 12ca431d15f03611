package backend_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hcclps/p2p/backend"
	"hcclps/p2p/link"
	"hcclps/p2p/p2ptest"
	"hcclps/p2p/sockets"
)

// counted is a sink that counts what it has taken. When that is a twentieth it closes begun and waits for asked; from then on until passed it takes
// 100 MiB a second, so that it is not through before others have had the processor.
type counted struct {
	p2ptest.Pattern
	taken                atomic.Int64
	begun, asked, passed chan struct{}
}

func (c *counted) Take(off int, b []byte) error {
	now, n, mark := c.taken.Add(int64(len(b))), int64(len(b)), int64(c.N/20)
	if now >= mark && now-n < mark {
		close(c.begun)
	}
	if now >= mark {
		<-c.asked
		select {
		case <-c.passed:
		case <-time.After(time.Duration(n) * time.Second / (100 << 20)):
		}
	}
	return c.Pattern.Take(off, b)
}

// A pull is granted ahead of what is left of a push of 400 MiB that began before it, over real sockets.
func TestPullPassesLargePush(t *testing.T) {
	const large, small = 400 << 20, 1 << 20
	push := &counted{
		Pattern: p2ptest.Pattern{Seed: 1, N: large},
		begun:   make(chan struct{}), asked: make(chan struct{}), passed: make(chan struct{}),
	}
	ask, pass := sync.OnceFunc(func() { close(push.asked) }), sync.OnceFunc(func() { close(push.passed) })
	pull := p2ptest.Pattern{Seed: 2, N: small}
	var before, after int64 // bytes of the push when the pull's body was asked for, and when it was there
	serve := func(ctx context.Context, r *link.Request) {
		var err error
		if string(r.Head) == "push" {
			err = r.BodyTo(ctx, push)
		} else {
			before = push.taken.Load()
			ask()
			err = r.BodyTo(ctx, pull)
			after = push.taken.Load()
			pass()
		}
		if err == nil {
			err = r.Reply(nil)
		}
		if err != nil {
			t.Errorf("serve %s: %v", r.Head, err)
		}
	}
	client, addr := serveLink(t, serve, link.Limits{MaxBody: large})
	call := func(what string, priority link.Priority, body p2ptest.Pattern) {
		if _, err := client.Call(t.Context(), addr, link.Call{Head: []byte(what), Source: body, Priority: priority}); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	var pushing sync.WaitGroup
	pushing.Go(func() { call("push", link.Push, push.Pattern) })
	select {
	case <-push.begun:
	case <-time.After(callFor):
		t.Fatal("the push does not begin")
	}
	call("pull", link.Pull, pull)
	ask() // it may have failed
	pass()
	t.Logf("the pull came when %d and was through when %d of %d MiB of the push were", before>>20, after>>20, large>>20)
	if before < large/20 || after >= large/2 {
		t.Errorf("the pull waited from %d to %d of %d", before, after, large)
	}
	pushing.Wait()
	if n := push.taken.Load(); n != large {
		t.Errorf("%d bytes of the push were taken", n)
	}
}

// serveLink runs a server on loopback TCP, and a client of it, until the test ends.
func serveLink(t *testing.T, serve link.HandlerFunc, limits link.Limits) (client *link.Client, addr string) {
	t.Helper()
	server, err := link.NewServer(link.ServerConfig{Handler: serve, Pair: backend.Pair, Limits: limits})
	check(t, err)
	client, err = link.NewClient(link.Config{Network: sockets.Network{}, Pair: backend.Pair, Cluster: "c", ID: "w", Limits: limits})
	check(t, err)
	l, err := sockets.Network{}.Listen(t.Context(), "127.0.0.1:0")
	check(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	gate := link.Gate{Identity: link.Identity{Cluster: "c", ID: "s"}, Handle: server.Accept}
	var all sync.WaitGroup
	all.Go(func() { _ = gate.Serve(ctx, l) })
	all.Go(func() { _ = server.Run(ctx) })
	all.Go(func() { _ = client.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		all.Wait()
	})
	return client, l.Addr().String()
}
