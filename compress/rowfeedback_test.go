package compress_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hcclps/compress"
)

func newRows(t testing.TB, name string, dim, room int) *compress.RowFeedback {
	t.Helper()
	f, err := compress.NewRowFeedback(parse(t, name), dim, room)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// batch is some of 50 keys with their rows.
func batch(rng *rand.Rand, dim int) (keys []uint64, rows []float32) {
	for key := range uint64(50) {
		if rng.IntN(3) > 0 {
			continue
		}
		keys = append(keys, key*key<<40)
		for range dim {
			rows = append(rows, float32(rng.NormFloat64()))
		}
	}
	return keys, rows
}

// TestRowFeedbackLosesNothing: for each key the sum of rows less that of decoded ones is the residual, and saved residuals go on as they were.
func TestRowFeedbackLosesNothing(t *testing.T) {
	for _, name := range []string{"none", "bf16", "fp16", "int8", "twobit", "onebit"} {
		for _, dim := range []int{1, 5, 16} {
			rng := rand.New(rand.NewPCG(1, uint64(dim)))
			f := newRows(t, name, dim, 100)
			left := map[uint64][]float64{}
			for step := range 200 {
				keys, rows := batch(rng, dim)
				b, err := f.AppendFrame(nil, keys, rows, 0)
				frame := opened(t, b, err)
				out := make([]float32, len(rows))
				if err := frame.Decode(out, compress.Set); err != nil {
					t.Fatal(err)
				}
				for i, key := range keys {
					if left[key] == nil {
						left[key] = make([]float64, dim)
					}
					for j := range dim {
						left[key][j] += float64(rows[i*dim+j]) - float64(out[i*dim+j])
					}
				}
				if step == 100 {
					saved, residuals := f.Residuals()
					f = newRows(t, name, dim, 100)
					if err := f.Restore(saved, residuals); err != nil {
						t.Fatal(err)
					}
				}
			}
			keys, rows := f.Residuals()
			for key, want := range left {
				got := make([]float32, dim)
				if i, ok := slices.BinarySearch(keys, key); ok {
					copy(got, rows[i*dim:])
				}
				for j := range want {
					if math.Abs(want[j]-float64(got[j])) > 1e-4 {
						t.Fatalf("%s: key %d of dim %d: %v is left, the residual is %v", name, key, dim, want, got)
					}
				}
			}
			if f.Dropped() > 0 || name == "none" && f.Len() > 0 {
				t.Errorf("%s: %d residuals, %d dropped", name, f.Len(), f.Dropped())
			}
		}
	}
}

func opened(t testing.TB, b []byte, err error) compress.Frame {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	f, _, err := compress.Open(b)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestRowFeedbackIsBounded: with less room than keys the memory stays, and the keys that come often keep their residuals.
func TestRowFeedbackIsBounded(t *testing.T) {
	f := newRows(t, "onebit", 8, 20)
	often := []uint64{1, 2, 3, 4, 5}
	for step := range uint64(300) {
		keys := append(slices.Clone(often), 100+2*step, 101+2*step)
		if _, err := f.AppendFrame(nil, keys, normal(step, 8*len(keys)), 0); err != nil {
			t.Fatal(err)
		}
	}
	keys, _ := f.Residuals()
	if f.Len() != 20 || !slices.Equal(keys[:5], often) || f.Dropped() != 2*300+5-20 {
		t.Errorf("%d residuals, of keys %v, %d dropped", f.Len(), keys, f.Dropped())
	}
}

// TestRowFeedbackReturn: what is returned comes again.
func TestRowFeedbackReturn(t *testing.T) {
	f := newRows(t, "onebit", 8, 20)
	keys, rows := []uint64{3, 9}, normal(1, 16)
	b, err := f.AppendFrame(nil, keys, rows, 0)
	frame := opened(t, b, err)
	if err := f.Return(frame); err != nil {
		t.Fatal(err)
	}
	got, left := f.Residuals()
	if d, length := distance(rows, left); !slices.Equal(got, keys) || d > 1e-6*length {
		t.Errorf("%v of %v away", d, length)
	}
}

func TestRowFeedbackRefuses(t *testing.T) {
	f := newRows(t, "onebit", 2, 20)
	if _, err := f.AppendFrame(nil, []uint64{1}, []float32{1, 3}, 0); err != nil {
		t.Fatal(err)
	}
	keys, rows := f.Residuals()
	for what, err := range map[string]error{
		"a NaN":           second(f.AppendFrame(nil, []uint64{1}, []float32{1, float32(math.NaN())}, 0)),
		"falling keys":    second(f.AppendFrame(nil, []uint64{2, 1}, make([]float32, 4), 0)),
		"fewer elements":  second(f.AppendFrame(nil, []uint64{1, 2}, make([]float32, 3), 0)),
		"a restored NaN":  f.Restore([]uint64{1}, []float32{1, float32(math.NaN())}),
		"fewer restored":  f.Restore([]uint64{1}, []float32{1}),
		"no room":         second(compress.NewRowFeedback(parse(t, "onebit"), 2, 0)),
		"rows of nothing": second(compress.NewRowFeedback(parse(t, "onebit"), 0, 1)),
		"another's frame": f.Return(opened(t, rowsFrame(t, "onebit", []uint64{1}, []float32{1, 2, 3}, 3), nil)),
	} {
		if !errors.Is(err, compress.ErrNotFinite) && !errors.Is(err, compress.ErrMismatch) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if k, r := f.Residuals(); !slices.Equal(k, keys) || !slices.Equal(r, rows) {
		t.Errorf("residuals changed to %v %v", k, r)
	}
}
