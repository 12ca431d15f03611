package pairbench

import (
	"sync/atomic"
	"testing"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/inproc"
)

// twist changes one byte of each message of a size.
type twist struct {
	p2p.Comm
	size int
}

func (t twist) Isend(peer int, b p2p.Buffer) *p2p.Request {
	if b.Len() != t.size {
		return t.Comm.Isend(peer, b)
	}
	bad := append([]byte(nil), b.Host()...)
	bad[len(bad)-1] ^= 1
	return t.Comm.Isend(peer, p2p.Bytes(bad))
}

func TestWrongContentsAreCounted(t *testing.T) {
	for _, size := range []int{2, 4099} {
		comms := inproc.World(2)
		p := &Pair{Transport: Inproc, Comm: twist{comms[0], size}, peer: newLocal(t.Context(), comms[1])}
		var got Result
		err := Run(t.Context(), p, Spec{Sizes: []int{size}, Time: time.Millisecond, Rounds: 1, Slots: 4}, func(r Result) error {
			got = r
			return nil
		})
		if err != nil || got.Wrong != 8 { // four of a ping-pong, four of a stream
			t.Errorf("%d bytes: %d wrong, want 8; %v", size, got.Wrong, err)
		}
	}
}

// stale takes messages of a size without filling the buffer, once it is on.
type stale struct {
	p2p.Comm
	size int
	on   *atomic.Bool
}

func (s stale) Irecv(peer int, b p2p.Buffer) *p2p.Request {
	if b.Len() == s.size && s.on.Load() {
		b = p2p.Bytes(make([]byte, b.Len()))
	}
	return s.Comm.Irecv(peer, b)
}

// watched turns stale on when contents are to be compared.
type watched struct {
	peer
	on *atomic.Bool
}

func (w watched) start(j job) error {
	w.on.Store(j.Check)
	return w.peer.start(j)
}

func TestBuffersOfEarlierRoundsDoNotCount(t *testing.T) {
	comms := inproc.World(2)
	var on atomic.Bool
	p := &Pair{Transport: Inproc, Comm: stale{comms[0], 100, &on}, peer: watched{newLocal(t.Context(), stale{comms[1], 100, &on}), &on}}
	err := Run(t.Context(), p, Spec{Sizes: []int{100}, Time: time.Millisecond, Rounds: 1, Slots: 4}, func(r Result) error {
		if r.Wrong != 12 { // four at each rank of the ping-pong, four of the stream
			t.Errorf("%d wrong, want 12", r.Wrong)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestContentsDependOnPlaceRankAndSlot(t *testing.T) {
	for _, n := range []int{1, 7, 8, 9, 100} {
		b := make([]byte, n)
		fill(b, 1, 3)
		if !filled(b, 1, 3) {
			t.Errorf("%d bytes do not hold what was written", n)
		}
		if n > 1 && (filled(b, 0, 3) || filled(b, 1, 4)) {
			t.Errorf("%d bytes of rank 1 and slot 3 pass for others", n)
		}
		for i := range b {
			if b[i]++; filled(b, 1, 3) {
				t.Errorf("%d bytes with byte %d changed pass", n, i)
			}
			b[i]--
		}
		if n >= 16 {
			copy(b[8:16], b[:8])
			if filled(b, 1, 3) {
				t.Errorf("%d bytes with a word twice pass", n)
			}
		}
	}
}
