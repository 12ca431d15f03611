package wire_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"hcclps/ps/wire"
)

// TestPickedRowsAreASection: picking rows writes the bytes of a section that
// holds just those rows.
func TestPickedRowsAreASection(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		all := wire.Section{Table: 7, Dim: rng.IntN(5)}
		picked := wire.Section{Table: 7, Dim: all.Dim}
		var at []int32
		for i := range rng.IntN(20) {
			row := make([]float32, all.Dim)
			for d := range row {
				row[d] = rng.Float32()
			}
			key := uint64(10 * i)
			all.Keys, all.Values = append(all.Keys, key), append(all.Values, row...)
			if rng.IntN(2) == 0 {
				at = append(at, int32(i))
				picked.Keys, picked.Values = append(picked.Keys, key), append(picked.Values, row...)
			}
		}
		before := wire.AppendSection(nil, all) // two sections in one body
		got := wire.AppendPicked(bytes.Clone(before), all, at)
		if want := wire.AppendSection(before, picked); !bytes.Equal(got, want) {
			t.Fatalf("rows %v of %+v:\n got %x\nwant %x", at, all, got, want)
		}
		if n := wire.SectionSize(len(at), all.Dim); len(got) != len(before)+n {
			t.Fatalf("a section of %d bytes, SectionSize says %d", len(got)-len(before), n)
		}
	}
}
