package worker

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"hcclps/internal/vec"
	"hcclps/ps/wire"
)

// picked makes a table's gradient of some rows, the last of which may be short, and picks some of them.
func picked(r *rand.Rand, table uint32) (all, padded wire.Section, at []int32) {
	dim, rows := 1+r.IntN(40), 1+r.IntN(60)
	all = wire.Section{Table: table, Dim: dim, Keys: make([]uint64, rows), Values: make([]float32, rows*dim)}
	for i := range all.Keys {
		all.Keys[i] = uint64(3*i) + uint64(r.IntN(3))
		if r.IntN(2) == 0 || i == rows-1 {
			at = append(at, int32(i))
		}
	}
	for i := range all.Values {
		all.Values[i] = r.Float32()
	}
	padded = all
	short := r.IntN(dim)
	all.Values = all.Values[:rows*dim-short]
	padded.Values = append(slices.Clone(all.Values), make([]float32, short)...)
	return all, padded, at
}

// coded makes a section with a code whose bytes differ from each other and from what follows them.
func coded(r *rand.Rand, table uint32) wire.Section {
	s := wire.Section{Table: table, Dim: 1 + r.IntN(8), Rows: 1 + r.IntN(5), Code: make([]byte, 1+r.IntN(250))}
	first := r.IntN(250)
	for i := range s.Code {
		s.Code[i] = byte(1 + (first+i)%255)
	}
	return s
}

// build makes a body of n sections, and the bytes that package wire writes of them.
func build(r *rand.Rand, b *body, n int) (want []byte) {
	b.reset()
	for table := range uint32(n) {
		if r.IntN(4) == 0 {
			s := coded(r, table)
			b.addCode(s)
			want = wire.AppendSection(want, s)
			continue
		}
		all, padded, at := picked(r, table)
		if r.IntN(2) == 0 { // all rows: they are neighbours
			at = at[:0]
			for i := range all.Keys {
				at = append(at, int32(i))
			}
		}
		b.add(all, at)
		want = wire.AppendPicked(want, padded, at)
	}
	return want
}

func TestBodyIsWhatWireWrites(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var b body
	for range 200 {
		want := build(r, &b, r.IntN(4))
		if b.Len() != len(want) {
			t.Fatalf("%d bytes, want %d", b.Len(), len(want))
		}
		for range 5 { // as after a fault, from anywhere on
			off := r.IntN(len(want) + 1)
			got := bytes.Repeat([]byte{0xff}, len(want)-off)
			for at := 0; at < len(got); {
				n := min(1+r.IntN(500), len(got)-at)
				if err := b.Fill(off+at, got[at:at+n]); err != nil {
					t.Fatal(err)
				}
				at += n
			}
			if !bytes.Equal(got, want[off:]) {
				t.Fatalf("from byte %d on: other bytes than package wire writes", off)
			}
		}
	}
}

// What Locate gives is the body, in no more places than may be.
func TestBodyLiesWhereLocateSays(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	var b body
	refused := 0
	for range 300 {
		whole := build(r, &b, 1+r.IntN(3))
		for range 5 {
			off := r.IntN(b.Len())
			want := whole[off:][:1+r.IntN(b.Len()-off)]
			places := b.Locate(off, len(want), 1000)
			if got := bytes.Join(places, nil); !bytes.Equal(got, want) {
				t.Fatalf("%d bytes from byte %d on: other bytes than package wire writes", len(want), off)
			}
			most := r.IntN(len(places) + 1)
			fewer := b.Locate(off, len(want), most)
			if (fewer == nil) != (most < len(places)) || len(fewer) > most {
				t.Fatalf("%d places of at most %d, %d in all", len(fewer), most, len(places))
			}
			if fewer == nil {
				refused++
			}
		}
	}
	if refused == 0 {
		t.Error("there was always room")
	}
}

