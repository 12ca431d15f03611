package link_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p"
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

// noBulk refuses dials from the second to the last.
type noBulk struct {
	link.Network
	dials, last int
}

func (n *noBulk) Dial(ctx context.Context, to string) (net.Conn, error) {
	if n.dials++; n.dials >= 2 && n.dials <= n.last {
		return nil, errors.New("no more ports")
	}
	return n.Network.Dial(ctx, to)
}

func TestBulkConnectionCannotBeMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, echo(nil), func(s *settings) { s.network = &noBulk{Network: s.network, last: 6} })
		_, err := w.call(link.Call{Head: []byte("echo")}) // needs none
		check(t, err)
		_, err = w.call(link.Call{Head: []byte("echo"), Body: [][]byte{make([]byte, 1<<20)}})
		want(t, err, link.ErrPeer, "bulk connection", "send 2 with s1: 0 of 1048576 bytes, 4 tries", "no more ports")
		w.ping()
	})
}

func TestBulkConnectionIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, echo(nil), func(s *settings) { s.network = &noBulk{Network: s.network, last: 5} })
		w.ping()
		if logs := w.logs.String(); strings.Count(logs, "no more ports") != 4*2 {
			t.Errorf("both sides are to log each try and its cause: %s", logs)
		}
	})
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

// acceptOne accepts one control connection without a Server: hello, welcome, then what the test does by hand.
func acceptOne(t *testing.T, ln net.Listener) net.Conn {
	t.Helper()
	conn, err := ln.Accept()
	check(t, err)
	_, err = link.AcceptHello(t.Context(), conn, link.Identity{Cluster: "c", ID: "s2"})
	check(t, err)
	_, err = conn.Write([]byte{13, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0})
	check(t, err)
	return conn
}

func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, nil2(), nil)
		ln, err := w.net.Listen(t.Context(), "dumb:1")
		check(t, err)
		defer func() { _ = ln.Close() }()
		go func() {
			conn := acceptOne(t, ln)
			_, _ = io.Copy(io.Discard, conn) // hears all, says nothing
			_ = conn.Close()
		}()
		began := time.Now()
		_, err = w.client.Call(t.Context(), "dumb:1", link.Call{To: "s2"})
		want(t, err, link.ErrPeer, "silent for 2s", "dumb:1", "s2")
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("noticed after %v", took)
		}
	})
}

func TestReplyEndsWithTheHandlersTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		replied := make(chan error, 1)
		w := start(t, func(_ context.Context, r *link.Request) {
			replied <- r.Reply(nil, make([]byte, 4<<20))
		}, func(s *settings) { s.server.Timeout = time.Minute })
		began := time.Now()
		r, err := w.client.Call(t.Context(), addr, link.Call{Alloc: func(n int) ([]byte, error) { // the caller takes nothing while it is in here
			want(t, <-replied, link.ErrPeer, "did not take a reply's body within 1m0s")
			return make([]byte, n), nil
		}})
		if took := time.Since(began); took != time.Minute {
			t.Errorf("Reply returned after %v", took)
		}
		want(t, err, link.ErrPeer)
		if r.Body != nil {
			t.Errorf("an answer of %d bytes", len(r.Body))
		}
		if r, err := w.call(link.Call{}); err != nil || len(r.Body) != 4<<20 {
			t.Errorf("the next call brought %d bytes: %v", len(r.Body), err)
		}
		check(t, <-replied)
	})
}

func TestIdleConnectionLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, echo(func(ctx context.Context, r *link.Request) {
			<-time.After(25 * time.Second)
			_ = r.Reply([]byte("at last"))
		}), nil)
		r, err := w.call(link.Call{Head: []byte("wait")})
		if err != nil || string(r.Head) != "at last" {
			t.Errorf("%v, %q", err, r.Head)
		}
		<-time.After(time.Hour)
		w.ping()
		if n := len(w.net.dialled()); n != 2 {
			t.Errorf("%d connections after an idle hour", n)
		}
	})
}

func TestDeadAddressFailsFast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counted := &noBulk{}
		w := start(t, echo(nil), func(s *settings) {
			counted.Network = s.network
			s.network = counted
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		calls := 0
		for ctx.Err() == nil {
			_, err := w.client.Call(ctx, "nobody:1", link.Call{})
			want(t, err, link.ErrUnreachable, "nobody:1", "refused")
			calls++
			<-time.After(time.Millisecond)
		}
		if calls < 9000 || counted.dials > 60 {
			t.Errorf("%d calls failed in 10 s, with %d dials", calls, counted.dials)
		}
		ln, err := w.net.Listen(t.Context(), "nobody:1")
		check(t, err)
		go func() { _ = acceptOne(t, ln).Close() }()
		<-time.After(time.Second)
		_, err = w.client.Call(t.Context(), "nobody:1", link.Call{})
		want(t, err, link.ErrPeer)
		_ = ln.Close()
	})
}

func TestUnansweredDialIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, echo(nil), func(s *settings) { s.client.Network = blackHole{} })
		began := time.Now()
		_, err := w.client.Call(t.Context(), addr, link.Call{})
		want(t, err, link.ErrUnreachable, "no connection within 1s")
		if took := time.Since(began); took != time.Second {
			t.Errorf("gave up after %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		cancel()
		<-time.After(time.Second)
		_, err = w.client.Call(ctx, addr, link.Call{})
		want(t, err, context.Canceled)
	})
}

