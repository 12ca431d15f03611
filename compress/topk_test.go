package compress_test

import (
	"math"
	"slices"
	"testing"

	"hcclps/compress"
)

// TestTopKIsExact compares with sorting, also where many are equal and where a sample misleads.
func TestTopKIsExact(t *testing.T) {
	type vector struct {
		name string
		x    []float32
	}
	many := normal(5, 100_000)
	rising, few, equal := make([]float32, 100_000), make([]float32, 100_000), slices.Repeat([]float32{-1}, 100_000)
	for i := range rising {
		rising[i] = float32(i)
		if i%1000 == 999 {
			few[i] = float32(i%7) - 3
		}
	}
	coarse := normal(6, 100_000)
	for i, v := range coarse {
		coarse[i] = float32(int(v))
	}
	for _, v := range []vector{{"many", many}, {"rising", rising}, {"few", few}, {"equal", equal}, {"coarse", coarse}, {"short", many[:300]}} {
		for _, share := range []string{"topk", "topk:0.1", "topk:0.0001", "topk:0.9"} {
			c := parse(t, share)
			got := make([]float32, len(v.x))
			code, err := c.Append(nil, v.x, 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Decode(got, code, compress.Set); err != nil {
				t.Fatal(err)
			}
			order := make([]int, len(v.x))
			for i := range order {
				order[i] = i
			}
			slices.SortStableFunc(order, func(a, b int) int {
				switch x, y := math.Abs(float64(v.x[a])), math.Abs(float64(v.x[b])); {
				case x > y:
					return -1
				case x < y:
					return 1
				default:
					return 0
				}
			})
			k := map[string]float64{"topk": 0.01, "topk:0.1": 0.1, "topk:0.0001": 0.0001, "topk:0.9": 0.9}[share]
			want := make([]float32, len(v.x))
			for _, i := range order[:int(math.Ceil(k*float64(len(v.x))))] {
				want[i] = v.x[i]
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s of %s: not the largest", share, v.name)
			}
		}
	}
}

// TestRandomKDrawsAll: with enough seeds every element comes, about as often as others, and equal seeds draw the same.
func TestRandomKDrawsAll(t *testing.T) {
	c := parse(t, "randomk:0.1")
	ones, count := slices.Repeat([]float32{1}, 250), make([]float32, 250)
	for seed := range uint64(2000) {
		code, err := c.Append(nil, ones, seed)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Decode(count, code, compress.Add); err != nil {
			t.Fatal(err)
		}
	}
	for i, n := range count { // mean 200, deviation 13
		if n < 120 || n > 280 {
			t.Errorf("element %d came %v times of a mean of 200", i, n)
		}
	}
}
