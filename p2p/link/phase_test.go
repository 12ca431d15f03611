package link_test

import (
	"context"
	"errors"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p/link"
)

// Phases of a call at which it can be cancelled or lose its peer. The handler tells when one is reached and then waits for its context.
var phases = []string{"inline", "announced", "receiving", "received", "replying"}

// slowNet holds the acceptor's or the dialler's writes on the bulk connection back once it has written limit bytes, until release is closed.
type slowNet struct {
	link.Network
	bulk    int // which dialled connection is the bulk one
	limit   int64
	release chan struct{}
	dials   int
}

type slowConn struct {
	net.Conn
	left    int64
	release chan struct{}
	closed  chan struct{}
}

func (n *slowNet) Dial(ctx context.Context, to string) (net.Conn, error) {
	conn, err := n.Network.Dial(ctx, to)
	n.dials++
	if err != nil || n.dials != n.bulk {
		return conn, err
	}
	return &slowConn{Conn: conn, left: n.limit, release: n.release, closed: make(chan struct{})}, nil
}

func (c *slowConn) pass(n int) {
	if c.left -= int64(n); c.left < 0 {
		select {
		case <-c.release:
		case <-c.closed:
		}
	}
}

func (c *slowConn) Read(b []byte) (int, error) {
	c.pass(0)
	n, err := c.Conn.Read(b)
	c.pass(n)
	return n, err
}

func (c *slowConn) Close() error {
	select {
	case <-c.closed:
	default:
		close(c.closed)
	}
	return c.Conn.Close()
}

// phased is a handler that stops at the phase named by the head. ends gets the reason why it went on.
func phased(reached chan<- string, ends chan<- error) link.HandlerFunc {
	return echo(func(ctx context.Context, r *link.Request) {
		phase := string(r.Head)
		if phase == "inline" || phase == "announced" {
			reached <- phase
			<-ctx.Done()
			ends <- context.Cause(ctx)
			return
		}
		if phase == "receiving" {
			reached <- phase
		}
		if _, err := r.Body(ctx); err != nil {
			ends <- err
			return
		}
		if phase == "received" {
			reached <- phase
			<-ctx.Done()
			ends <- r.Reply([]byte("too late"), make([]byte, 1<<20))
			return
		}
		if phase == "replying" {
			reached <- phase
		}
		ends <- r.Reply(nil, make([]byte, 32<<20))
	})
}

// bodyFor is a body that makes its phase reachable.
func bodyFor(phase string) [][]byte {
	switch phase {
	case "inline", "replying":
		return [][]byte{make([]byte, 100)}
	default:
		return [][]byte{make([]byte, 20<<20), make([]byte, 3)}
	}
}

// atPhase makes a call, waits until it is in its phase, does what and returns the errors of the caller and the handler. The bulk connection
// stands still from the first megabytes on, until what has been done and time has passed.
func atPhase(t *testing.T, phase string, do func(w *world, cancel context.CancelFunc)) (w *world, call, handler error) {
	t.Helper()
	reached, ends, release := make(chan string, 1), make(chan error, 1), make(chan struct{})
	w = start(t, phased(reached, ends), func(s *settings) {
		s.network = &slowNet{Network: s.network, bulk: 2, limit: 300_000, release: release}
	})
	w.ping() // the connections are there
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result := make(chan error, 1)
	began := time.Now()
	go func() {
		_, err := w.client.Call(ctx, addr, link.Call{Head: []byte(phase), Body: bodyFor(phase)})
		result <- err
	}()
	<-reached
	synctest.Wait() // all that can move has moved
	do(w, cancel)
	synctest.Wait()
	close(release)
	call, handler = <-result, <-ends
	if took := time.Since(began); took > 1500*time.Millisecond {
		t.Errorf("it took %v", took)
	}
	return w, call, handler
}

func TestCancelAtEachPhase(t *testing.T) {
	for _, phase := range phases {
		t.Run(phase, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, call, handler := atPhase(t, phase, func(_ *world, cancel context.CancelFunc) { cancel() })
				want(t, call, context.Canceled, addr)
				want(t, handler, link.ErrCancelled)
				for range 3 {
					w.ping() // the Comm is in step
				}
				if n := len(w.net.dialled()); n != 2 {
					t.Errorf("%d connections: cancelling cost the pair", n)
				}
			})
		})
	}
}

func TestPeerDeathAtEachPhase(t *testing.T) {
	for _, phase := range phases {
		t.Run(phase, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, call, handler := atPhase(t, phase, func(w *world, _ context.CancelFunc) {
					_ = w.net.dialled()[0].Close()
				})
				want(t, call, link.ErrPeer, addr)
				want(t, handler, link.ErrPeer)
				w.ping() // over new connections
				if n := len(w.net.dialled()); n != 4 {
					t.Errorf("%d connections, want two pairs", n)
				}
			})
		})
	}
}

// A bulk connection that is lost is replaced, and the bodies go on where they were.
func TestBulkDeathAtEachPhase(t *testing.T) {
	for _, phase := range phases {
		t.Run(phase, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				moving := phase == "receiving" || phase == "replying"
				w, call, handler := atPhase(t, phase, func(w *world, cancel context.CancelFunc) {
					_ = w.net.dialled()[1].Close()
					if !moving {
						synctest.Wait()
						w.ping()
						cancel()
					}
				})
				if moving {
					check(t, call)
					check(t, handler)
				} else {
					want(t, call, context.Canceled, addr)
					want(t, handler, link.ErrCancelled)
				}
				w.ping()
				if n := len(w.net.dialled()); n != 3 {
					t.Errorf("%d connections, want a control connection and two bulk ones", n)
				}
				if logs := w.logs.String(); strings.Count(logs, "bulk comm lost") != 2 || !strings.Contains(logs, "closed") {
					t.Errorf("logged: %s", logs)
				}
			})
		})
	}
}

func TestServerStopsInMidCall(t *testing.T) {
	for _, phase := range phases {
		t.Run(phase, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, call, handler := atPhase(t, phase, func(w *world, _ context.CancelFunc) { w.stop() })
				want(t, call, link.ErrPeer, addr, "link stopped")
				want(t, handler, link.ErrStopped)
			})
		})
	}
}

func TestManyCancelsKeepTheCommInStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, echo(nil), func(s *settings) { s.server.Chunk, s.client.Chunk = 20_000, 30_000 })
		w.ping()
		done := make(chan struct{})
		const n = 200
		for i := range n {
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				defer func() { done <- struct{}{} }()
				body := noise(50_000+i*1000, uint64(i))
				r, err := w.client.Call(ctx, addr, link.Call{Head: []byte("echo"), Body: [][]byte{body}, Priority: link.Priority(i % 3)})
				if err == nil && string(r.Body) != string(body) {
					t.Errorf("call %d got other bytes", i)
				}
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("call %d: %v", i, err)
				}
			}()
			go func() {
				defer func() { done <- struct{}{} }()
				for range i * 7 % 97 {
					runtime.Gosched()
				}
				if i%2 == 0 {
					cancel()
				}
			}()
			defer cancel()
		}
		for range 2 * n {
			<-done
		}
		w.ping()
		if n := len(w.net.dialled()); n != 2 {
			t.Errorf("%d connections: cancelling cost the pair", n)
		}
	})
}