// blackHole never answers.
type blackHole struct{ link.Network }

func (blackHole) Dial(ctx context.Context, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

func TestMalformedFramesEndTheConnection(t *testing.T) {
	head := func(n uint32, kind byte, id uint64) []byte {
		b := binary.LittleEndian.AppendUint32(nil, n)
		return binary.LittleEndian.AppendUint64(append(b, kind), id)
	}
	grant := func(epoch uint32, id uint64, bytes uint32) []byte {
		return p2p.AppendSignal(nil, p2p.Signal{Kind: p2p.SignalGrant, Epoch: epoch, ID: id, Bytes: bytes})
	}
	call := append(head(21, 1, 5), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	cases := map[string][]byte{
		"too long":           head(1<<20, 1, 1),
		"too short":          head(8, 5, 0),
		"unknown kind":       head(9, 99, 1),
		"reply from caller":  append(head(21, 2, 5), make([]byte, 12)...),
		"second welcome":     append(head(13, 7, 0), 1, 0, 0, 0),
		"head over the end":  append(head(21, 1, 5), 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0),
		"body of 2^63":       append(head(21, 1, 5), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80),
		"unknown priority":   append(head(21, 1, 5), 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
		"grant of nothing":   append(head(34, 3, 0), grant(0, 77, 1)...),
		"grant of 0 bytes":   append(head(34, 3, 0), grant(0, 77, 0)...),
		"grant of epoch 9":   append(head(34, 3, 0), grant(9, 77, 1)...),
		"id used twice":      append(append([]byte(nil), call...), call...),
		"grant of no body":   append(append([]byte(nil), call...), append(head(34, 3, 0), grant(0, 5, 1)...)...),
		"payload of a beat":  append(head(10, 5, 0), 1),
		"other protocol":     []byte("GET / HTTP/1.1\r\n\r\n"),
		"bytes after a call": append(head(22, 1, 5), make([]byte, 13)...),
	}
	for name, bad := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, echo(func(ctx context.Context, _ *link.Request) { <-ctx.Done() }), nil)
				conn, err := w.net.Dial(t.Context(), addr)
				check(t, err)
				_, err = link.SendHello(t.Context(), conn, link.Hello{Cluster: "c", From: "w9", Purpose: link.Control, Pair: 4})
				check(t, err)
				_, err = conn.Write(bad)
				check(t, err)
				said, err := io.ReadAll(conn)
				if err != nil || !strings.Contains(string(said), "malformed") {
					t.Errorf("the server said %q, %v", said, err)
				}
				_ = conn.Close()
				if logs := w.logs.String(); !strings.Contains(logs, "malformed") || !strings.Contains(logs, "w9") || !strings.Contains(logs, "offset=") {
					t.Errorf("logged: %s", logs)
				}
				w.ping() // others are served
			})
		})
	}
}

func TestFloodOfCallsEndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, echo(func(ctx context.Context, _ *link.Request) { <-ctx.Done() }), func(s *settings) { s.server.MaxRequests = 3 })
		conn, err := w.net.Dial(t.Context(), addr)
		check(t, err)
		_, err = link.SendHello(t.Context(), conn, link.Hello{Cluster: "c", From: "w9", Purpose: link.Control, Pair: 4})
		check(t, err)
		for id := range byte(7) {
			_, err = conn.Write([]byte{21, 0, 0, 0, 1, id, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
			check(t, err)
		}
		said, err := io.ReadAll(conn)
		if err != nil || !strings.Contains(string(said), "more than the 3 calls") {
			t.Errorf("the server said %q, %v", said, err)
		}
		_ = conn.Close()
	})
}

func nil2() link.HandlerFunc { return func(context.Context, *link.Request) {} }

func TestRunEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := link.NewClient(link.Config{Network: blackHole{}, Pair: pair, ID: "w"})
		check(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		before, after := make(chan error), make(chan error)
		go func() {
			_, err := client.Call(ctx, addr, link.Call{}) // before Run
			before <- err
		}()
		synctest.Wait()
		go func() { after <- client.Run(ctx) }()
		synctest.Wait()
		cancel()
		if err := <-before; !errors.Is(err, context.Canceled) && !errors.Is(err, link.ErrStopped) {
			t.Errorf("call ended with %v", err)
		}
		check(t, <-after)
		_, err = client.Call(t.Context(), addr, link.Call{})
		want(t, err, link.ErrStopped)
		if client.Run(t.Context()) == nil {
			t.Error("it ran twice")
		}
	})
}

func TestConfigIsChecked(t *testing.T) {
	_, err := link.NewClient(link.Config{Heartbeat: time.Hour, Limits: link.Limits{Window: -1, Chunk: 1 << 30}})
	for _, s := range []string{"network", "pair", "id", "window -1", "chunk", "heartbeat"} {
		if err == nil || !strings.Contains(err.Error(), s) {
			t.Errorf("%v does not say %q", err, s)
		}
	}
	_, err = link.NewServer(link.ServerConfig{Limits: link.Limits{MaxRequests: 1 << 20}})
	for _, s := range []string{"pair", "handler", "max requests"} {
		if err == nil || !strings.Contains(err.Error(), s) {
			t.Errorf("%v does not say %q", err, s)
		}
	}
}
