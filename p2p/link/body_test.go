package link_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"hcclps/p2p"
	"hcclps/p2p/link"
)

// mask is a codec: it flips every bit, on either side. It fails from an offset on.
type mask struct {
	b     []byte
	fails int // 0 = never
	got   int
}

var errMask = errors.New("mask slipped")

func (m *mask) Len() int { return len(m.b) }

func (m *mask) Fill(off int, p []byte) error {
	if m.fails > 0 && off+len(p) > m.fails {
		return errMask
	}
	for i := range p {
		p[i] = ^m.b[off+i]
	}
	return nil
}

func (m *mask) Take(off int, p []byte) error {
	if off != m.got {
		return fmt.Errorf("got bytes from %d on, expected %d", off, m.got)
	}
	if m.fails > 0 && off+len(p) > m.fails {
		return errMask
	}
	m.got += len(p)
	for i := range p {
		m.b[off+i] = ^p[i]
	}
	return nil
}

// masked answers with the body it got, by way of a sink and a source; the head says where they fail.
func masked(ctx context.Context, r *link.Request) {
	m := &mask{b: make([]byte, r.BodyLen)}
	answer := &mask{b: m.b}
	switch string(r.Head) {
	case "mask: sink fails":
		m.fails = r.BodyLen / 2
	case "mask: source fails":
		answer.fails = r.BodyLen / 2
	}
	if err := r.BodyTo(ctx, m); err != nil {
		_ = r.Reply(fmt.Append(nil, err))
		return
	}
	_ = r.ReplyFrom([]byte("done"), answer)
}

func TestSourcesAndSinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, echo(masked), nil)
		w.ping()
		for _, n := range []int{0, 1, link.MaxInline, link.MaxInline + 1, 5<<20 + 3} {
			body := noise(n, uint64(n))
			back := &mask{b: make([]byte, n)}
			r, err := w.call(link.Call{Head: []byte("mask"), Source: &mask{b: body}, Sink: func(int) (p2p.Sink, error) { return back, nil }})
			if err != nil || r.Body != nil || !bytes.Equal(back.b, body) {
				t.Errorf("%d bytes: %v", n, err)
			}
		}
		for _, n := range []int{100, 5 << 20} {
			sink := func(fails int) func(int) (p2p.Sink, error) {
				return func(n int) (p2p.Sink, error) { return &mask{b: make([]byte, n), fails: fails}, nil }
			}
			source := func(fails int) *mask { return &mask{b: noise(n, 1), fails: fails} }
			_, err := w.call(link.Call{Head: []byte("mask"), Source: source(n / 2), Sink: sink(0)})
			want(t, err, errMask)
			_, err = w.call(link.Call{Head: []byte("mask"), Source: source(0), Sink: sink(n / 2)})
			want(t, err, errMask)
			_, err = w.call(link.Call{Head: []byte("mask"), Source: source(0), Sink: func(int) (p2p.Sink, error) { return nil, errMask }})
			want(t, err, errMask)
			_, err = w.call(link.Call{Head: []byte("mask"), Source: source(0), Sink: func(int) (p2p.Sink, error) { return &mask{}, nil }})
			if err == nil {
				t.Error("a sink of another length is taken")
			}
			_, err = w.call(link.Call{Head: []byte("mask: source fails"), Source: source(0), Sink: sink(0)})
			want(t, err, link.ErrNoReply)
			r, err := w.call(link.Call{Head: []byte("mask: sink fails"), Source: source(0)})
			if err != nil || !bytes.Contains(r.Head, []byte(errMask.Error())) {
				t.Errorf("the server's sink failed: %q, %v", r.Head, err)
			}
			for range 3 {
				w.ping() // the Comm is in step
			}
		}
		if n := len(w.net.dialled()); n != 2 {
			t.Errorf("%d connections", n)
		}
	})
}
