package pstest_test

import (
	"context"
	crand "crypto/rand"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hcclps/ps"
	"hcclps/ps/pstest"
	"hcclps/worker"
	"hcclps/worker/dataset"
	"hcclps/worker/model"
)

// The benchmarks of the whole: servers and workers in this one process, so a
// figure per CPU-second, and an allocation, counts all of them together.

const (
	batchKeys = 20_000 // of a push or a pull
	batchRows = 256    // of data, a worker and step
	dim       = 16
	fillKeys  = 1 << 16 // rows a push while a table is filled: 4.7 MB, which one shard takes
)

// replication is a way to keep the shards.
type replication struct {
	name string
	cfg  ps.LocalConfig
}

func replications() []replication {
	return []replication{
		{"scratch", ps.LocalConfig{Scratch: true}},
		{"quorum-memory", ps.LocalConfig{}},
		{"quorum-disk", ps.LocalConfig{Durability: ps.QuorumDisk}},
	}
}

// local runs a cluster for one benchmark.
func local(b *testing.B, cfg ps.LocalConfig) *ps.Local {
	b.Helper()
	return pstest.Serve(b, cfg)
}

// join connects a worker, which leaves at the end of the benchmark.
func join(b *testing.B, l *ps.Local, cfg worker.Config) *worker.Client {
	b.Helper()
	cfg.Servers, cfg.Cluster, cfg.Network = l.Addrs(), l.Cluster(), l.Network()
	c, err := worker.Connect(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return c
}

// BenchmarkTrain trains logistic regression on rows like those of a9a, under
// bsp; an operation is one step of all workers.
func BenchmarkTrain(b *testing.B) {
	for _, r := range replications() {
		b.Run(r.name, func(b *testing.B) {
			l := local(b, r.cfg)
			for _, world := range []int{1, 2} {
				b.Run(fmt.Sprintf("workers=%d", world), func(b *testing.B) { train(b, l, world) })
			}
		})
	}
}

func train(b *testing.B, l *ps.Local, world int) {
	b.Helper()
	batches := adults(128)
	models := make([]*model.LR, world)
	clients := make([]*worker.Client, world)
	var all sync.WaitGroup
	job := crand.Text()       // a new one each time: those before have ended
	for rank := range world { // together: a job begins when its workers are there
		clients[rank] = join(b, l, worker.Config{Job: job, Rank: rank, World: world})
		all.Go(func() {
			var err error
			if models[rank], err = model.NewLR(b.Context(), clients[rank], worker.Optimizer{}); err != nil {
				b.Error(err)
			}
		})
	}
	all.Wait()
	if b.Failed() {
		return
	}
	b.ReportAllocs()
	b.ResetTimer()
	began := processTime(b)
	for rank := range world {
		all.Go(func() {
			src := &loop{batches: batches, length: b.N * world}
			if _, err := clients[rank].Train(b.Context(), models[rank], src, worker.TrainOptions{}); err != nil {
				b.Error(err)
			}
		})
	}
	all.Wait()
	b.StopTimer()
	samples := float64(b.N * world * batchRows)
	b.ReportMetric(samples/b.Elapsed().Seconds(), "samples/s")
	b.ReportMetric(samples/(processTime(b)-began).Seconds(), "samples/cpu-s")
}

// BenchmarkRows pulls and pushes 20,000 rows of dim 16, adagrad, at a time, of
// a table of so many rows. The groups have the log of `serve`, 64 MiB each. With
// 10^7 rows that is little beside the table: pushes all over it dirty every page
// between two snapshots, which write the whole table each, so that case is there
// with a larger log too.
func BenchmarkRows(b *testing.B) {
	for _, r := range replications() {
		r.cfg.LogBudget = 64 << 20
		b.Run(r.name+"/rows=1e5", func(b *testing.B) { rows(b, r.cfg, 1e5) })
	}
	for _, mib := range []int64{64, 256} {
		b.Run(fmt.Sprintf("quorum-memory/rows=1e7/log=%dMiB", mib), func(b *testing.B) {
			if testing.Short() {
				b.Skip("10^7 rows, three times, want 8 GB and a minute")
			}
			rows(b, ps.LocalConfig{LogBudget: mib << 20}, 1e7)
		})
	}
}

func rows(b *testing.B, cfg ps.LocalConfig, n int) {
	b.Helper()
	t := fill(b, local(b, cfg), n)
	b.Run("pull", t.pull)
	b.Run("push", t.push)
}

// filled is a table with rows, and a worker who reads and updates them.
type filled struct {
	c       *worker.Client
	table   worker.Embedding
	batches [][]uint64
	values  []float32
}

func fill(b *testing.B, l *ps.Local, n int) *filled {
	b.Helper()
	c := join(b, l, worker.Config{})
	table, err := c.Embedding(b.Context(), "t", worker.EmbeddingSpec{Dim: dim})
	if err != nil {
		b.Fatal(err)
	}
	keys, zeros := make([]uint64, 0, fillKeys), make([]float32, fillKeys*dim)
	for key := range uint64(n) {
		if keys = append(keys, key); len(keys) < fillKeys && key < uint64(n-1) {
			continue
		}
		if err := c.Push(b.Context(), 1, nil, worker.Gradient{Table: table, Keys: keys, Values: zeros[:len(keys)*dim]}); err != nil {
			b.Fatal(err)
		}
		keys = keys[:0]
	}
	t := &filled{c: c, table: table, values: make([]float32, batchKeys*dim)}
	for i := range t.values {
		t.values[i] = float32(math.Sin(float64(i)))
	}
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	for range 64 {
		t.batches = append(t.batches, draw(rng, uint64(n)))
	}
	return t
}

// draw picks a batch of different keys below limit, ascending.
func draw(rng *rand.Rand, limit uint64) []uint64 {
	var keys []uint64
	for len(keys) < batchKeys {
		for len(keys) < batchKeys {
			keys = append(keys, rng.Uint64N(limit))
		}
		slices.Sort(keys)
		keys = slices.Compact(keys)
	}
	return keys
}

func (t *filled) pull(b *testing.B) {
	out := make([]float32, batchKeys*dim)
	t.measure(b, func(keys []uint64) error {
		return t.c.Pull(b.Context(), worker.Read{Table: t.table, Keys: keys, Out: out})
	})
}

func (t *filled) push(b *testing.B) {
	t.measure(b, func(keys []uint64) error {
		return t.c.Push(b.Context(), batchRows, nil, worker.Gradient{Table: t.table, Keys: keys, Values: t.values})
	})
}

// measure calls do with one batch of keys after the other.
func (t *filled) measure(b *testing.B, do func(keys []uint64) error) {
	b.Helper()
	for _, keys := range t.batches[:4] { // what is allocated once is there afterwards
		if err := do(keys); err != nil {
			b.Fatal(err)
		}
	}
	sent := t.c.Stats()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := processTime(b)
	n := 0
	for b.Loop() {
		if err := do(t.batches[n%len(t.batches)]); err != nil {
			b.Fatal(err)
		}
		n++
	}
	used := processTime(b) - began
	runtime.ReadMemStats(&after)
	now := t.c.Stats()
	rows := float64(n * batchKeys)
	moved := float64(now.PushedBytes - sent.PushedBytes + now.PulledBytes - sent.PulledBytes)
	b.SetBytes(int64(moved) / int64(n))
	b.ReportMetric(rows/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(rows/used.Seconds(), "rows/cpu-s")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/moved, "allocB/movedB")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/rows, "allocs/row")
}

