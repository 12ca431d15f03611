package compress_test

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"

	"hcclps/compress"
)

// TestFeedbackOfRows: what is decoded of a tensor's rows, and what is left of them, is what was given; other rows are not touched. The last row may be short.
func TestFeedbackOfRows(t *testing.T) {
	for _, name := range codecs() {
		for _, shape := range [][2]int{{1, 1}, {5, 5}, {2500, 1024}, {3000, 1000}, {70, 7}, {1, 1024}} {
			n, dim := shape[0], shape[1]
			f := newFeedback(t, name, n)
			whole := (n + dim - 1) / dim
			var rows []int32
			for r := range whole {
				if r%2 == 0 || r == whole-1 {
					rows = append(rows, int32(r))
				}
			}
			for step := range uint64(3) {
				g, before := normal(step, n), slices.Clone(f.Residual())
				b, err := f.AppendRows(nil, g, dim, rows, step)
				if err != nil {
					t.Fatalf("%s, %d in rows of %d: %v", name, n, dim, err)
				}
				frame := opened(t, b, nil)
				keys, err := frame.Keys(nil)
				if err != nil || len(keys) != len(rows) {
					t.Fatalf("%s: keys %v, %v", name, keys, err)
				}
				out := make([]float32, frame.Elements())
				if err := frame.Decode(out, compress.Set); err != nil {
					t.Fatalf("%s, %d in rows of %d: %v", name, n, dim, err)
				}
				want, got, left := slices.Clone(before), slices.Clone(before), out
				for i, r := range rows {
					if keys[i] != uint64(r) {
						t.Fatalf("%s: row %d has key %d", name, r, keys[i])
					}
					for at := int(r) * dim; at < min(n, int(r+1)*dim); at++ {
						want[at] += g[at]
						got[at], left = left[0]+f.Residual()[at], left[1:]
					}
				}
				if d, length := distance(want, got); d > 1e-6*length || len(left) > 0 {
					t.Errorf("%s, %d in rows of %d: %v of %v away, %d elements too many", name, n, dim, d, length, len(left))
				}
			}
		}
	}
}

// TestFeedbackOfRowsAtOnce: rows that differ may be encoded at the same time, and are what they are one after another.
func TestFeedbackOfRowsAtOnce(t *testing.T) {
	const n, dim, parts = 20_000, 1024, 4
	for _, name := range codecs() {
		one, two := newFeedback(t, name, n), newFeedback(t, name, n)
		g := normal(1, n)
		rows := make([][]int32, parts)
		for r := range int32(20) {
			rows[r%parts] = append(rows[r%parts], r)
		}
		want, got := make([][]byte, parts), make([][]byte, parts)
		errs := make([]error, 2*parts)
		var wg sync.WaitGroup
		for i := range parts {
			want[i], errs[i] = one.AppendRows(nil, g, dim, rows[i], 1)
			wg.Go(func() { got[i], errs[parts+i] = two.AppendRows(nil, g, dim, rows[i], 1) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(want, got, bytes.Equal) || !slices.Equal(one.Residual(), two.Residual()) {
			t.Errorf("%s: other bytes at once than one after another", name)
		}
	}
}

// TestRowsOfShares: topk and randomk take their share of all elements of rows, and of what rows had left.
func TestRowsOfShares(t *testing.T) {
	const dim = 10
	for _, name := range []string{"topk:0.1", "randomk:0.1"} {
		f, err := compress.NewRowFeedback(parse(t, name), dim, 100)
		if err != nil {
			t.Fatal(err)
		}
		keys := []uint64{3, 9, 1 << 40, math.MaxUint64}
		given, sent := make([]float32, 4*dim), make([]float32, 4*dim)
		for step := range uint64(20) {
			rows := normal(step, len(given))
			b, err := f.AppendFrame(nil, keys, rows, step)
			if err != nil {
				t.Fatal(err)
			}
			frame := opened(t, b, nil)
			out := make([]float32, len(rows))
			if err := frame.Decode(out, compress.Set); err != nil {
				t.Fatal(err)
			}
			some := 0
			for i := range out {
				if given[i], sent[i] = given[i]+rows[i], sent[i]+out[i]; out[i] != 0 {
					some++
				}
			}
			if some != 4 {
				t.Errorf("%s: %d elements of %d were sent", name, some, len(out))
			}
		}
		_, rest := f.Residuals()
		for i := range rest {
			sent[i] += rest[i]
		}
		if d, length := distance(given, sent); d > 1e-5*length {
			t.Errorf("%s: %v of %v are lost", name, d, length)
		}
		if f.LastNorm() != f.Norm() {
			t.Errorf("%s: residual of the last rows %v, of all %v", name, f.LastNorm(), f.Norm())
		}
	}
}

func TestFeedbackOfRowsRefuses(t *testing.T) {
	f := newFeedback(t, "onebit", 10)
	g := normal(1, 10)
	for what, err := range map[string]error{
		"another vector": second(f.AppendRows(nil, g[:9], 5, []int32{0}, 0)),
		"no row":         second(f.AppendRows(nil, g, 5, []int32{2}, 0)),
		"a negative one": second(f.AppendRows(nil, g, 5, []int32{-1}, 0)),
		"one twice":      second(f.AppendRows(nil, g, 5, []int32{1, 1}, 0)),
		"rows of none":   second(f.AppendRows(nil, g, 0, []int32{0}, 0)),
		"no elements":    f.Check(g[:1]),
	} {
		if !errors.Is(err, compress.ErrMismatch) {
			t.Errorf("%s: %v", what, err)
		}
	}
	bad := slices.Clone(g)
	bad[3] = float32(math.Inf(1))
	if err := f.Check(bad); !errors.Is(err, compress.ErrNotFinite) {
		t.Errorf("an infinity: %v", err)
	}
	if f.Norm() != 0 {
		t.Error("the residual has changed")
	}
}

// TestLimit: what is over it is refused with a residual, what is not is encoded.
func TestLimit(t *testing.T) {
	for _, name := range codecs() {
		f := newFeedback(t, name, 1)
		top := compress.Limit(f.Codec())
		if _, err := f.Append(nil, []float32{math.Nextafter32(top, math.MaxFloat32)}, 1); !errors.Is(err, compress.ErrNotFinite) {
			t.Errorf("%s: more than %v: %v", name, top, err)
		}
		if _, err := f.Append(nil, []float32{-top}, 1); err != nil {
			t.Errorf("%s: %v: %v", name, -top, err)
		}
	}
}
