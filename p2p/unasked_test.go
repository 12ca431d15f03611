package p2p_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"hcclps/p2p"
)

// newCalm is newByHand over a Comm that is Patient.
func newCalm(t *testing.T) *byHand {
	t.Helper()
	h := newByHand(t, p2p.Policy{})
	h.comm.calm = true
	return h
}

func (h *byHand) expect(t *testing.T, want string) {
	t.Helper()
	if got := h.said(); got != want {
		t.Errorf("said %q, want %q", got, want)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsSentUnasked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newCalm(t)
		first := h.Send(1, make([]byte, 100))
		synctest.Wait()
		h.expect(t, "credit 0.0:1114112") // of this side, when there is a Comm
		check(t, h.Signalled(p2p.Signal{Kind: p2p.SignalCredit, Bytes: 1000}))
		h.Send(2, make([]byte, 10))
		h.expect(t, "") // transfer 1 may be asked for
		check(t, h.Signalled(p2p.Signal{Kind: p2p.SignalGrantSure, ID: 1, Bytes: 100}))
		check(t, h.Signalled(p2p.Signal{Kind: p2p.SignalGrantSure, ID: 2, Bytes: 10}))
		h.Send(3, make([]byte, 500))
		h.Send(4, make([]byte, 800)) // in part: whole lines
		h.Send(5, make([]byte, 5))   // not at all: transfer 4 may be asked for
		synctest.Wait()
		h.expect(t, "unasked 3.0:500 unasked 4.0:448")
		h.complete(4)
		<-first.Done()
		check(t, h.Signalled(p2p.Signal{Kind: p2p.SignalGrantSure, ID: 4, Offset: 448, Bytes: 352}))
		check(t, h.Signalled(p2p.Signal{Kind: p2p.SignalDropped, ID: 5}))
		check(t, h.Signalled(p2p.Signal{Kind: p2p.SignalCredit}))
		h.Send(6, make([]byte, 6))
		h.complete(1)
		h.expect(t, "")
		if s := h.Stats(); s.Sent != 100+10+500+800 {
			t.Errorf("%d bytes were sent", s.Sent)
		}
		h.end(t)
	})
}

func TestWhatComesUnasked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newCalm(t)
		h.Send(1, make([]byte, 1)) // opens the Comm
		synctest.Wait()
		h.expect(t, "credit 0.0:1114112")
		come := func(id uint64, n int) {
			t.Helper()
			check(t, h.Signalled(p2p.Signal{Kind: p2p.SignalUnasked, ID: id, Bytes: uint32(n)}))
			synctest.Wait()
		}
		land := func(fill byte) {
			t.Helper()
			b := <-h.comm.bufs
			copy(b, bytes.Repeat([]byte{fill}, len(b)))
			h.complete(1)
		}
		come(10, 64)
		wanted := make([]byte, 100)
		in := h.Receive(10, p2p.Push, wanted)
		synctest.Wait()
		h.expect(t, "10.64:36") // the rest
		land('a')
		land('b')
		<-in.Done()
		if in.Err() != nil || string(wanted[62:66]) != "aabb" {
			t.Errorf("%v, %q", in.Err(), wanted)
		}

		come(11, 5)
		come(12, 6)
		h.expect(t, "")
		late := h.Receive(12, p2p.Push, wanted[:6]) // does not wait for whoever wants transfer 11
		synctest.Wait()
		h.expect(t, "credit 0.0:0")
		land('c')
		land('d')
		<-late.Done()
		first := h.Receive(11, p2p.Push, wanted[6:11])
		<-first.Done()
		if string(wanted[:11]) != "ddddddccccc" || first.Err() != nil {
			t.Errorf("%q, %v", wanted[:11], first.Err())
		}
		h.expect(t, "credit 0.0:1114112")

		come(13, 7)
		h.Forget(13) // and is drained
		synctest.Wait()
		land('e')
		come(14, 8)
		check(t, h.Signalled(p2p.Signal{Kind: p2p.SignalVoid, ID: 14}))
		synctest.Wait()
		land('f')
		if gone := h.Receive(14, p2p.Push, wanted[:8]); !errors.Is(gone.Err(), p2p.ErrCancelled) {
			t.Errorf("received what was given up: %v", gone.Err())
		}
		come(15, 9)
		if small := h.Receive(15, p2p.Push, wanted[:8]); !errors.Is(small.Err(), p2p.ErrMalformed) {
			t.Errorf("9 bytes came of 8: %v", small.Err())
		}
		synctest.Wait()
		land('g')
		h.expect(t, "dropped 14.0:0 dropped 15.0:0")

		aside := func(id uint64) {
			t.Helper()
			come(id, 10)
			come(id+1, 1)
			other := h.Receive(id+1, p2p.Push, wanted[:1])
			synctest.Wait()
			land('h')
			land('i')
			<-other.Done()
		}
		aside(20)
		h.Forget(20)
		aside(30)
		if small := h.Receive(30, p2p.Push, wanted[:8]); !errors.Is(small.Err(), p2p.ErrMalformed) {
			t.Errorf("10 bytes came of 8: %v", small.Err())
		}
		aside(40)
		broken := errors.New("broken")
		if bad := h.ReceiveInto(40, p2p.Push, &tap{n: 10, take: func(int, []byte) error { return broken }}); !errors.Is(bad.Err(), broken) {
			t.Errorf("a broken sink: %v", bad.Err())
		}
		h.expect(t, "credit 0.0:0 credit 0.0:1114112 credit 0.0:0 credit 0.0:1114112 dropped 30.0:0 credit 0.0:0 credit 0.0:1114112 dropped 40.0:0")
		h.end(t)
	})
}

