package table_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hcclps/internal/vec"
	"hcclps/ps/optim"
	"hcclps/ps/table"
)

const batchKeys = 20_000

// sortedKeys draws n different keys below limit, spread by a mix, ascending.
func sortedKeys(rng *rand.Rand, n int, limit uint64) []uint64 {
	keys := make([]uint64, 0, n)
	for len(keys) < n {
		for len(keys) < n {
			keys = append(keys, vec.Mix64(rng.Uint64N(limit), 99))
		}
		slices.Sort(keys)
		keys = slices.Compact(keys)
	}
	return keys
}

// filled makes a table of dim 16 with adagrad that holds the mixes of 0 to rows-1.
func filled(b *testing.B, rows uint64) (*table.Table, table.Updater) {
	b.Helper()
	rule, err := optim.New(optim.Config{Name: "adagrad"})
	if err != nil {
		b.Fatal(err)
	}
	t, err := table.New(table.Spec{
		Dim: 16, Slots: rule.Slots(16), SlotInit: rule.SlotInit(16),
		Init: table.Init{Kind: "uniform", A: -0.05, B: 0.05}, Seed: 1,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = t.Close() })
	var state optim.State
	rule.Advance(&state)
	u := rule.Step(&state, 1)
	const step = 1 << 16
	keys, grads := make([]uint64, 0, step), make([]float32, step*16)
	for at := uint64(0); at < rows; at += step {
		keys = keys[:0]
		for k := at; k < min(rows, at+step); k++ {
			keys = append(keys, vec.Mix64(k, 99))
		}
		slices.Sort(keys)
		if err := t.Apply(keys, grads[:len(keys)*16], table.Stamp{Step: 1}, u); err != nil {
			b.Fatal(err)
		}
	}
	return t, u
}

func eachSize(b *testing.B, run func(b *testing.B, t *table.Table, u table.Updater, batches [][]uint64)) {
	b.Helper()
	for _, rows := range []uint64{1e5, 1e7} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			t, u := filled(b, rows)
			rng := rand.New(rand.NewPCG(1, rows))
			batches := make([][]uint64, 64)
			for i := range batches {
				batches[i] = sortedKeys(rng, batchKeys, rows)
			}
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			b.ReportAllocs()
			b.ResetTimer()
			began := threadTime(b)
			run(b, t, u, batches)
			b.ReportMetric(float64(b.N)*batchKeys/(threadTime(b)-began).Seconds()/1e6, "Mrows/cpu-s")
			b.ReportMetric(float64(b.N)*batchKeys/b.Elapsed().Seconds()/1e6, "Mrows/s")
			b.ReportMetric(float64(t.Stats().Bytes)/float64(rows), "B/row")
		})
	}
}

// threadTime is the CPU time of the calling thread: on a shared machine the figure to trust.
func threadTime(b *testing.B) time.Duration {
	b.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		b.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// BenchmarkGather reads batches of 20,000 keys, dim 16, one thread.
func BenchmarkGather(b *testing.B) {
	out := make([]float32, batchKeys*16)
	eachSize(b, func(b *testing.B, t *table.Table, _ table.Updater, batches [][]uint64) {
		b.Helper()
		for i := range b.N {
			t.Gather(batches[i%len(batches)], out)
		}
	})
}

// BenchmarkApply updates batches of 20,000 keys that exist, dim 16, adagrad, one thread.
func BenchmarkApply(b *testing.B) {
	grads := make([]float32, batchKeys*16)
	for i := range grads {
		grads[i] = float32(math.Sin(float64(i))) * 0.01
	}
	eachSize(b, func(b *testing.B, t *table.Table, u table.Updater, batches [][]uint64) {
		b.Helper()
		for i := range b.N {
			if err := t.Apply(batches[i%len(batches)], grads, table.Stamp{Step: uint32(i)}, u); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkInsert fills a table with 10^6 rows, dim 16, adagrad, one thread.
func BenchmarkInsert(b *testing.B) {
	b.ReportAllocs()
	for range b.N {
		t, _ := filled(b, 1e6)
		if err := t.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*1e6/b.Elapsed().Seconds()/1e6, "Mrows/s")
}
