package table_test

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"hcclps/ps/table"
)

// adder is a rule whose result a twin repeats easily: weights fall by the gradient, each slot grows by it.
type adder struct{}

func (adder) Update(row, grad []float32) {
	for i := range row {
		if i < len(grad) {
			row[i] -= grad[i]
		} else {
			row[i] += grad[i%len(grad)]
		}
	}
}

// twin is the table, the plain way.
type twin struct {
	spec table.Spec
	ref  *table.Table // never written: gives initial rows
	rows map[uint64]table.Row
}

func newTwin(t *testing.T, spec table.Spec) *twin {
	t.Helper()
	return &twin{spec: spec, ref: open(t, spec), rows: map[uint64]table.Row{}}
}

func open(t testing.TB, spec table.Spec) *table.Table {
	t.Helper()
	tab, err := table.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tab.Close() })
	return tab
}

func (w *twin) apply(keys []uint64, grads []float32, st table.Stamp) {
	dim := w.spec.Dim
	for i, key := range keys {
		row, ok := w.rows[key]
		if ok {
			row.Values = slices.Clone(row.Values)
		} else {
			row = table.Row{Key: key, Values: make([]float32, dim+w.spec.Slots)}
			w.ref.Gather([]uint64{key}, row.Values[:dim])
			copy(row.Values[dim:], w.spec.SlotInit)
		}
		adder{}.Update(row.Values, grads[i*dim:][:dim])
		row.Step, row.Writer = st.Step, st.Writer
		if row.Sightings < math.MaxUint16 {
			row.Sightings++
		}
		w.rows[key] = row
	}
}

// same compares a whole table with its twin: rows, order of Scan, Row, Gather, Stats.
func (w *twin) same(tab *table.Table) error {
	keys := slices.Sorted(maps.Keys(w.rows))
	if n := tab.Stats().Rows; n != int64(len(keys)) {
		return fmt.Errorf("%d rows, want %d", n, len(keys))
	}
	i := 0
	var err error
	tab.Scan(0, true, 0, func(r table.Row) bool {
		if i >= len(keys) || r.Key != keys[i] {
			err = fmt.Errorf("scan: key %d at %d", r.Key, i)
			return false
		}
		err = sameRow(r, w.rows[r.Key])
		i++
		return err == nil
	})
	if err == nil && i != len(keys) {
		err = fmt.Errorf("scan ended after %d of %d rows", i, len(keys))
	}
	if err != nil {
		return err
	}
	asked := append(slices.Clone(keys), 1, 1, 0, math.MaxUint64, 77)
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(asked), func(i, j int) { asked[i], asked[j] = asked[j], asked[i] })
	got, want := make([]float32, len(asked)*w.spec.Dim), make([]float32, w.spec.Dim)
	tab.Gather(asked, got)
	for i, key := range asked {
		row, ok := w.rows[key]
		if ok {
			copy(want, row.Values)
		} else {
			w.ref.Gather([]uint64{key}, want)
		}
		if !slices.Equal(got[i*w.spec.Dim:][:w.spec.Dim], want) {
			return fmt.Errorf("gather key %d: %v, want %v", key, got[i*w.spec.Dim:][:w.spec.Dim], want)
		}
		r, found := tab.Row(key)
		if found != ok {
			return fmt.Errorf("row %d: found %v, want %v", key, found, ok)
		}
		if ok {
			if err := sameRow(r, row); err != nil {
				return err
			}
		}
	}
	return nil
}

func sameRow(got, want table.Row) error {
	if got.Key != want.Key || got.Step != want.Step || got.Sightings != want.Sightings || got.Writer != want.Writer ||
		!slices.Equal(got.Values, want.Values) {
		return fmt.Errorf("row %+v, want %+v", got, want)
	}
	return nil
}

