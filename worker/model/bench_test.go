package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"testing"

	"hcclps/worker"
	"hcclps/worker/dataset"
)

// BenchmarkTrain trains on a click log in memory, through one server without
// replication: 26 ids a row, Zipf(1.1) over 10^6, 13 numbers, batches of 2048.
func BenchmarkTrain(b *testing.B) {
	const rows, ids, numbers, space = 2048, 26, 13, 1_000_000
	schema := &dataset.Schema{}
	for f := range ids {
		schema.Features = append(schema.Features, dataset.Feature{Name: fmt.Sprintf("c%d", f), Kind: dataset.KindID, Table: "ids"})
	}
	for f := range numbers {
		schema.Features = append(schema.Features, dataset.Feature{Name: fmt.Sprintf("n%d", f), Kind: dataset.KindNumeric, Transform: dataset.TransformRaw})
	}
	draw := zipf(space, 1.1)
	src := &batches{}
	for i := range uint64(16) {
		src.all = append(src.all, clicks(rand.New(rand.NewPCG(1, i)), schema, rows, draw))
	}
	for _, o := range []Options{
		{Model: NameLR},
		{Model: NameFM},
		{Model: NameDeepFM, Hidden: []int{256, 128, 64}},
		{Model: NameWideDeep, Hidden: []int{256, 128, 64}},
		{Model: NameDLRM, Hidden: []int{256, 128, 64}},
	} {
		b.Run(o.Model, func(b *testing.B) {
			c := connect(b, cluster(b), worker.Config{Job: o.Model})
			m, err := New(b.Context(), c, schema, o)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.ResetTimer()
			left := &limited{batches: src, steps: b.N}
			if _, err := c.Train(b.Context(), m, left, worker.TrainOptions{}); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N)*rows/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// limited is one epoch of so many batches.
type limited struct {
	*batches
	steps int
}

func (l *limited) Next(b *dataset.Batch) (bool, error) {
	if l.at >= l.steps {
		l.at = 0
		return false, nil
	}
	*b = l.all[l.at%len(l.all)]
	l.at++
	return true, nil
}

func (l *limited) Seek(_, batch int) error { l.at = min(batch, l.steps); return nil }

// zipf draws ids from 0 to n-1, of which the i-th most frequent has a frequency
// of i^-a, scattered.
func zipf(n int, a float64) func(*rand.Rand) uint64 {
	sums := make([]float64, n)
	sum := 0.0
	for i := range sums {
		sum += math.Pow(float64(i+1), -a)
		sums[i] = sum
	}
	return func(r *rand.Rand) uint64 {
		i := sort.SearchFloat64s(sums, r.Float64()*sum)
		return uint64(i) * 0x9e3779b97f4a7c15 % uint64(n)
	}
}

func clicks(r *rand.Rand, schema *dataset.Schema, rows int, draw func(*rand.Rand) uint64) dataset.Batch {
	b := dataset.Batch{Rows: rows}
	for range rows {
		y := float32(0)
		if r.Float64() < 0.25 {
			y = 1
		}
		b.Label, b.Weight = append(b.Label, y), append(b.Weight, 1)
	}
	for i := range schema.Features {
		f := &schema.Features[i]
		c := dataset.Column{Name: f.Name}
		if f.Ragged() {
			c.Offsets = []int32{0}
		}
		for range rows {
			if !f.Ragged() {
				c.Numeric = append(c.Numeric, float32(r.NormFloat64()))
				continue
			}
			c.Keys, c.Weights = append(c.Keys, draw(r)), append(c.Weights, 1)
			c.Offsets = append(c.Offsets, int32(len(c.Keys)))
		}
		b.Features = append(b.Features, c)
	}
	return b
}
