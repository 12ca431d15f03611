package compress_test

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hcclps/compress"
)

// justified is the most elements that a fuzzed frame may claim before the test goes on to decode it.
const justified = 1 << 16

// FuzzOpen: bytes from outside give an error or a frame, whose parts give errors or elements; the reader of pieces
// agrees. The checksum is made right, so that more than it is tried.
func FuzzOpen(f *testing.F) {
	for _, name := range codecs() {
		for _, n := range []int{0, 1, 40, 1500} {
			frame, _ := frameOf(f, name, n)
			f.Add(frame, uint64(n), false)
			f.Add(frame, uint64(n), true)
		}
	}
	for _, name := range []string{"none", "bf16", "fp16", "int8", "twobit", "onebit"} {
		f.Add(rowsFrame(f, name, []uint64{1, 5, 1 << 40, math.MaxUint64}, normal(1, 12), 3), uint64(1), true)
		f.Add(rowsFrame(f, name, []uint64{1, 5, 1 << 40, math.MaxUint64}, normal(1, 64), 16), uint64(1), true)
		f.Add(rowsFrame(f, name, []uint64{1, 5, 1 << 40, math.MaxUint64}, normal(1, 60), 16), uint64(1), true) // the last row is short
	}
	f.Add(rowsFrame(f, "topk:0.2", []uint64{1, 5, 1 << 40, math.MaxUint64}, normal(1, 64), 16), uint64(1), true)
	f.Add(rowsFrame(f, "randomk:0.2", []uint64{1, 5, 1 << 40, math.MaxUint64}, normal(1, 63), 16), uint64(1), true)
	f.Fuzz(func(t *testing.T, b []byte, seed uint64, seal bool) {
		if seal && len(b) > 4 {
			b = slices.Clone(b)
			binary.LittleEndian.PutUint32(b[len(b)-4:], crc32.Checksum(b[:len(b)-4], crc32.MakeTable(crc32.Castagnoli)))
		}
		frame, rest, err := compress.Open(b)
		if err != nil {
			if !errors.Is(err, compress.ErrMalformed) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		n := frame.Elements()
		if n > justified {
			return
		}
		if frame.Rows {
			keys, err := frame.Keys(nil)
			if err == nil && (len(keys) != frame.Shape[0] || !slices.IsSorted(keys)) {
				t.Fatalf("keys %v of shape %v", keys, frame.Shape)
			}
			if cap(keys) > 64*(len(b)+16) {
				t.Fatalf("%d bytes made room for %d keys", len(b), cap(keys))
			}
		}
		whole, pieces := make([]float32, n), make([]float32, n)
		errWhole := frame.Decode(whole, compress.Add)
		if errWhole != nil && slices.ContainsFunc(whole, func(v float32) bool { return v != 0 }) {
			t.Fatalf("%v, but something was decoded", errWhole)
		}
		size := len(b) - len(rest)
		errPieces := takeInPieces(rand.New(rand.NewPCG(seed, 0)), compress.NewSink(pieces, compress.Add, size), b[:size])
		if frame.Rows != (errPieces != nil) && (errWhole == nil) != (errPieces == nil) {
			t.Fatalf("whole: %v, in pieces: %v", errWhole, errPieces)
		}
		if errPieces == nil && !slices.EqualFunc(whole, pieces, func(a, b float32) bool { return a == b || a != a && b != b }) {
			t.Fatal("in pieces other elements")
		}
	})
}

// FuzzDecode: bare codes, for any number of elements, give an error and nothing else, or elements.
func FuzzDecode(f *testing.F) {
	for i, name := range codecs() {
		for _, n := range []int{1, 40, 1100} {
			code, err := parse(f, name).Append(nil, normal(2, n), 1)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(uint8(i), uint16(n), code)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, n uint16, code []byte) {
		c := parse(t, codecs()[int(which)%len(codecs())])
		dst := make([]float32, n)
		err := c.Decode(dst, code, compress.Add)
		if err == nil {
			return
		}
		if !errors.Is(err, compress.ErrMalformed) {
			t.Fatalf("an error of another kind: %v", err)
		}
		if slices.ContainsFunc(dst, func(v float32) bool { return v != 0 }) {
			t.Fatalf("%v, but something was decoded", err)
		}
	})
}

// FuzzEncode: any numbers are encoded, or refused because one is not finite, and what is encoded decodes to finite numbers and the rest.
func FuzzEncode(f *testing.F) {
	for i := range codecs() {
		f.Add(uint8(i), uint64(i), []byte("\x00\x00\x80\x3f\x00\x00\x80\xbf\x00\x00\x00\x00\x01\x00\x00\x80some more bytes of nothing in particular"))
		f.Add(uint8(i), uint64(i), []byte("\x00\x00\x80\x7f\xff\xff\xff\xff\xff\xff\x7f\x5f"))
	}
	f.Fuzz(func(t *testing.T, which uint8, seed uint64, data []byte) {
		c := parse(t, codecs()[int(which)%len(codecs())])
		x := make([]float32, len(data)/4)
		for i := range x {
			x[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
		rest, out := slices.Clone(x), make([]float32, len(x))
		code, err := c.AppendRest(nil, rest, seed)
		if err != nil {
			if !errors.Is(err, compress.ErrNotFinite) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		if err := c.Decode(out, code, compress.Set); err != nil {
			t.Fatal(err)
		}
		kept := compress.KindOf(c) == compress.None || compress.KindOf(c) == compress.BF16
		for i := range x {
			if r := x[i] - out[i]; !kept && (r != rest[i] || math.Abs(float64(r)) > 0x1p66) {
				t.Fatalf("element %d of %d: %v became %v and rest %v", i, len(x), x[i], out[i], rest[i])
			}
		}
	})
}