// keysOf draws n ascending keys from a few thousand, the extremes among them.
func keysOf(rng *rand.Rand, n int, limit uint64) []uint64 {
	keys := make([]uint64, n)
	for i := range keys {
		switch k := rng.Uint64N(limit); k % 4 {
		case 0:
			keys[i] = math.MaxUint64 - k/4
		case 1:
			keys[i] = k << 40
		default:
			keys[i] = k / 4
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func gradsOf(rng *rand.Rand, n int) []float32 {
	g := make([]float32, n)
	for i := range g {
		g[i] = float32(rng.IntN(2001)-1000) / 64
	}
	return g
}

func specs() []table.Spec {
	return []table.Spec{
		{Dim: 1, Slots: 1, SlotInit: []float32{0.1}, Init: table.Init{Kind: "zeros"}},
		{Dim: 5, Slots: 1, SlotInit: []float32{7}, Init: table.Init{Kind: "constant", A: 2}},
		{Dim: 3, Slots: 0, Init: table.Init{Kind: "uniform", A: -1, B: 1}, Seed: 5, HashSeed: 9},
		{Dim: 16, Slots: 32, SlotInit: slices.Repeat([]float32{0, 3}, 16), Init: table.Init{Kind: "normal", B: 0.1}, Seed: 7},
		{Dim: 100, Slots: 101, Init: table.Init{Kind: "truncnormal", B: 2}, Seed: 1 << 63},                            // units of 4 rows
		{Dim: 700, Slots: 700, Init: table.Init{Kind: "xavier_uniform", FanIn: 700, FanOut: 3}, Seed: math.MaxUint64}, // units of 1 row
	}
}

// TestTwin compares the table with a map through random applies.
func TestTwin(t *testing.T) {
	for i, spec := range specs() {
		t.Run(fmt.Sprintf("dim%dslots%d", spec.Dim, spec.Slots), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			tab, w := open(t, spec), newTwin(t, spec)
			limit := uint64(400_000 / spec.Stride())
			for round := range 30 {
				keys := keysOf(rng, rng.IntN(int(limit)/4), limit*uint64(1+round))
				grads := gradsOf(rng, len(keys)*spec.Dim)
				st := table.Stamp{Step: uint32(round), Writer: uint16(round * 3)}
				if err := tab.Apply(keys, grads, st, adder{}); err != nil {
					t.Fatal(err)
				}
				w.apply(keys, grads, st)
				if err := w.same(tab); err != nil {
					t.Fatalf("round %d: %v", round, err)
				}
			}
		})
	}
}

// TestTwinGrowth takes one table through many splits of its index.
func TestTwinGrowth(t *testing.T) {
	spec := table.Spec{Dim: 1, Init: table.Init{Kind: "uniform", A: 0, B: 1}}
	rng := rand.New(rand.NewPCG(3, 3))
	tab, w := open(t, spec), newTwin(t, spec)
	for round := range 12 {
		keys := make([]uint64, 40_000)
		for i := range keys {
			keys[i] = rng.Uint64()
			if i%2 == 0 {
				keys[i] = uint64(round*20_000 + i)
			}
		}
		slices.Sort(keys)
		keys = slices.Compact(keys)
		grads := gradsOf(rng, len(keys))
		if err := tab.Apply(keys, grads, table.Stamp{Step: uint32(round)}, adder{}); err != nil {
			t.Fatal(err)
		}
		w.apply(keys, grads, table.Stamp{Step: uint32(round)})
	}
	if err := w.same(tab); err != nil {
		t.Fatal(err)
	}
}

// image is a full snapshot: the newest data of every page.
type image map[uint64][]byte

func (im image) emit(id table.PageID, data []byte) error {
	im[id.Uint64()] = bytes.Clone(data)
	return nil
}

func (im image) load(t *testing.T, spec table.Spec) *table.Table {
	t.Helper()
	tab := open(t, spec)
	for _, id := range slices.Sorted(maps.Keys(im)) {
		if err := tab.Load(pageIDOf(id), im[id]); err != nil {
			t.Fatal(err)
		}
	}
	return tab
}

// TestTwinCaptures: while pages are emitted, rows are applied between any two of them; each capture, full or incremental, restores the table of its moment.
func TestTwinCaptures(t *testing.T) {
	for i, spec := range specs() {
		t.Run(fmt.Sprintf("dim%dslots%d", spec.Dim, spec.Slots), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(i), 2))
			budget := table.NewBudget(0)
			spec.Budget = budget
			tab, w := open(t, spec), newTwin(t, spec)
			limit := uint64(2_000_000 / spec.Stride())
			step := uint32(0)
			apply := func(n int) {
				keys := keysOf(rng, n, limit)
				grads := gradsOf(rng, len(keys)*spec.Dim)
				step++
				if err := tab.Apply(keys, grads, table.Stamp{Step: step}, adder{}); err != nil {
					t.Fatal(err)
				}
				w.apply(keys, grads, table.Stamp{Step: step})
			}
			full, since := image{}, uint32(0)
			for round := range 6 {
				apply(rng.IntN(int(limit) / 4))
				want := &twin{spec: spec, ref: w.ref, rows: maps.Clone(w.rows)}
				c := tab.Capture()
				apply(int(limit) / 50)
				all, pages := round%3 == 0, 0
				err := c.Pages(all, since, func(id table.PageID, data []byte) error {
					if pages++; pages%20 == 0 {
						apply(rng.IntN(10))
					}
					return full.emit(id, data)
				}, new(sync.Mutex))
				if err != nil {
					t.Fatal(err)
				}
				since = c.Epoch()
				c.Close()
				if used := budget.Stats().Used; used != 0 {
					t.Fatalf("round %d: %d bytes of copies left", round, used)
				}
				if err := want.same(full.load(t, spec)); err != nil {
					t.Fatalf("round %d: restored: %v", round, err)
				}
			}
			if err := w.same(tab); err != nil {
				t.Fatal(err)
			}
			if budget.Stats().Peak == 0 {
				t.Error("no copy was ever made: the test proves nothing")
			}
		})
	}
}

