package shard

import (
	"errors"
	"strings"
	"testing"

	"hcclps/ps/raftgroup"
	"hcclps/ps/table"
	"hcclps/ps/wire"
)

// one makes a state with one asp worker and table 1 (dim 1, sgd of rate 1).
func one(t testing.TB, bugs Bugs, parts uint32) *script {
	t.Helper()
	sc := &script{t: testingT(t), s: NewState(StateConfig{HashSeed: 7, Bugs: bugs}), params: wire.JobParams{World: 1, Sync: wire.ASP, Parts: parts}}
	for _, line := range []string{"fence a/1 rank=0", "hold id=1 t=0 table=1", "release id=1"} {
		if out := sc.run(strings.Fields(line)); !strings.HasPrefix(out[0], "ok") {
			t.Fatalf("%s: %s", line, out)
		}
	}
	return sc
}

func testingT(t testing.TB) *testing.T {
	t.Helper()
	v, ok := t.(*testing.T)
	if !ok {
		t.Fatal("needs a *testing.T")
	}
	return v
}

// TestPlantedBugsShow shows that each planted bug does what its name says, and
// that without it the same lines do not.
func TestPlantedBugsShow(t *testing.T) {
	push := "push a/1 step=0 part=0 rows=1 1:5=1"
	for name, c := range map[string]struct {
		bugs  Bugs
		parts uint32
		lines []string
		good  string // weight of key 5
		bad   string
	}{
		"dedupe off":             {Bugs{DedupeOff: true}, 1, []string{push, push}, "[-1]", "[-2]"},
		"dedupe not in snapshot": {Bugs{DedupeNotInSnapshot: true}, 1, []string{push, "reload", push}, "[-1]", "[-2]"},
		"no fence":               {Bugs{NoFence: true}, 1, []string{"fence a/2 rank=0", push}, "no row", "[-1]"},
		"no parts bitmap":        {Bugs{NoPartsBitmap: true}, 2, []string{push, push}, "[-1]", "[-2]"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, bugs := range []Bugs{{}, c.bugs} {
				sc := one(t, bugs, c.parts)
				for _, l := range c.lines {
					sc.run(strings.Fields(l))
				}
				want := c.good
				if bugs != (Bugs{}) {
					want = c.bad
				}
				if got := sc.run([]string{"row", "1", "5"})[0]; !strings.HasPrefix(got, want) {
					t.Errorf("%+v: row %s, want %s", bugs, got, want)
				}
				_ = sc.s.Close()
			}
		})
	}
}

func TestCheckStopsAReplicaThatDiffers(t *testing.T) {
	sc := one(t, Bugs{}, 1)
	defer func() { _ = sc.s.Close() }()
	for len(sc.s.marks) == 0 {
		sc.run([]string{"finish", "nobody/1", "step=0"})
	}
	m := sc.s.marks[0]
	if m.Index != checkEvery || m.Digest == 0 {
		t.Fatalf("mark %+v", m)
	}
	if out := sc.apply(wire.Entry{Check: &m}); len(out) != 0 {
		t.Errorf("equal digest: %v", out)
	}
	if out := sc.apply(wire.Entry{Check: &wire.Check{Index: 5, Digest: 1}}); len(out) != 0 {
		t.Errorf("check of an entry nobody remembers: %v", out)
	}
	m.Digest++
	_, err := sc.s.Apply(wire.AppendEntry(nil, wire.Entry{Check: &m}), sc.index+1, 1)
	if !errors.Is(err, ErrDiverged) || !strings.Contains(err.Error(), "entry 1024") {
		t.Errorf("another digest: %v", err)
	}
}

// TestIncrementalSnapshotsRestoreTheLast persists every few entries into one
// sink, each relative to the one before, and restores the last.
func TestIncrementalSnapshotsRestoreTheLast(t *testing.T) {
	sc := one(t, Bugs{}, 1)
	defer func() { _ = sc.s.Close() }()
	m, last := &memory{id: "s0"}, &lastSnapshot{}
	var written []int
	for i, rows := range []int{3000, 10, 10, 500} {
		for k := range rows {
			it := sc.item([]string{"a/1", "step=0", "rows=1"})
			it.Step = sc.s.jobs["j"].Clock
			it.Payloads[0] = wire.AppendSection(nil, wire.Section{Table: 1, Dim: 1, Keys: []uint64{uint64(k * 7)}, Values: []float32{1}})
			sc.apply(wire.Entry{Steps: []wire.Item{it}})
		}
		c, err := sc.s.capture(noLock{}, last)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sc.s.capture(noLock{}, last); err == nil {
			t.Fatal("two captures at once")
		}
		count := &counting{memory: m}
		if err := c.Persist(count); err != nil {
			t.Fatal(err)
		}
		c.Release()
		written = append(written, count.pages)
		m.base, m.id = m.id, string(rune('a'+i))
	}
	if written[1] > 20 || written[3] > written[0] {
		t.Errorf("pages written: %v", written)
	}
	n := m.state(t, sc.s.cfg)
	compare(t, sc.s, n)
	_ = n.Close()
}

