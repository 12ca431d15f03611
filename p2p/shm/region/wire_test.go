package region

import (
	"bytes"
	"errors"
	"testing"

	"hcclps/p2p"
)

func FuzzDecode(f *testing.F) {
	for _, m := range []message{
		{kind: kindOffer, ok: true, ranks: 8, pid: 1000, uid: 10, fd: 7, memory: 1 << 30, nonce: [16]byte{1, 2, 3}},
		{kind: kindAnswer, rank: 3, ranks: 4},
		{kind: kindVerdict, ok: true, ranks: 1},
	} {
		f.Add(m.encode(), byte(m.kind))
	}
	f.Add([]byte("hcrg"), byte(1))
	f.Fuzz(func(t *testing.T, b []byte, want byte) {
		m, err := decode(b, kind(want))
		if err != nil {
			if !errors.Is(err, p2p.ErrCorrupt) {
				t.Error(err)
			}
			return
		}
		if !bytes.Equal(m.encode(), b) {
			t.Errorf("%+v is encoded as %x, not %x", m, m.encode(), b)
		}
	})
}

func TestLayoutOfMemory(t *testing.T) {
	l := layout{ranks: 3, memory: 2 * page}
	if l.control() != page || l.offset(2) != 5*page || l.total() != 7*page {
		t.Errorf("control %d, offset %d, total %d", l.control(), l.offset(2), l.total())
	}
	for _, bad := range []layout{{}, {ranks: 1}, {ranks: 1, memory: 100}, {ranks: MaxRanks + 1, memory: page}, {ranks: 2, memory: 1 << 60}} {
		if bad.check() == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
	for _, ranks := range []int{31, 32, MaxRanks} { // control words do not reach into memories
		l := layout{ranks: ranks, memory: page}
		m := view(l, make([]byte, l.total()))
		m.ranks[ranks-1].state.Store(stateLeft)
		if m.ranks[0].memory[0] != 0 || l.control() < uint64(ranks+1)*line {
			t.Errorf("%d ranks have %d bytes of control words", ranks, l.control())
		}
	}
}
