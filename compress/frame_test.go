package compress_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hcclps/compress"
)

func frameOf(t testing.TB, name string, n int) (frame []byte, x []float32) {
	t.Helper()
	x = normal(uint64(n), n)
	frame, err := compress.AppendFrame(nil, parse(t, name), []int{n}, x, 3)
	if err != nil {
		t.Fatal(err)
	}
	return frame, x
}

func TestFrame(t *testing.T) {
	for _, name := range codecs() {
		c := parse(t, name)
		var all []byte
		shapes := [][]int{{}, {0}, {7}, {3, 0, 2}, {4, 300}, {1, 2, 3, 4, 5, 6, 7, 1}}
		for _, shape := range shapes {
			n := compress.Header{Shape: shape}.Elements()
			was := len(all)
			var err error
			if all, err = compress.AppendFrame(all, c, shape, normal(9, n), 4); err != nil {
				t.Fatal(err)
			}
			if got, most := len(all)-was, compress.MaxFrame(c, shape...); got > most {
				t.Errorf("%s %v: %d bytes, over %d", name, shape, got, most)
			}
		}
		for _, shape := range shapes {
			f, rest, err := compress.Open(all)
			if err != nil {
				t.Fatalf("%s %v: %v", name, shape, err)
			}
			if !slices.Equal(f.Shape, shape) || f.Kind != compress.KindOf(c) || f.Rows {
				t.Errorf("%s %v: opened as %+v", name, shape, f.Header)
			}
			n := f.Elements()
			want, got := make([]float32, n), make([]float32, n)
			code, err := c.Append(nil, normal(9, n), 4)
			if err = errors.Join(err, c.Decode(want, code, compress.Set), f.Decode(got, compress.Set)); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s %v: decoded other elements: %v", name, shape, err)
			}
			if err := f.Decode(make([]float32, n+1), compress.Set); !errors.Is(err, compress.ErrMismatch) {
				t.Errorf("%s %v: decoded into one more: %v", name, shape, err)
			}
			all = rest
		}
		if len(all) > 0 {
			t.Errorf("%s: %d bytes left", name, len(all))
		}
	}
}

// TestFlippedBits: every bit of a frame that is not as it was is found, by both readers.
func TestFlippedBits(t *testing.T) {
	for _, name := range codecs() {
		frame, x := frameOf(t, name, 60)
		for i := range 8 * len(frame) {
			bad := slices.Clone(frame)
			bad[i/8] ^= 1 << (i % 8)
			if _, _, err := compress.Open(bad); !errors.Is(err, compress.ErrMalformed) {
				t.Errorf("%s: bit %d: %v", name, i, err)
			}
			s := compress.NewSink(make([]float32, len(x)), compress.Set, len(bad))
			if err := errors.Join(s.Take(0, bad), s.Close()); !errors.Is(err, compress.ErrMalformed) && !errors.Is(err, compress.ErrMismatch) {
				t.Errorf("%s: bit %d, in pieces: %v", name, i, err)
			}
		}
		for n := range frame {
			if _, _, err := compress.Open(frame[:n]); !errors.Is(err, compress.ErrMalformed) {
				t.Errorf("%s: %d bytes of %d: %v", name, n, len(frame), err)
			}
		}
	}
}

