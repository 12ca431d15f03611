package link_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/link"
)

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
		w := start(t, func(context.Context, *link.Request) {}, nil)
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