// BenchmarkAllocations compares pushes and pulls of 2,000 rows with those of
// 20,000: what a row more costs in allocations of client and servers together,
// beside what a message costs.
func BenchmarkAllocations(b *testing.B) {
	t := fill(b, local(b, ps.LocalConfig{LogBudget: 64 << 20}), 1e5)
	out := make([]float32, batchKeys*dim)
	pull := func(keys []uint64) error {
		return t.c.Pull(b.Context(), worker.Read{Table: t.table, Keys: keys, Out: out[:len(keys)*dim]})
	}
	push := func(keys []uint64) error {
		return t.c.Push(b.Context(), batchRows, nil, worker.Gradient{Table: t.table, Keys: keys, Values: t.values[:len(keys)*dim]})
	}
	b.Run("pull", func(b *testing.B) { t.allocations(b, pull) })
	b.Run("push", func(b *testing.B) { t.allocations(b, push) })
}

func (t *filled) allocations(b *testing.B, do func(keys []uint64) error) {
	b.Helper()
	const few = batchKeys / 10
	var counts [2]uint64
	n := 0
	for b.Loop() {
		for i, rows := range []int{few, batchKeys} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if err := do(t.batches[n%len(t.batches)][:rows]); err != nil {
				b.Fatal(err)
			}
			runtime.ReadMemStats(&after)
			counts[i] += after.Mallocs - before.Mallocs
		}
		n++
	}
	perRow := (float64(counts[1]) - float64(counts[0])) / float64(n*(batchKeys-few))
	b.ReportMetric(perRow, "allocs/row")
	b.ReportMetric(float64(counts[0])/float64(n), "allocs/2000rows")
	b.ReportMetric(float64(counts[1])/float64(n), "allocs/20000rows")
}

// processTime is the CPU time that this process has used.
func processTime(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// loop is a Source of length batches, made of some that come again and again.
type loop struct {
	batches    []dataset.Batch
	length, at int
}

func (l *loop) Next(b *dataset.Batch) (bool, error) {
	if l.at >= l.length {
		l.at = 0
		return false, nil
	}
	from := &l.batches[l.at%len(l.batches)]
	l.at++
	b.Rows = from.Rows
	b.Label, b.Weight = append(b.Label[:0], from.Label...), append(b.Weight[:0], from.Weight...)
	if b.Features == nil {
		b.Features = make([]dataset.Column, 1)
	}
	to, bags := &b.Features[0], &from.Features[0]
	to.Name = bags.Name
	to.Offsets = append(to.Offsets[:0], bags.Offsets...)
	to.Keys, to.Weights = append(to.Keys[:0], bags.Keys...), append(to.Weights[:0], bags.Weights...)
	return true, nil
}

func (l *loop) Seek(_, batch int) error { l.at = batch; return nil }
func (*loop) Close() error              { return nil }

// adults makes n batches like those of a9a: 14 of 123 binary features a row,
// one of each group that stands for an attribute, and a quarter of the labels 1.
func adults(n int) []dataset.Batch {
	const groups, features = 14, 123
	rng := rand.New(rand.NewPCG(9, 9))
	batches := make([]dataset.Batch, n)
	for i := range batches {
		b := &batches[i]
		b.Rows = batchRows
		bags := dataset.Ragged{Offsets: []int32{0}}
		for range batchRows {
			score := -1.5
			for g := range groups {
				from, to := g*features/groups, (g+1)*features/groups
				key := uint64(from + rng.IntN(to-from))
				bags.Keys, bags.Weights = append(bags.Keys, key+1), append(bags.Weights, 1)
				score += math.Sin(float64(key * key))
			}
			label := float32(0)
			if rng.Float64() < 1/(1+math.Exp(-score)) {
				label = 1
			}
			b.Label, b.Weight = append(b.Label, label), append(b.Weight, 1)
			bags.Offsets = append(bags.Offsets, int32(len(bags.Keys)))
		}
		b.Features = []dataset.Column{{Name: dataset.Features, Ragged: bags}}
	}
	return batches
}
