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

// TestCodedSections: a code comes back as it was, with what the head says of it, beside sections without one.
func TestCodedSections(t *testing.T) {
	for n := range 20 {
		code := bytes.Repeat([]byte{7}, n)
		plain := wire.Section{Table: 9, Dim: 1, Keys: []uint64{5}, Values: []float32{2}}
		coded := wire.Section{Table: 8, Dim: 3, Rows: 6, Code: code}
		b := wire.AppendSection(wire.AppendSection(nil, coded), plain)
		if want := wire.CodedSize(n) + wire.SectionSize(1, 1); len(b) != want {
			t.Errorf("code of %d bytes: %d bytes, want %d", n, len(b), want)
		}
		got, err := wire.DecodeSections(b)
		if err != nil || len(got) != 2 || got[0].Table != 8 || got[0].Dim != 3 || got[0].Rows != 6 || !bytes.Equal(got[0].Code, code) || got[0].Keys != nil || got[1].Code != nil {
			t.Fatalf("code of %d bytes: %+v, %v", n, got, err)
		}
		for cut := range len(b) {
			if s, err := wire.DecodeSections(b[:cut]); err == nil && cut != wire.CodedSize(n) && cut > 0 {
				t.Errorf("code of %d bytes, cut at %d of %d: %+v", n, cut, len(b), s)
			}
		}
		b[16+7] = 1 // a length that nothing has
		if _, err := wire.DecodeSections(b); err == nil {
			t.Error("a code of 2^56 bytes was taken")
		}
	}
}
