package collective

import (
	"errors"
	"testing"
)

// bare is shared memory that nothing is posted in.
type bare struct {
	Shared
	memory []byte
}

func (b bare) Memory(int) []byte { return b.memory }

// A place that a rank names lies in its memory or is refused, whatever it names.
func FuzzPlaces(f *testing.F) {
	f.Add(uint64(0), uint32(1))
	f.Add(uint64(1), uint32(4096))
	f.Add(uint64(4097), uint32(0))
	f.Add(^uint64(0), uint32(1))
	f.Add(^uint64(0)-10, ^uint32(0))
	f.Fuzz(func(t *testing.T, at uint64, n uint32) {
		memory := make([]byte, 4096)
		x := &exchange{name: func(r int) int { return r }, shared: &sharing{Shared: bare{memory: memory}, members: []int{0, 1}}}
		b, err := x.lies(1, at, int(n))
		if err != nil {
			var rank *RankError
			if !errors.As(err, &rank) || rank.Rank != 1 || !errors.Is(err, ErrMismatch) {
				t.Errorf("%d bytes at %d: %v", n, at, err)
			}
			return
		}
		if at == 0 || len(b) != int(n) || n > 0 && &b[0] != &memory[at-1] {
			t.Errorf("%d bytes at %d are %d bytes elsewhere", n, at, len(b))
		}
	})
}
