package link_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p/link"
)

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