// TestSightingsSaturate: the count stops at 65,535.
func TestSightingsSaturate(t *testing.T) {
	tab := open(t, table.Spec{Dim: 1})
	for i := range uint32(70_000) {
		if err := tab.Apply([]uint64{42}, []float32{0}, table.Stamp{Step: i}, adder{}); err != nil {
			t.Fatal(err)
		}
	}
	if r, _ := tab.Row(42); r.Sightings != math.MaxUint16 || r.Step != 69_999 {
		t.Errorf("row %+v", r)
	}
}

// TestScanPieces: walks in pieces of any size see each row once.
func TestScanPieces(t *testing.T) {
	tab := open(t, table.Spec{Dim: 1})
	rng := rand.New(rand.NewPCG(4, 4))
	keys := keysOf(rng, 500, 1<<20)
	if err := tab.Apply(keys, make([]float32, len(keys)), table.Stamp{}, adder{}); err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int{1, 2, 7, 499, 500, 501, 0} {
		var got []uint64
		after, first := uint64(0), true
		for {
			n := 0
			tab.Scan(after, first, limit, func(r table.Row) bool {
				got = append(got, r.Key)
				n++
				return true
			})
			if n == 0 {
				break
			}
			after, first = got[len(got)-1], false
		}
		if !slices.Equal(got, keys) {
			t.Errorf("limit %d: %d keys, want %d", limit, len(got), len(keys))
		}
	}
}

// TestApplyRefuses wrong arguments without touching anything.
func TestApplyRefuses(t *testing.T) {
	tab := open(t, table.Spec{Dim: 2})
	for name, c := range map[string]struct {
		keys  []uint64
		grads int
	}{
		"equal":      {[]uint64{1, 5, 5}, 6},
		"descending": {[]uint64{1, 5, 4}, 6},
		"short":      {[]uint64{1, 5}, 3},
		"long":       {[]uint64{1, 5}, 5},
	} {
		if err := tab.Apply(c.keys, make([]float32, c.grads), table.Stamp{}, adder{}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if n := tab.Stats().Rows; n != 0 {
		t.Errorf("%d rows", n)
	}
}

// TestGatherAllocates nothing, nor does Apply to rows that exist.
func TestGatherAllocates(t *testing.T) {
	tab := open(t, table.Spec{Dim: 16, Slots: 16})
	rng := rand.New(rand.NewPCG(5, 5))
	keys := keysOf(rng, 5000, 1<<20)
	grads := gradsOf(rng, len(keys)*16)
	if err := tab.Apply(keys, grads, table.Stamp{}, adder{}); err != nil {
		t.Fatal(err)
	}
	out := make([]float32, len(keys)*16)
	var u table.Updater = adder{}
	if n := testing.AllocsPerRun(5, func() { tab.Gather(keys, out) }); n != 0 {
		t.Errorf("gather: %v allocations", n)
	}
	if n := testing.AllocsPerRun(5, func() { _ = tab.Apply(keys, grads, table.Stamp{}, u) }); n != 0 {
		t.Errorf("apply: %v allocations", n)
	}
}
