package p2p_test

import (
	"bytes"
	"testing"
	"testing/synctest"

	"hcclps/p2p"
)

// shelf is a Sink with memory for all bytes but those of every third chunk.
type shelf struct {
	memory         []byte
	placed, copied int
}

func (s *shelf) Len() int { return len(s.memory) }

func (s *shelf) Place(off, n int) []byte {
	if off/1000%3 == 2 {
		return nil
	}
	return s.memory[off:][:n]
}

func (s *shelf) Take(off int, p []byte) error {
	if &p[0] == &s.memory[off] {
		s.placed += len(p)
	} else {
		s.copied += copy(s.memory[off:], p)
	}
	return nil
}

// TestAPlacersMemoryIsReceivedInto: where it has some, also when epochs end on the way; each byte is taken once.
func TestAPlacersMemoryIsReceivedInto(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := 30
		r := newRig(t, rigConfig{policy: p2p.Policy{Chunk: p2p.ChunkPolicy{Fixed: 1000}}, wrap: func(_ uint32, _ int, c p2p.Comm) (p2p.Comm, error) {
			left += 7
			return &dying{Comm: c, left: left}, nil
		}})
		body := noise(5, 123_457)
		s := &shelf{memory: make([]byte, len(body))}
		out := r.ends[1].Send(1, body)
		in := r.ends[0].ReceiveInto(1, p2p.Push, s)
		r.wait(out.Done())
		r.wait(in.Done())
		if out.Err() != nil || in.Err() != nil || !bytes.Equal(s.memory, body) {
			t.Errorf("%v, %v", out.Err(), in.Err())
		}
		if s.placed+s.copied != len(body) || s.placed < len(body)/2 || s.copied == 0 {
			t.Errorf("%d bytes taken in place and %d copied, of %d", s.placed, s.copied, len(body))
		}
		if st := r.ends[0].Stats(); st.Resets == 0 {
			t.Errorf("nothing was lost on the way: %+v", st)
		}
	})
}