func TestFrameRefuses(t *testing.T) {
	c := parse(t, "onebit")
	for what, err := range map[string]error{
		"fewer elements":    second(compress.AppendFrame(nil, c, []int{2, 3}, make([]float32, 5), 0)),
		"nine dimensions":   second(compress.AppendFrame(nil, c, []int{1, 1, 1, 1, 1, 1, 1, 1, 1}, make([]float32, 1), 0)),
		"a negative one":    second(compress.AppendFrame(nil, c, []int{-1}, nil, 0)),
		"too many":          second(compress.AppendFrame(nil, c, []int{0, math.MaxInt, math.MaxInt}, nil, 0)),
		"another's codec":   second(compress.AppendFrame(nil, other{c}, []int{1}, make([]float32, 1), 0)),
		"a source of fewer": second(compress.NewSource(nil, c, []int{2, 3}, make([]float32, 5), 0)),
		"feedback too long": second(compress.NewFeedback(c, 1<<30, 1<<30)),
	} {
		if !errors.Is(err, compress.ErrMismatch) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

type other struct{ compress.Codec }

// TestStream: a source makes the bytes of AppendFrame in whatever pieces it is asked, again too, and a sink takes them in other pieces.
func TestStream(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for _, name := range codecs() {
		for _, n := range []int{0, 1, 255, 1024, 5000, 70_000} {
			want, x := frameOf(t, name, n)
			f := newFeedback(t, name, n)
			plain, err := compress.NewSource(nil, parse(t, name), []int{n}, x, 3)
			if err != nil {
				t.Fatal(err)
			}
			kept, err := f.Source(nil, x, 3)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range []*compress.Source{plain, kept} {
				if s.Len() != len(want) {
					t.Fatalf("%s: %d elements: length %d, want %d", name, n, s.Len(), len(want))
				}
				got := make([]byte, s.Len())
				for off := 0; off < len(got); {
					size := min(len(got)-off, 1+rng.IntN(max(1, len(got)/3)))
					if err := s.Fill(off, got[off:off+size]); err != nil {
						t.Fatal(err)
					}
					off += size
					if rng.IntN(5) == 0 { // a fault
						off -= rng.IntN(off + 1)
						clear(got[off:])
					}
				}
				if !bytes.Equal(got, want) {
					t.Fatalf("%s: %d elements: the bytes differ", name, n)
				}
				if all, err := s.Finish(); err != nil || !bytes.Equal(all, want) {
					t.Fatalf("%s: %d elements: finished otherwise: %v", name, n, err)
				}
				if s.Fill(len(want)-1, make([]byte, 2)) == nil {
					t.Errorf("%s: filled more than there is", name)
				}
			}
			wantX, gotX := slices.Repeat([]float32{2}, n), slices.Repeat([]float32{2}, n)
			frame, _, err := compress.Open(want)
			if err = errors.Join(err, frame.Decode(wantX, compress.Add)); err != nil {
				t.Fatal(err)
			}
			if err := takeInPieces(rng, compress.NewSink(gotX, compress.Add, len(want)), want); err != nil || !slices.Equal(gotX, wantX) {
				t.Fatalf("%s: %d elements: taken otherwise: %v", name, n, err)
			}
		}
	}
}

func takeInPieces(rng *rand.Rand, s *compress.Sink, frame []byte) error {
	for off := 0; off < len(frame); {
		size := rng.IntN(min(len(frame)-off, 1+rng.IntN(1+len(frame)/3)) + 1)
		if err := s.Take(off, frame[off:off+size]); err != nil {
			return err
		}
		off += size
	}
	return s.Close()
}

func TestSinkRefuses(t *testing.T) {
	frame, x := frameOf(t, "int8", 300)
	fresh := func() *compress.Sink { return compress.NewSink(make([]float32, len(x)), compress.Set, len(frame)) }
	s := fresh()
	for what, err := range map[string]error{
		"a gap":             fresh().Take(1, frame[1:]),
		"more than said":    fresh().Take(0, append(slices.Clone(frame), 0)),
		"other elements":    compress.NewSink(make([]float32, 299), compress.Set, len(frame)).Take(0, frame),
		"another length":    compress.NewSink(make([]float32, 300), compress.Set, len(frame)+1).Take(0, append(slices.Clone(frame), 0)),
		"one byte too few":  errors.Join(s.Take(0, frame[:len(frame)-1]), s.Close()),
		"nothing":           fresh().Close(),
		"rows":              compress.NewSink(make([]float32, 2), compress.Set, 1000).Take(0, rowsFrame(t, "int8", []uint64{4}, []float32{1, 2}, 2)),
		"an empty top list": sinkOfEmptyTopK(),
	} {
		if !errors.Is(err, compress.ErrMalformed) && !errors.Is(err, compress.ErrMismatch) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// sinkOfEmptyTopK takes a frame of top-k with no code at all, for one element.
func sinkOfEmptyTopK() error {
	frame := sealed("hcf\x01\x07\x01\x01\x00")
	s := compress.NewSink(make([]float32, 1), compress.Set, len(frame))
	return errors.Join(s.Take(0, frame), s.Close())
}

// sealed is a frame with the right checksum.
func sealed(frame string) []byte {
	return binary.LittleEndian.AppendUint32([]byte(frame), crc32.Checksum([]byte(frame), crc32.MakeTable(crc32.Castagnoli)))
}

// TestCrafted: frames with the right checksum that no encoder has made.
func TestCrafted(t *testing.T) {
	const head, rows = "hcf\x01", "hcf\x01\x02\x82" // rows of fp16
	for what, frame := range map[string]string{
		"magic":                      "hcF\x01\x02\x01\x01\x02\x00\x00",
		"version":                    "hcf\x02\x02\x01\x01\x02\x00\x00",
		"no codec":                   head + "\x00\x01\x01\x02\x00\x00",
		"an unknown codec":           head + "\x09\x01\x01\x02\x00\x00",
		"nine dimensions":            head + "\x02\x09\x01\x01\x01\x01\x01\x01\x01\x01\x01\x02\x00\x00",
		"an unknown flag":            head + "\x02\x41\x01\x02\x00\x00",
		"a long varint":              head + "\x02\x01\x81\x00\x02\x00\x00",
		"a varint over 64 bits":      head + "\x02\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x02\x00\x00",
		"too many elements":          head + "\x07\x02\xff\xff\xff\xff\x7f\xff\xff\xff\xff\x7f\x01\x01",
		"fewer bytes than elements":  head + "\x02\x01\x02\x02\x00\x00",
		"more bytes than elements":   head + "\x06\x01\x08\x05\x00\x00\x00\x00\x00",
		"rows of one dimension":      head + "\x02\x81\x01\x03\x00\x00\x00",
		"no elements of top-k":       head + "\x07\x01\x04\x01\x00",
		"more of them than there":    head + "\x07\x01\x01\x0b\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
		"a number of top-k too many": head + "\x07\x01\x04\x0a\x01\x00\x00\x00\x80\x3f\x00\x00\x80\x3f",
		"an index too far":           head + "\x07\x01\x04\x06\x01\x04\x00\x00\x80\x3f",
		"a width of 65":              head + "\x07\x01\x04\x0c\x02\x00\x41\x01\x00\x00\x80\x3f\x00\x00\x80\x3f",
		"a seed too short":           head + "\x08\x01\x04\x08\x01\x00\x00\x00\x00\x00\x00\x00",
		"rows of top-k":              "hcf\x01\x07\x82\x01\x01\x04\x01\x01\x00\x00",
		"rows of no elements":        rows + "\x01\x00\x02\x01\x01",
		"no length of keys":          rows + "\x01\x01\x00",
		"keys longer than all":       rows + "\x01\x01\x04\x09\x01\x00\x00",
		"a row too few":              rows + "\x01\x01\x03\x01\x01\x00",
		"a row too many":             rows + "\x01\x01\x06\x01\x01\x00\x00\x00\x00",
		"a key too few":              rows + "\x02\x01\x06\x01\x01\x00\x00\x00\x00",
		"a key too many":             rows + "\x01\x01\x05\x02\x01\x00\x00\x00",
		"keys that go around":        rows + "\x02\x01\x0f\x0a\x0a\x40\xfb\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00",
		"one key twice, around":      rows + "\x02\x01\x0f\x0a\x0a\x40\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00",
	} {
		b := sealed(frame)
		f, _, err := compress.Open(b)
		if err == nil {
			err = f.Decode(make([]float32, f.Elements()), compress.Set)
		}
		if err == nil && f.Rows {
			_, err = f.Keys(nil)
		}
		if !errors.Is(err, compress.ErrMalformed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	good, _, err := compress.Open(sealed(rows + "\x02\x01\x0f\x0a\x0a\x40\xf4\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x3c"))
	keys, errKeys := good.Keys(nil)
	out := make([]float32, 2)
	if err = errors.Join(err, errKeys, good.Decode(out, compress.Set)); err != nil || !slices.Equal(keys, []uint64{10, 1<<64 - 1}) || !slices.Equal(out, []float32{0, 1}) {
		t.Errorf("a good one by hand: keys %v, rows %v, %v", keys, out, err)
	}
}

// TestScalesRoundToEven: a mean half way between two numbers of bfloat16 is the even one.
func TestScalesRoundToEven(t *testing.T) {
	c := parse(t, "onebit")
	for mean, want := range map[float32]float32{1 + 0x1p-8: 1, 1 + 3*0x1p-8: 1 + 0x1p-6, 1 + 0x1p-7: 1 + 0x1p-7} {
		code, err := c.Append(nil, []float32{mean, -mean}, 0)
		out := make([]float32, 2)
		if err = errors.Join(err, c.Decode(out, code, compress.Set)); err != nil || out[0] != want || out[1] != -want {
			t.Errorf("%v became %v, want %v: %v", mean, out, want, err)
		}
	}
}

func rowsFrame(t testing.TB, name string, keys []uint64, rows []float32, dim int) []byte {
	t.Helper()
	frame, err := compress.AppendRows(nil, parse(t, name), keys, rows, dim, 0)
	if err != nil {
		t.Fatal(err)
	}
	return frame
}

// randomKeys ascend, spread over all 64 bits or close together.
func randomKeys(rng *rand.Rand, n int) []uint64 {
	keys, width := make([]uint64, n), rng.IntN(64)
	at := rng.Uint64() >> rng.IntN(64) >> 1
	for i := range keys {
		at += 1 + rng.Uint64()>>(63-width)/uint64(n)
		keys[i] = at
	}
	return keys
}

func TestRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	for _, name := range []string{"none", "bf16", "fp16", "int8", "twobit", "onebit", "twobit:0.5"} {
		for _, n := range []int{0, 1, 2, 128, 129, 130, 1000} {
			for _, dim := range []int{1, 3, 8, 16, 17, 64} {
				keys, rows := randomKeys(rng, n), normal(uint64(n), n*dim)
				frame := rowsFrame(t, name, keys, rows, dim)
				if most, err := compress.RowsLen(parse(t, name), n, dim); err != nil || len(frame) > most {
					t.Errorf("%s: %d rows of %d took %d bytes, over %d: %v", name, n, dim, len(frame), most, err)
				}
				f, rest, err := compress.Open(frame)
				if err != nil || len(rest) > 0 {
					t.Fatal(err)
				}
				got, err := f.Keys([]uint64{5})
				if err != nil || got[0] != 5 || !slices.Equal(got[1:], keys) {
					t.Fatalf("%s: %d keys are others: %v", name, n, err)
				}
				out := make([]float32, n*dim)
				if err := f.Decode(out, compress.Set); err != nil {
					t.Fatal(err)
				}
				if d, length := distance(rows, out); d > length*(1+0x1p-7) || name == "none" && d > 0 {
					t.Errorf("%s: %d rows of %d are %v of %v away", name, n, dim, d, length)
				}
			}
		}
	}
}

// TestRowsHaveTheirOwnScale: a small row beside a large one is not lost.
func TestRowsHaveTheirOwnScale(t *testing.T) {
	rows := append(slices.Repeat([]float32{1000}, 16), slices.Repeat([]float32{0.001}, 16)...)
	for _, name := range []string{"int8", "twobit", "onebit"} {
		f, _, err := compress.Open(rowsFrame(t, name, []uint64{1, 2}, rows, 16))
		out := make([]float32, 32)
		if err = errors.Join(err, f.Decode(out, compress.Set)); err != nil {
			t.Fatal(err)
		}
		if d, length := distance(rows[16:], out[16:]); d > length/100 {
			t.Errorf("%s: the small row became %v", name, out[16:])
		}
	}
}

func TestRowsRefuse(t *testing.T) {
	c, two := parse(t, "int8"), make([]float32, 4)
	for what, err := range map[string]error{
		"keys that do not ascend": second(compress.AppendRows(nil, c, []uint64{2, 1}, two, 2, 0)),
		"one key twice":           second(compress.AppendRows(nil, c, []uint64{2, 2}, two, 2, 0)),
		"a row too few":           second(compress.AppendRows(nil, c, []uint64{1, 2}, two[:2], 2, 0)),
		"rows of nothing":         second(compress.AppendRows(nil, c, []uint64{1, 2}, nil, 0, 0)),
	} {
		if !errors.Is(err, compress.ErrMismatch) {
			t.Errorf("%s: %v", what, err)
		}
	}
	nan := []float32{1, 2, 3, float32(math.NaN())}
	if _, err := compress.AppendRows(nil, c, []uint64{1, 2}, nan, 2, 0); !errors.Is(err, compress.ErrNotFinite) {
		t.Errorf("a NaN: %v", err)
	}
	dense, _ := frameOf(t, "int8", 4)
	f, _, err := compress.Open(dense)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Keys(nil); !errors.Is(err, compress.ErrMismatch) {
		t.Errorf("keys of a dense frame: %v", err)
	}
}
