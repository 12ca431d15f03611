package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"sync"
	"syscall"
	"testing"
	"time"

	"hcclps/ps"
	"hcclps/ps/pstest"
	"hcclps/worker"
	"hcclps/worker/dataset"
)

// BenchmarkTrain trains on a click log in memory, on servers in this process:
// one without replication, and three with. 26 ids a row, Zipf(1.1) over 10^6, 13
// numbers, batches of 2048. bench/ctr.sh compares it with a peer.
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
	var all []dataset.Batch
	for i := range uint64(16) {
		all = append(all, clicks(rand.New(rand.NewPCG(1, i)), schema, rows, draw))
	}
	for _, name := range []string{NameLR, NameFM, NameDeepFM, NameWideDeep, NameDLRM} {
		o := Options{Model: name}
		if len(Defaults(name).Hidden) > 0 {
			o.Hidden = []int{256, 128, 64}
		}
		for _, servers := range []ps.LocalConfig{{Servers: 1, Scratch: true}, {Servers: 3, Replicas: 3, LogBudget: 64 << 20}} { // as ps-server serve has it
			for workers := 1; workers <= 2; workers++ {
				b.Run(fmt.Sprintf("%s/servers=%d/workers=%d", name, servers.Servers, workers), func(b *testing.B) {
					benchTrain(b, pstest.Serve(b, servers), schema, o, all, workers)
				})
			}
		}
	}
}

// benchTrain makes b.N steps of so many workers together.
func benchTrain(b *testing.B, l *ps.Local, schema *dataset.Schema, o Options, all []dataset.Batch, workers int) {
	b.Helper()
	clients, models := make([]*worker.Client, workers), make([]worker.Model, workers)
	for rank := range workers {
		c := connect(b, l, worker.Config{Job: o.Model, World: workers, Rank: rank})
		m, err := New(b.Context(), c, schema, o)
		if err != nil {
			b.Fatal(err)
		}
		clients[rank], models[rank] = c, m
	}
	rows := float64(b.N * workers * all[0].Rows)
	b.ReportAllocs()
	b.ResetTimer()
	cpu := cpuTime(b)
	var wg sync.WaitGroup
	for rank, c := range clients {
		wg.Go(func() {
			src := &limited{batches: &batches{all: all}, steps: b.N * workers}
			if _, err := c.Train(b.Context(), models[rank], src, worker.TrainOptions{}); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
	b.ReportMetric(rows/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(cpuTime(b)-cpu)/rows, "cpu-ns/row")
}

// cpuTime is what this process has used so far, servers and all.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
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
	rank := ranks(n, a)
	return func(r *rand.Rand) uint64 { return uint64(rank(r)) * 0x9e3779b97f4a7c15 % uint64(n) }
}

// ranks draws numbers from 0 to n-1, of which i has a frequency of (i+1)^-a.
func ranks(n int, a float64) func(*rand.Rand) int {
	sums := make([]float64, n)
	sum := 0.0
	for i := range sums {
		sum += math.Pow(float64(i+1), -a)
		sums[i] = sum
	}
	return func(r *rand.Rand) int { return min(sort.SearchFloat64s(sums, r.Float64()*sum), n-1) }
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