// Rows that are neighbours are one place.
func TestDenseBodyLiesInFewPlaces(t *testing.T) {
	values := make([]float32, 64*256)
	all := wire.Section{Table: 1, Dim: 256, Keys: make([]uint64, 64), Values: values}
	at := make([]int32, 64)
	for i := range at {
		all.Keys[i], at[i] = uint64(i), int32(i)
	}
	var b body
	b.add(all, at)
	places := b.Locate(0, b.Len(), 8)
	if len(places) < 2 || len(places) > 3 || &places[1][0] != &vec.BytesOfFloats(values)[0] || len(places[1]) != 4*len(values) {
		t.Errorf("%d places, want the head and the tensor itself", len(places))
	}
}

func TestScatterPutsRowsWhereTheyBelong(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var s scatter
	placed := 0
	for range 200 {
		var answer []byte
		var outs, wants [][]float32
		s.reset()
		for table := range uint32(1 + r.IntN(3)) {
			all, padded, at := picked(r, table)
			out := make([]float32, len(all.Values))
			s.add(out, all.Dim, at)
			for _, pos := range at {
				answer = append(answer, vec.BytesOfFloats(padded.Values[int(pos)*all.Dim:][:all.Dim])...)
			}
			want := make([]float32, len(padded.Values))
			for _, pos := range at {
				copy(want[int(pos)*all.Dim:][:all.Dim], padded.Values[int(pos)*all.Dim:])
			}
			outs, wants = append(outs, out), append(wants, want[:len(out)])
		}
		for try := range 2 { // the second begins anew, after a first that was cut
			if _, err := s.begin(len(answer)); err != nil {
				t.Fatal(err)
			}
			for off := 0; off < len(answer) && (try == 1 || off < len(answer)/2); {
				n := min(1+r.IntN(500), len(answer)-off)
				piece := answer[off : off+n]
				if place := s.Place(off, n); place != nil && r.IntN(2) == 0 {
					placed++
					copy(place, piece)
					piece = place
				}
				if err := s.Take(off, piece); err != nil {
					t.Fatal(err)
				}
				off += n
			}
		}
		for i := range outs {
			if !slices.Equal(outs[i], wants[i]) {
				t.Fatalf("table %d: rows are not where they belong", i)
			}
		}
	}
	if placed == 0 {
		t.Error("nothing was received in place")
	}
}

func TestScatterLeavesOutAnAnswerOfAnotherSize(t *testing.T) {
	var s scatter
	out := make([]float32, 2)
	s.add(out, 1, []int32{0, 1})
	if _, err := s.begin(4); err != nil {
		t.Fatal(err)
	}
	if err := s.Take(0, []byte{1, 2, 3, 4}); err != nil || out[0] != 0 || s.came == s.size {
		t.Errorf("%v, %v, %d bytes of %d", err, out, s.came, s.size)
	}
}

func TestWidenHandsOnWhatComes(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for form, encode := range map[wire.Half]func([]byte, []float32){wire.FP16: vec.EncodeF16, wire.BF16: vec.EncodeBF16} {
		for range 100 {
			n := 1 + r.IntN(3*piece)
			want, out := make([]float32, n), make([]float32, n)
			at := make([]int32, n)
			for i := range want {
				want[i], at[i] = float32(r.IntN(256)), int32(i)
			}
			answer := make([]byte, 2*n)
			encode(answer, want)
			var s scatter
			s.add(out, 1, at)
			w := widen{to: &s, form: form}
			for try := range 2 { // the second begins anew, after a first that was cut
				if _, err := w.begin(len(answer)); err != nil || w.Len() != len(answer) {
					t.Fatal(err)
				}
				for off := 0; off < len(answer) && (try == 1 || off < n); {
					k := min(1+r.IntN(20_000), len(answer)-off)
					if err := w.Take(off, answer[off:off+k]); err != nil {
						t.Fatal(err)
					}
					off += k
				}
			}
			if !slices.Equal(out, want) || s.came != s.size {
				t.Fatalf("%d values are not what came", n)
			}
		}
	}
}
