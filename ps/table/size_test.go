package table_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"hcclps/internal/vec"
	"hcclps/ps/table"
)

// idle leaves rows as they are.
type idle struct{}

func (idle) Update([]float32, []float32) {}

// allowed is the bound on all memory of a table, in bytes a row, from 10^6 rows on.
func allowed(dim, slots int) float64 {
	payload := float64(4 * (dim + slots))
	if dim >= 16 {
		return 1.3 * (payload + 16)
	}
	return payload + 32
}

// sweep adds rows 0, 1, 2 ... up to most and calls visit at every count from least on in steps of 5 %.
func sweep(t testing.TB, dim, slots int, least, most float64, visit func(rows int64, perRow float64)) {
	t.Helper()
	tab := open(t, table.Spec{Dim: dim, Slots: slots})
	const most1 = 1 << 14
	keys, grads := make([]uint64, 0, most1), make([]float32, most1*dim)
	at := uint64(0)
	for count := least; count <= most*1.0001; count *= 1.05 {
		for at < uint64(count) {
			keys = keys[:0]
			for ; at < uint64(count) && len(keys) < most1; at++ {
				keys = append(keys, at)
			}
			if err := tab.Apply(keys, grads[:len(keys)*dim], table.Stamp{}, idle{}); err != nil {
				t.Fatal(err)
			}
		}
		s := tab.Stats()
		visit(s.Rows, float64(s.Bytes)/float64(s.Rows))
	}
	if err := tab.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestBytesPerRow holds the bound over a doubling of the rows, which is a whole period of every part that grows.
// BenchmarkBytesPerRow goes the whole way.
func TestBytesPerRow(t *testing.T) {
	if testing.Short() {
		t.Skip("millions of rows: not under emulation")
	}
	for _, c := range []struct {
		dim, slots int
		most       float64
	}{{1, 1, 2.1e6}, {1, 0, 1.2e6}, {15, 30, 1e6}, {16, 0, 1e6}, {16, 1, 1e6}} {
		sweep(t, c.dim, c.slots, 1e6, c.most, func(rows int64, perRow float64) {
			if perRow > allowed(c.dim, c.slots) {
				t.Errorf("dim %d, slots %d, %d rows: %.2f B/row, allowed %.2f", c.dim, c.slots, rows, perRow, allowed(c.dim, c.slots))
			}
		})
	}
}

// BenchmarkBytesPerRow prints bytes a row from 10^6 to 2 x 10^7 rows in steps of 5 %, and fails above the bound. It wants 5 GB; run it once:
// go test -run '^$' -bench BytesPerRow -benchtime 1x ./ps/table
func BenchmarkBytesPerRow(b *testing.B) {
	for _, c := range [][2]int{{1, 0}, {1, 1}, {8, 8}, {15, 30}, {16, 0}, {16, 1}, {16, 16}, {16, 32}} {
		dim, slots := c[0], c[1]
		b.Run(fmt.Sprintf("dim=%d/slots=%d", dim, slots), func(b *testing.B) {
			for range b.N {
				worst := 0.0
				var line strings.Builder // one line, since a benchmark's log is cut after ten
				sweep(b, dim, slots, 1e6, 2e7, func(rows int64, perRow float64) {
					worst = max(worst, perRow)
					fmt.Fprintf(&line, " %d:%.2f", rows, perRow)
					if perRow > allowed(dim, slots) {
						b.Errorf("%d rows: %.2f B/row, allowed %.2f", rows, perRow, allowed(dim, slots))
					}
				})
				b.Logf("rows:bytes%s", line.String())
				b.ReportMetric(worst, "worst_B/row")
				b.ReportMetric(allowed(dim, slots), "allowed_B/row")
			}
		})
	}
}

// TestSmallTables cost little: an empty one nothing mapped, a dense tensor not much more than its blocks.
func TestSmallTables(t *testing.T) {
	tab := open(t, table.Spec{Dim: 16, Slots: 16})
	if n := tab.Stats().Bytes; n > 100<<10 {
		t.Errorf("an empty table costs %d bytes", n)
	}
	if err := tab.Apply([]uint64{1}, make([]float32, 16), table.Stamp{}, idle{}); err != nil {
		t.Fatal(err)
	}
	if n := tab.Stats().Bytes; n > 200<<10 {
		t.Errorf("a table of one row costs %d bytes", n)
	}
	dense := open(t, table.Spec{Dim: 1024, Slots: 1024})
	keys := make([]uint64, 200)
	for i := range keys {
		keys[i] = uint64(i)
	}
	if err := dense.Apply(keys, make([]float32, 200*1024), table.Stamp{}, idle{}); err != nil {
		t.Fatal(err)
	}
	if n, payload := dense.Stats().Bytes, int64(200*1024*8); n > payload*5/4 {
		t.Errorf("200 blocks of a dense tensor cost %d bytes, their payload is %d", n, payload)
	}
}

// TestHostileKeys: keys made to share the top 32 bits of their hash, where the index cannot tell them apart, cost time but neither memory nor rows.
func TestHostileKeys(t *testing.T) {
	spec := table.Spec{Dim: 1, HashSeed: 5}
	tab := open(t, spec)
	const n = 6000
	for i := range uint64(n) {
		key := unmix(77<<32|i*700_000, spec.HashSeed)
		if err := tab.Apply([]uint64{key}, []float32{0}, table.Stamp{Step: uint32(i)}, idle{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range uint64(n) {
		if r, ok := tab.Row(unmix(77<<32|i*700_000, spec.HashSeed)); !ok || r.Step != uint32(i) {
			t.Fatalf("key %d: found %v, %+v", i, ok, r)
		}
	}
	if s := tab.Stats(); s.Rows != n || s.Bytes > 1<<20 {
		t.Errorf("%d rows cost %d bytes", s.Rows, s.Bytes)
	}
}

// unmix is the key whose Mix64 is h.
func unmix(h, seed uint64) uint64 {
	inverse := func(odd uint64) uint64 {
		x := odd
		for range 6 {
			x *= 2 - odd*x
		}
		return x
	}
	h ^= h >> 33
	h *= inverse(0xc4ceb9fe1a85ec53)
	h ^= h >> 33
	h *= inverse(0xff51afd7ed558ccd)
	h ^= h >> 33
	return h ^ seed
}

func TestUnmix(t *testing.T) {
	for i := range uint64(1000) {
		if k := unmix(vec.Mix64(i, 9), 9); k != i {
			t.Fatalf("%d came back as %d", i, k)
		}
	}
}

// BenchmarkGrowthPause reports the longest Apply of a single new row on the way to 10^7 rows, by the thread's own clock, since the machine may be
// shared: no row waits for a rehash of the whole.
func BenchmarkGrowthPause(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for range b.N {
		tab := open(b, table.Spec{Dim: 16, Slots: 16})
		var worst time.Duration
		over := 0
		grad := make([]float32, 16)
		for i := range uint64(1e7) {
			began := threadTime(b)
			if err := tab.Apply([]uint64{i}, grad, table.Stamp{}, idle{}); err != nil {
				b.Fatal(err)
			}
			d := threadTime(b) - began
			worst = max(worst, d)
			if d > time.Millisecond {
				over++
			}
		}
		if err := tab.Close(); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(worst.Microseconds()), "worst_us")
		b.ReportMetric(float64(over), "over_1ms")
	}
}
