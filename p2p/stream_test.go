package p2p_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p"
)

// encode sends data as a stream in blocks of random lengths, each encoded once: a byte that says how many follow times 3, and these.
func encode(ctx context.Context, s *p2p.OutStream, data []byte, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 3))
	for len(data) > 0 {
		n := min(rng.IntN(85)+1, len(data))
		b, err := s.Next(ctx, 100)
		if err != nil {
			return err
		}
		b[0] = byte(3 * n)
		copy(b[1:], data[:n])
		if err := s.Put(b[:n+1]); err != nil {
			return err
		}
		data = data[n:]
	}
	return s.End()
}

// decoder is the Sink for that.
type decoder struct {
	got []byte
	off int
}

func (d *decoder) Len() int { return p2p.Unknown }

func (d *decoder) Take(off int, p []byte) error {
	if off != d.off || len(p) < 2 || int(p[0]) != 3*(len(p)-1) {
		return fmt.Errorf("block of %d bytes at %d, expected at %d, says %d", len(p), off, d.off, p[0])
	}
	d.off += len(p)
	d.got = append(d.got, p[1:]...)
	return nil
}

func TestStream(t *testing.T) {
	for _, piecewise := range []bool{false, true} {
		t.Run(fmt.Sprintf("piecewise=%v", piecewise), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { streams(t, piecewise) })
		})
	}
}

func streams(t *testing.T, piecewise bool) {
	t.Helper()
	left := 10
	r := newRig(t, rigConfig{lag: 100 * time.Microsecond, wrap: func(_ uint32, _ int, c p2p.Comm) (p2p.Comm, error) {
		left += 9
		c = &dying{Comm: c, left: left}
		if piecewise {
			c = &inPieces{c}
		}
		return c, nil
	}})
	for id, n := range []int{0, 1, 100, 5000, 30_000} {
		for _, receiverFirst := range []bool{false, true} {
			id := uint64(2*id + 1)
			if receiverFirst {
				id++
			}
			data := noise(id, n)
			s := r.ends[id%2].SendStream(id)
			d := &decoder{}
			ins := make(chan *p2p.Incoming, 1)
			receive := func() { ins <- r.ends[1-id%2].ReceiveInto(id, p2p.Push, d) }
			if receiverFirst {
				receive()
				synctest.Wait()
			} else {
				go func() {
					<-time.After(time.Millisecond)
					receive()
				}()
			}
			if err := encode(t.Context(), s, data, id); err != nil {
				t.Fatalf("encode %d bytes: %v", n, err)
			}
			in := <-ins
			r.wait(s.Done())
			r.wait(in.Done())
			if s.Err() != nil || in.Err() != nil || !bytes.Equal(d.got, data) {
				t.Errorf("stream of %d bytes: %d came, %v, %v", n, len(d.got), s.Err(), in.Err())
			}
			if _, err := s.Next(t.Context(), 10); err == nil {
				t.Error("room in a stream that has ended")
			}
		}
	}
	if s := r.ends[0].Stats(); s.Resets < 5 || s.Again == 0 {
		t.Errorf("hardly anything went wrong: %+v", s)
	}
}

func TestStreamIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		s := r.ends[0].SendStream(1)
		for range 4 {
			b, err := s.Next(t.Context(), 100)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Put(b); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Next(ctx, 100); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a fifth block ahead of the receiver: %v", err)
		}
		in := r.ends[1].ReceiveInto(1, p2p.Pull, &decoder{}) // which does not like these blocks
		r.wait(in.Done())
		r.wait(s.Done())
		if in.Err() == nil || !errors.Is(s.Err(), p2p.ErrCancelled) {
			t.Errorf("receiver %v, sender %v", in.Err(), s.Err())
		}
		if _, err := s.Next(t.Context(), 100); !errors.Is(err, p2p.ErrCancelled) {
			t.Errorf("next block: %v", err)
		}
		if err := s.Put(make([]byte, 10)); !errors.Is(err, p2p.ErrCancelled) {
			t.Errorf("put: %v", err)
		}
		if err := s.End(); !errors.Is(err, p2p.ErrCancelled) {
			t.Errorf("end: %v", err)
		}
		s = r.ends[0].SendStream(2)
		in = r.ends[1].ReceiveInto(2, p2p.Pull, &decoder{})
		synctest.Wait()
		enough := errors.New("enough")
		s.Cancel(enough)
		r.wait(in.Done())
		r.wait(s.Done())
		if !errors.Is(in.Err(), p2p.ErrCancelled) || !errors.Is(s.Err(), enough) {
			t.Errorf("receiver %v, sender %v", in.Err(), s.Err())
		}
		if _, err := s.Next(t.Context(), p2p.MaxChunk+1); err == nil {
			t.Error("a block larger than a chunk")
		}
		r.both(3, 10_000)
	})
}

func TestNonsenseAboutStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		offer := func(id, off uint64, n uint32) p2p.Signal {
			return p2p.Signal{Kind: p2p.SignalOffer, ID: id, Offset: off, Bytes: n}
		}
		var flood []p2p.Signal
		for i := range uint64(200) {
			flood = append(flood, offer(3, i, 1))
		}
		for name, signals := range map[string][]p2p.Signal{
			"ask for nothing":       {{Kind: p2p.SignalAsk, ID: 9}},
			"ask for no stream":     {{Kind: p2p.SignalAsk, ID: 1}},
			"ask twice":             {{Kind: p2p.SignalAsk, ID: 2}, {Kind: p2p.SignalAsk, ID: 2}},
			"offer with a hole":     {offer(3, 5, 5)},
			"offer twice":           {offer(3, 0, 5), offer(3, 0, 5)},
			"offer after the end":   {offer(3, 0, 5), offer(3, 5, 0), offer(3, 5, 5)},
			"offer of no stream":    {offer(4, 0, 5)},
			"offer of a giant":      {offer(3, 0, p2p.MaxChunk+1)},
			"flood of offers":       flood,
			"grant of half a block": {{Kind: p2p.SignalGrant, ID: 2, Bytes: 5}},
			"grant of what is not":  {{Kind: p2p.SignalGrant, ID: 2, Bytes: 11}},
			"grant across two":      {{Kind: p2p.SignalGrant, ID: 2, Bytes: 10}, {Kind: p2p.SignalGrant, ID: 2, Offset: 5, Bytes: 10}},
		} {
			h := newByHand(t, p2p.Policy{})
			h.Send(1, make([]byte, 100))
			s := h.SendStream(2)
			_ = s.Put(make([]byte, 10))
			h.ReceiveInto(3, p2p.Pull, &decoder{})
			h.Receive(4, p2p.Pull, make([]byte, 10))
			var err error
			for _, s := range signals {
				if err == nil {
					err = h.Signalled(s)
				}
			}
			if !errors.Is(err, p2p.ErrMalformed) {
				t.Errorf("%s: %v", name, err)
			}
			h.end(t)
		}
	})
}
