package link_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p/inproc"
	"hcclps/p2p/link"
)

// greet lets one side say h to an acceptor that is self.
func greet(t *testing.T, h link.Hello, self link.Identity) (dialled, accepted link.Hello, dialErr, acceptErr error) {
	t.Helper()
	a, b := inproc.Pipe(0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		accepted, acceptErr = link.AcceptHello(t.Context(), b, self)
		_ = b.Close()
	}()
	dialled, dialErr = link.SendHello(t.Context(), a, h)
	_ = a.Close()
	<-done
	return dialled, accepted, dialErr, acceptErr
}

func TestHello(t *testing.T) {
	self := link.Identity{Cluster: "c", ID: "s1", Info: "host 1, pid 2"}
	for name, c := range map[string]struct {
		hello link.Hello
		kind  error
		texts []string // said on both sides
	}{
		"welcome":         {hello: link.Hello{Cluster: "c", From: "w1", To: "s1", Purpose: link.Bulk, Pair: 7, Epoch: 3, Stripe: 1, Stripes: 2, Info: "i"}},
		"no recipient":    {hello: link.Hello{Cluster: "c", From: "w1", Purpose: link.Control}},
		"wrong cluster":   {link.Hello{Cluster: "d", From: "w1", Purpose: link.Control}, link.ErrWrongCluster, []string{`"d"`, `"c"`, "s1"}},
		"wrong recipient": {link.Hello{Cluster: "c", From: "w1", To: "s2", Purpose: link.RaftBulk}, link.ErrWrongRecipient, []string{`"s2"`, `"s1"`}},
		"wrong version":   {link.Hello{Version: 9, Cluster: "c", From: "w1", Purpose: link.Control}, link.ErrVersion, []string{"9", fmt.Sprint(link.Version)}},
		"no stripe":       {link.Hello{Cluster: "c", From: "w1", Purpose: link.Bulk}, link.ErrMalformed, []string{"stripe 0 of 0"}},
		"odd stripes":     {link.Hello{Cluster: "c", From: "w1", Purpose: link.Control, Stripes: 1}, link.ErrMalformed, []string{"stripe 0 of 1"}},
		"unknown purpose": {link.Hello{Cluster: "c", From: "w1", Purpose: 77}, link.ErrMalformed, []string{"purpose 77"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				peer, got, dialErr, acceptErr := greet(t, c.hello, self)
				if c.kind != nil {
					want(t, dialErr, c.kind, c.texts...)
					want(t, acceptErr, c.kind, c.texts...)
					return
				}
				check(t, dialErr)
				check(t, acceptErr)
				c.hello.Version = link.Version
				if got != c.hello {
					t.Errorf("accepted %+v, want %+v", got, c.hello)
				}
				if peer.From != "s1" || peer.Cluster != "c" || peer.Info != self.Info || peer.Pair != c.hello.Pair {
					t.Errorf("the dialler learnt %+v", peer)
				}
			})
		})
	}
	_, err := link.SendHello(t.Context(), nil, link.Hello{From: strings.Repeat("x", 256)})
	want(t, err, link.ErrTooLarge, "256")
}

func TestHelloOfStrangers(t *testing.T) {
	for name, said := range map[string]string{
		"http":     "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"long":     "\xff\xff\xff\x00",
		"short":    "\x03\x00\x00\x00hcl",
		"rubbish":  "\x10\x00\x00\x000123456789abcdef",
		"trailing": "\x20\x00\x00\x00hclp\x03\x00\x01" + strings.Repeat("\x00", 25),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := inproc.Pipe(0)
				go func() { _, _ = a.Write([]byte(said)) }()
				_, err := link.AcceptHello(t.Context(), b, link.Identity{Cluster: "c", ID: "s"})
				want(t, err, link.ErrMalformed)
				_ = b.Close()
				answer, _ := io.ReadAll(a)
				if !strings.Contains(string(answer), "hclp") || !strings.Contains(string(answer), "malformed") {
					t.Errorf("the stranger was told %q", answer)
				}
				_ = a.Close()
			})
		})
	}
}

func TestHelloIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, f := range map[string]func(context.Context, net.Conn) error{
			"send": func(ctx context.Context, c net.Conn) error {
				_, err := link.SendHello(ctx, c, link.Hello{From: "w", Purpose: link.Control})
				return err
			},
			"accept": func(ctx context.Context, c net.Conn) error {
				_, err := link.AcceptHello(ctx, c, link.Identity{})
				return err
			},
		} {
			a, b := inproc.Pipe(0)
			began := time.Now()
			want(t, f(t.Context(), a), link.ErrPeer, "silent for 3s")
			if took := time.Since(began); took != 3*time.Second {
				t.Errorf("%s gave up after %v", name, took)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			want(t, f(ctx, a), context.DeadlineExceeded)
			cancel()
			_ = b.Close()
			want(t, f(t.Context(), b), net.ErrClosed)
			_ = a.Close()
		}
	})
}

func TestGateBoundsHalfOpenConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, echo(nil), func(s *settings) { s.halfOpen = 2 })
		began := time.Now()
		for range 4 { // say nothing
			conn, err := w.net.Dial(t.Context(), addr)
			check(t, err)
			defer func() { _ = conn.Close() }()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		h := link.Hello{Cluster: "c", From: "w2", Purpose: link.Control}
		for {
			conn, err := w.net.Dial(ctx, addr)
			check(t, err)
			_, err = link.SendHello(ctx, conn, h)
			_ = conn.Close()
			if err == nil {
				break
			}
			want(t, err, link.ErrPeer)
		}
		if took := time.Since(began); took < 6*time.Second || took > 7*time.Second {
			t.Errorf("let in after %v, want two silent pairs of 3 s later", took)
		}
		w.ping()
	})
}

func TestStrayBulkConnectionIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, echo(nil), nil)
		for _, h := range []link.Hello{
			{Cluster: "c", From: "w1", Purpose: link.Bulk, Pair: 5, Stripes: 1},
			{Cluster: "c", From: "w1", Purpose: link.Upgrade, Pair: 5, Stripes: 1},
			{Cluster: "c", From: "w1", Purpose: link.RaftBulk},
		} {
			conn, err := w.net.Dial(t.Context(), addr)
			check(t, err)
			_, err = link.SendHello(t.Context(), conn, h)
			check(t, err)
			if _, err := conn.Read(make([]byte, 1)); err == nil {
				t.Error("it was kept")
			}
			_ = conn.Close()
		}
		w.ping()
	})
}

func TestDialerSeesWhoAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, echo(nil), nil)
		w.ping()
		if logs := w.logs.String(); !strings.Contains(logs, `msg=connected addr=server:1 peer=s1 info="host 1"`) {
			t.Errorf("the caller's log does not introduce the server:\n%s", logs)
		}
	})
}

// A caller with TLS or a token at a server with neither is told why, and so is the server's log.
func TestStrangersAtAPlainServer(t *testing.T) {
	for begin, says := range map[string]string{"\x16\x03\x01\x05\x00\x01": "speaks TLS", "hct\x01": "shows a token"} {
		a, b := inproc.Pipe(0)
		_, err := a.Write([]byte(begin))
		check(t, err)
		go func() { _, _ = io.Copy(io.Discard, a); _ = a.Close() }()
		_, err = link.AcceptHello(t.Context(), b, link.Identity{})
		want(t, err, link.ErrMalformed, says)
		_ = b.Close()
	}
}