// The Comm may give a sink the second chunk as soon as the first, which was received aside, has come, and before that is with the sink.
func TestASinkHasWhatCameAsideFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newByHand(t, p2p.Policy{Chunk: p2p.ChunkPolicy{Fixed: 64}})
		h.comm.calm, h.comm.takes = true, make(chan func(byte), 10)
		h.Send(1, make([]byte, 1)) // opens the Comm
		synctest.Wait()
		check(t, h.Signalled(p2p.Signal{Kind: p2p.SignalUnasked, ID: 10, Bytes: 64}))
		check(t, h.Signalled(p2p.Signal{Kind: p2p.SignalUnasked, ID: 11, Bytes: 1}))
		other := h.Receive(11, p2p.Pull, make([]byte, 1))
		synctest.Wait() // so transfer 10 is received aside
		var got []byte
		in := h.ReceiveInto(10, p2p.Pull, &tap{n: 192, take: func(off int, p []byte) error {
			if off != len(got) {
				t.Errorf("%d bytes at %d, after %d", len(p), off, len(got))
			}
			got = append(got, p...)
			return nil
		}})
		for _, fill := range []byte("abcd") { // in the order of the Comm
			synctest.Wait()
			if b := <-h.comm.bufs; b != nil {
				copy(b, bytes.Repeat([]byte{fill}, len(b)))
			}
		}
		for fill := byte('x'); len(h.comm.takes) > 0; fill++ {
			(<-h.comm.takes)(fill)
		}
		h.complete(4)
		<-other.Done()
		<-in.Done()
		if want := strings.Repeat("a", 64) + strings.Repeat("c", 64) + strings.Repeat("d", 64); string(got) != want {
			t.Errorf("%q\nwant %q", got, want)
		}
		h.end(t)
	})
}

func TestNonsenseUnasked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, signals := range map[string][]p2p.Signal{
			"of 9th epoch":   {{Kind: p2p.SignalUnasked, Epoch: 9, ID: 2, Bytes: 1}},
			"credit of 9th":  {{Kind: p2p.SignalCredit, Epoch: 9, Bytes: 1}},
			"twice":          {{Kind: p2p.SignalUnasked, ID: 2, Bytes: 1}, {Kind: p2p.SignalUnasked, ID: 2, Bytes: 1}},
			"too much":       {{Kind: p2p.SignalUnasked, ID: 2, Bytes: 1 << 20}, {Kind: p2p.SignalUnasked, ID: 3, Bytes: 1 << 20}},
			"after a pause":  {{Kind: p2p.SignalPause}, {Kind: p2p.SignalUnasked, ID: 2, Bytes: 1}},
			"asked for":      {{Kind: p2p.SignalUnasked, ID: 7, Bytes: 1}},
			"not lent":       nil,
			"after a reset":  {{Kind: p2p.SignalReset}, {Kind: p2p.SignalUnasked, ID: 2, Bytes: 1}},
			"granted before": {{Kind: p2p.SignalCredit, Bytes: 10}, {Kind: p2p.SignalGrantSure, ID: 1, Bytes: 1}, {Kind: p2p.SignalGrantSure, ID: 1, Bytes: 1}},
		} {
			h := newByHand(t, p2p.Policy{})
			h.comm.calm = name != "not lent"
			h.Send(1, make([]byte, 1000))
			h.Receive(7, p2p.Push, make([]byte, 7))
			synctest.Wait()
			if signals == nil {
				signals = []p2p.Signal{{Kind: p2p.SignalUnasked, ID: 2, Bytes: 1}}
			}
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

// Transfers of all sizes cross with others in both directions, over Comms that take them unasked.
func TestTransfersUnasked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{sure: true, calm: true, wrap: func(_ uint32, _ int, c p2p.Comm) (p2p.Comm, error) { return &inPieces{Comm: c}, nil }})
		for i, n := range []int{1, 5 << 20, 1, 64, 70_000, 1 << 20, 1<<20 + 64<<10, 1<<20 + 64<<10 + 1, 3} {
			r.both(uint64(i), n)
		}
		r.cut(0)
		r.both(100, 1000)
		r.both(101, 1000)
	})
}
