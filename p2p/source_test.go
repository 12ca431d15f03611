package p2p_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"hcclps/p2p"
)

// tap is a Sink, or a Source, that calls a function.
type tap struct {
	n    int
	take func(off int, p []byte) error
}

func (s *tap) Len() int                     { return s.n }
func (s *tap) Take(off int, p []byte) error { return s.take(off, p) }
func (s *tap) Fill(off int, p []byte) error { return s.take(off, p) }

func TestSourceAndSink(t *testing.T) {
	for _, piecewise := range []bool{false, true} {
		t.Run(fmt.Sprintf("piecewise=%v", piecewise), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { sourceAndSink(t, piecewise) })
		})
	}
}

func sourceAndSink(t *testing.T, piecewise bool) {
	t.Helper()
	left := 30
	r := newRig(t, rigConfig{policy: p2p.Policy{Chunk: p2p.ChunkPolicy{Fixed: 1000}}, wrap: func(_ uint32, _ int, c p2p.Comm) (p2p.Comm, error) {
		left += 7
		c = &dying{Comm: c, left: left}
		if piecewise {
			c = &inPieces{c}
		}
		return c, nil
	}})
	const size = 123_457
	body := noise(3, size)
	out := r.ends[1].SendFrom(1, &tap{size, func(off int, p []byte) error {
		if off%64 != 0 {
			t.Errorf("asked to fill from %d", off)
		}
		copy(p, body[off:])
		return nil
	}})
	var got []byte
	in := r.ends[0].ReceiveInto(1, p2p.Push, &tap{size, func(off int, p []byte) error {
		if off != len(got) {
			t.Errorf("got bytes from %d on, had %d", off, len(got))
		}
		got = append(got, p...)
		return nil
	}})
	r.wait(out.Done())
	r.wait(in.Done())
	if out.Err() != nil || in.Err() != nil || !bytes.Equal(got, body) {
		t.Errorf("%d of %d bytes: %v, %v", len(got), size, out.Err(), in.Err())
	}
	if s := r.ends[0].Stats(); s.Resets == 0 || s.Resumed == 0 {
		t.Errorf("nothing was lost on the way: %+v", s)
	}
	full := errors.New("disk full")
	out = r.ends[0].Send(2, body)
	in = r.ends[1].ReceiveInto(2, p2p.Push, &tap{size, func(off int, _ []byte) error {
		if off > 50_000 {
			return full
		}
		return nil
	}})
	r.wait(in.Done())
	r.wait(out.Done())
	if !errors.Is(in.Err(), full) || !errors.Is(out.Err(), p2p.ErrCancelled) {
		t.Errorf("a sink that failed: %v, %v", in.Err(), out.Err())
	}
	broken := errors.New("source broken")
	out = r.ends[0].SendFrom(3, &tap{size, func(off int, _ []byte) error {
		if off > 50_000 {
			return broken
		}
		return nil
	}})
	in = r.ends[1].Receive(3, p2p.Push, make([]byte, size))
	r.wait(in.Done())
	r.wait(out.Done())
	if !errors.Is(in.Err(), p2p.ErrCancelled) || !errors.Is(out.Err(), broken) {
		t.Errorf("a source that failed: %v, %v", in.Err(), out.Err())
	}
	r.both(9, 40_000)
	manyPieces(r, body)
}

func manyPieces(r *rig, body []byte) {
	r.Helper()
	var scattered [][]byte
	for part := range slices.Chunk(body, 777) {
		scattered = append(scattered, part, nil)
	}
	whole := make([]byte, len(body))
	out := r.ends[0].Send(10, scattered...)
	in := r.ends[1].Receive(10, p2p.Push, whole)
	r.wait(in.Done())
	r.wait(out.Done())
	if in.Err() != nil || out.Err() != nil || !bytes.Equal(whole, body) {
		r.Errorf("many pieces: %v, %v", in.Err(), out.Err())
	}
}

// inPieces makes a Comm Piecewise, in pieces of 128 bytes, by way of other memory.
type inPieces struct{ p2p.Comm }

func (c *inPieces) IsendFunc(peer, n int, fill func([]byte) error) *p2p.Request {
	b := make([]byte, n)
	for piece := range slices.Chunk(b, 128) {
		if err := fill(piece); err != nil {
			_ = c.Close()
			return p2p.Failed(err)
		}
	}
	return c.Isend(peer, p2p.Bytes(b))
}

func (c *inPieces) IrecvFunc(peer, n int, take func([]byte) error) *p2p.Request {
	b := make([]byte, n)
	inner := c.Irecv(peer, p2p.Bytes(b))
	r, done := p2p.NewRequest()
	go func() {
		<-inner.Done()
		err := inner.Wait(context.Background())
		pieces := slices.Collect(slices.Chunk(b, 128))
		if err != nil {
			pieces = nil
		}
		for _, piece := range pieces {
			if err == nil {
				err = take(piece)
			}
		}
		done.Complete(err)
	}()
	return r
}
