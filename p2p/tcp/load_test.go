package tcp

import (
	"bytes"
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

// scattered is b in some places, a few of them empty.
func scattered(r *rand.Rand, b []byte) [][]byte {
	places := [][]byte{}
	for len(b) > 0 {
		n := min(r.IntN(40), len(b))
		places = append(places, bytes.Clone(b[:n]))
		b = b[n:]
	}
	return places
}

func TestLoadInPlacesIsThatInOne(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		want := make([]byte, r.IntN(400))
		for i := range want {
			want[i] = byte(r.Uint32())
		}
		for _, l := range []load{loadOf(want), loadOfMany(scattered(r, want))} {
			from := r.IntN(len(want) + 1)
			to := from + r.IntN(len(want)-from+1)
			part := l.cut(from, to)
			if part.size != to-from || part.sum() != crc32.Checksum(want[from:to], castagnoli) {
				t.Fatalf("bytes %d to %d of %d: %d bytes, sum %08x", from, to, len(want), part.size, part.sum())
			}
			vectors := part.appendTo(nil)
			for _, b := range vectors {
				if len(b) == 0 {
					t.Fatal("an empty place is to be written")
				}
			}
			if got := bytes.Join(vectors, nil); !bytes.Equal(got, want[from:to]) {
				t.Fatalf("bytes %d to %d of %d: other bytes", from, to, len(want))
			}
		}
	}
}