// A snapshot that is given up for a checkpoint, here after its first page, is no failure.
func TestSnapshotsGivenUpArePutOff(t *testing.T) {
	sc := one(t, Bugs{}, 1)
	defer func() { _ = sc.s.Close() }()
	it := sc.item([]string{"a/1", "step=0", "rows=1"})
	keys := make([]uint64, 100_000) // of more pages than are read at once
	for i := range keys {
		keys[i] = uint64(i)
	}
	it.Payloads[0] = wire.AppendSection(nil, wire.Section{Table: 1, Dim: 1, Keys: keys, Values: make([]float32, len(keys))})
	sc.apply(wire.Entry{Steps: []wire.Item{it}})
	c, err := sc.s.capture(noLock{}, &lastSnapshot{})
	if err != nil {
		t.Fatal(err)
	}
	to := &given{memory: &memory{id: "s0"}, c: c}
	if err := c.Persist(to); !errors.Is(err, raftgroup.ErrLater) || !errors.Is(err, table.ErrClosed) {
		t.Errorf("%v after %d pages", err, to.pages)
	}
}

// given gives the snapshot up that is written to it.
type given struct {
	*memory
	c     *capture
	pages int
}

func (g *given) WritePage(id uint64, b []byte) error {
	g.c.Release()
	g.pages++
	return g.memory.WritePage(id, b)
}

type noLock struct{}

func (noLock) Lock()   {}
func (noLock) Unlock() {}

type counting struct {
	*memory
	pages int
}

func (c *counting) WritePage(id uint64, b []byte) error {
	c.pages++
	return c.memory.WritePage(id, b)
}

func TestInitializerParameters(t *testing.T) {
	for _, c := range []struct {
		kind   string
		params map[string]float64
		ok     bool
	}{
		{"", nil, true},
		{"zeros", map[string]float64{"value": 1}, false},
		{"constant", map[string]float64{"value": 1}, true},
		{"uniform", map[string]float64{"low": -1, "high": 1}, true},
		{"uniform", map[string]float64{"low": 1, "high": -1}, false},
		{"normal", map[string]float64{"mean": 0, "std": 0.1}, true},
		{"normal", map[string]float64{"sigma": 0.1}, false},
		{"xavier_uniform", map[string]float64{"fan_in": 10, "fan_out": 20}, true},
		{"xavier_uniform", map[string]float64{"fan_in": 10}, false},
		{"he_normal", map[string]float64{"fan_in": -1}, false},
		{"magic", nil, false},
	} {
		spec := testTable(1, 1)
		spec.Init, spec.InitParams = c.kind, c.params
		tab, err := newTab(spec, 1, StateConfig{})
		if (err == nil) != c.ok {
			t.Errorf("%s %v: %v", c.kind, c.params, err)
		}
		if err == nil {
			_ = tab.Rows.Close()
		}
	}
}

// BenchmarkApply is the rate of apply alone: one asp push of 20,000 rows of 16
// values, adagrad, over a table of 10^5 rows.
func BenchmarkApply(b *testing.B) {
	s := NewState(StateConfig{HashSeed: 7})
	defer func() { _ = s.Close() }()
	index := uint64(0)
	apply := func(e []byte) {
		index++
		a, err := s.Apply(e, index, 1)
		if err != nil || len(a) != 1 || a[0].Status != wire.OK || a[0].Duplicate {
			b.Fatalf("%+v, %v", a, err)
		}
	}
	p := wire.JobParams{World: 1, Sync: wire.ASP, Parts: 1}
	apply(wire.AppendEntry(nil, wire.Entry{Message: &wire.Fence{Target: target(0), Params: p}}))
	spec := testTable(1, 16)
	spec.Optimizer, spec.Params = "adagrad", nil
	apply(wire.AppendEntry(nil, wire.Entry{Message: &wire.Hold{Job: "j", Plan: wire.Plan{ID: 1, Kind: wire.PlanTable, Table: spec}}}))
	apply(wire.AppendEntry(nil, wire.Entry{Message: &wire.Release{Job: "j", Plan: 1}}))
	var bodies [][]byte
	for i := range uint64(5) {
		sec := wire.Section{Table: 1, Dim: 16}
		for k := range uint64(20000) {
			sec.Keys = append(sec.Keys, k*5+i)
			for d := range 16 {
				sec.Values = append(sec.Values, float32(d)+0.5)
			}
		}
		bodies = append(bodies, wire.AppendSection(nil, sec))
	}
	b.ReportAllocs()
	var buf []byte
	for b.Loop() {
		it := wire.Item{Job: "j", Step: s.jobs["j"].Clock, Divisor: 32, Rate: 1, Contributors: []wire.Contributor{{Worker: "w0", Incarnation: 1}}}
		it.Payloads = [][]byte{bodies[it.Step%5]}
		buf = wire.AppendEntry(buf[:0], wire.Entry{Steps: []wire.Item{it}})
		apply(buf)
	}
	b.ReportMetric(20000*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
