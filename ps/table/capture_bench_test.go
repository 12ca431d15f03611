package table_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hcclps/ps/table"
)

// BenchmarkCapture holds a table of 10^6 rows, dim 16, adagrad, updates so many batches of 20,000 keys anywhere, and emits all pages: what a
// checkpoint costs beside its folder. The copies are of the units that were updated before their pages were out, here all of them.
func BenchmarkCapture(b *testing.B) {
	const rows = 1e6
	for _, steps := range []int{0, 5} {
		b.Run(fmt.Sprintf("steps=%d", steps), func(b *testing.B) {
			t, u := filled(b, rows)
			rng := rand.New(rand.NewPCG(1, 2))
			batches := make([][]uint64, 5)
			for i := range batches {
				batches[i] = sortedKeys(rng, batchKeys, rows)
			}
			grads := make([]float32, batchKeys*16)
			var mu sync.RWMutex
			copied := int64(0)
			b.ReportAllocs()
			began := allTime(b)
			for b.Loop() {
				c := t.Capture()
				for _, keys := range batches[:steps] {
					if err := t.Apply(keys, grads, table.Stamp{Step: 2}, u); err != nil {
						b.Fatal(err)
					}
				}
				copied = max(copied, t.Stats().CopyBytes)
				if err := c.Pages(true, 0, func(table.PageID, []byte) error { return nil }, mu.RLocker()); err != nil {
					b.Fatal(err)
				}
				c.Close()
			}
			b.ReportMetric((allTime(b)-began).Seconds()*1000/float64(b.N), "cpu-ms/op")
			b.ReportMetric(float64(copied)/(1<<20), "MiB-copied")
		})
	}
}

// allTime is the CPU time of the process, its collector's too.
func allTime(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
