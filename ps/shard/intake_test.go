package shard

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"hcclps/internal/vec"
	"hcclps/ps/wire"
)

// TestIntakeSeesWhatIsNotFinite: in whatever pieces a body comes, one infinity anywhere is seen, and the bytes are as they were sent.
func TestIntakeSeesWhatIsNotFinite(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 200 {
		values := make([]float32, r.IntN(3*lookBytes/4))
		for i := range values {
			values[i] = r.Float32()
		}
		keys := make([]uint64, len(values))
		for i := range keys {
			keys[i] = uint64(i)
		}
		want := true
		if len(values) > 0 && r.IntN(2) == 0 {
			values[r.IntN(len(values))], want = float32(math.Inf(-1)), false
		}
		sent := wire.AppendSection(nil, wire.Section{Table: 1, Dim: 1, Keys: keys, Values: values})
		in := intake{body: make([]byte, len(sent))}
		odd := r.IntN(4) == 0
		for off := 0; off < len(sent); {
			n := min(len(sent)-off, 64*(1+r.IntN(1000)))
			if odd {
				n = min(n, 1+r.IntN(99))
			}
			piece := sent[off : off+n]
			if r.IntN(2) == 0 {
				piece = in.Place(off, n)
				copy(piece, sent[off:])
			}
			if err := in.Take(off, piece); err != nil {
				t.Fatal(err)
			}
			off += n
		}
		if got := in.finite(); got && !want || !got && want && !odd {
			t.Fatalf("finite: %v, want %v, of %d values", got, want, len(values))
		}
		if !bytes.Equal(in.body, sent) {
			t.Fatal("other bytes than were sent")
		}
	}
}

// TestKeysThatLookLikeInfinitiesAreNone: a push whose keys have the bits of infinities is no different.
func TestKeysThatLookLikeInfinitiesAreNone(t *testing.T) {
	n := 4000
	s := wire.Section{Table: 1, Dim: 1, Keys: make([]uint64, n), Values: make([]float32, n)}
	for i := range s.Keys {
		s.Keys[i] = 0x7f800000_00000000 + uint64(i)
	}
	sent := wire.AppendSection(nil, s)
	in := intake{body: make([]byte, len(sent))}
	if err := in.Take(0, sent); err != nil || in.finite() {
		t.Fatalf("finite: %v, %v", in.finite(), err)
	}
	got, err := wire.DecodeSections(in.body)
	if err != nil || vec.NonFinite(got[0].Values) >= 0 {
		t.Fatal(got, err)
	}
}
