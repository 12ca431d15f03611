package compress

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestBytesARow prints what a row takes on the wire, its key with it, in a push of 2,000 rows: of keys that are small numbers, and of hashes.
func TestBytesARow(t *testing.T) {
	const n = 2000
	rng := rand.New(rand.NewPCG(1, 2))
	draw := func(most uint64) []uint64 {
		keys := map[uint64]bool{}
		out := make([]uint64, 0, n)
		for len(out) < n {
			if k := rng.Uint64N(most); !keys[k] {
				keys[k], out = true, append(out, k)
			}
		}
		slices.Sort(out)
		return out
	}
	small, hashed := draw(1_000_000), draw(1<<63)
	for _, dim := range []int{8, 16, 64} {
		rows := make([]float32, n*dim)
		for i := range rows {
			rows[i] = float32(rng.NormFloat64())
		}
		plain := float64(8 + 4*dim)
		for _, name := range []string{"fp16", "int8", "twobit", "onebit", "topk:0.01"} {
			c, err := Parse(name)
			if err != nil {
				t.Fatal(err)
			}
			size := func(keys []uint64) float64 {
				b, err := AppendRows(nil, c, keys, rows, dim, 1)
				if err != nil {
					t.Fatal(err)
				}
				return float64(len(b)) / n
			}
			few, many := size(small), size(hashed)
			t.Logf("dim %d, %s: %.1f bytes a row with keys below 10^6, %.1f with hashed keys, %.0f as it is", dim, name, few, many, plain)
			if few >= many || many >= 0.75*plain {
				t.Errorf("dim %d, %s: %.1f bytes a row, hashed keys %.1f: keys are not coded, or rows are not", dim, name, few, many)
			}
		}
	}
}
