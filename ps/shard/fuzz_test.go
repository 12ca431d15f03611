package shard

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"hcclps/ps/wire"
)

// draws turns fuzz bytes into small numbers.
type draws struct{ b []byte }

func (d *draws) n(limit int) int {
	if len(d.b) == 0 {
		return 0
	}
	v := int(d.b[0])
	d.b = d.b[1:]
	return v % limit
}

func (d *draws) target() wire.Target {
	return wire.Target{Group: 1, Job: "j", Worker: string(rune('a' + d.n(3))), Incarnation: uint64(d.n(3))}
}

// entry makes a log entry that is often a good one.
func (d *draws) entry(s *State) []byte {
	j := s.jobs["j"]
	var clock uint64
	params := wire.JobParams{World: 2, Sync: wire.Sync(d.n(3)), Parts: 1 << d.n(3)}
	if j != nil {
		clock = j.Clock
		if j.Params.World > 0 {
			params = j.Params
		}
	}
	switch d.n(10) {
	case 0:
		t := d.target()
		return wire.AppendEntry(nil, wire.Entry{Message: &wire.Fence{Target: t, Params: params, Rank: uint32(t.Worker[0]-'a') % 2, Owner: "o\xff"}})
	case 1:
		return wire.AppendEntry(nil, wire.Entry{Message: &wire.Finish{Target: d.target(), Step: clock + uint64(d.n(2))}})
	case 2, 3:
		return wire.AppendEntry(nil, wire.Entry{Message: &wire.Hold{Group: 1, Job: "j", Plan: d.plan(clock, params)}})
	case 4:
		return wire.AppendEntry(nil, wire.Entry{Message: &wire.Release{Group: 1, Job: "j", Plan: uint64(d.n(6)), Drop: d.n(4) == 0}})
	case 5:
		m := &wire.Put{Target: d.target(), Load: uint64(d.n(3)), Table: uint32(1 + d.n(2)), Complete: d.n(4) == 0, Rule: wire.RuleState{Steps: uint64(d.n(2)), Pow: [2]float64{float64(d.n(3)), 0.5}}}
		for k := range uint64(d.n(3)) {
			values := make([]float32, 1+d.n(4))
			m.Rows = wire.AppendRow(m.Rows, wire.Row{Key: k, Step: 9, Sightings: uint16(d.n(9)), Values: values})
		}
		return wire.AppendEntry(nil, wire.Entry{Message: m})
	case 6:
		return wire.AppendEntry(nil, wire.Entry{Message: &wire.Sweep{
			Group: 1, Job: "j", Table: uint32(1 + d.n(2)), Time: uint64(d.n(256)) << 24, From: uint32(d.n(4)) << 8, To: uint32(d.n(8)) << 8,
		}})
	default:
		items := make([]wire.Item, 1+d.n(2))
		for i := range items {
			items[i] = d.item(j, clock, params)
		}
		return wire.AppendEntry(nil, wire.Entry{Steps: items})
	}
}

func (d *draws) plan(clock uint64, params wire.JobParams) wire.Plan {
	p := wire.Plan{ID: uint64(1 + d.n(6)), Kind: wire.PlanKind(d.n(5)), T: clock + uint64(d.n(3))}
	p.Table = testTable(uint32(1+d.n(2)), uint32(1+d.n(2)))
	p.Table.Optimizer, p.Table.Params = []string{"sgd", "adagrad", "adam", "none"}[d.n(4)], nil
	p.Table.Admit = []wire.Admit{{}, {Kind: wire.AdmitCount, Count: 2}, {Kind: wire.AdmitBloom, Count: 2, Bits: 16}, {Kind: wire.AdmitProb, P: 0.5}}[d.n(4)]
	p.Table.Evict = []wire.Evict{{}, {Age: 2, Norm: 1}, {HalfLife: 2, Rows: 1024}, {TTL: time.Second}, {Rows: 1}}[d.n(5)]
	p.Table.NonFinite = []string{"reject", "zero", "clip"}[d.n(3)]
	p.Join = wire.Fence{Target: d.target(), Params: params, Rank: uint32(d.n(2))}
	p.Worker, p.Incarnation, p.Why, p.Rate = p.Join.Worker, p.Join.Incarnation, "why", float32(d.n(4))/2
	return p
}

func (d *draws) item(j *job, clock uint64, params wire.JobParams) wire.Item {
	it := wire.Item{Job: "j", Step: clock + uint64(d.n(3)) - 1, Part: uint32(d.n(int(params.Parts) + 1)), Rate: 1, Divisor: uint64(d.n(3))}
	if j != nil && params.Sync == wire.BSP && d.n(4) != 0 {
		it.Step = clock
		for _, w := range j.Workers {
			if j.expects(w) {
				it.Contributors = append(it.Contributors, wire.Contributor{Worker: w.Name, Incarnation: w.Incarnation, Cursor: []byte{byte(d.n(9))}})
			}
		}
	} else {
		t := d.target()
		it.Contributors = []wire.Contributor{{Worker: t.Worker, Incarnation: t.Incarnation}}
		if j != nil && j.byName[t.Worker] != nil {
			it.Step = j.byName[t.Worker].Done
		}
	}
	if d.n(4) == 0 {
		it.Rates = []wire.TableRate{{Table: 1, Rate: []float32{0.5, 0, float32(math.Inf(1))}[d.n(3)]}}
	}
	payloads := 1
	if d.n(2) == 0 {
		payloads = len(it.Contributors)
	}
	for range payloads {
		var body []byte
		for table := range uint32(2) {
			sec := wire.Section{Table: table + 1, Dim: 1 + d.n(2)}
			for k := range uint64(d.n(4)) {
				sec.Keys = append(sec.Keys, k<<60+uint64(d.n(2)))
				for range sec.Dim {
					sec.Values = append(sec.Values, []float32{1, -2, 0.5, float32(math.Inf(1)), float32(math.NaN()), 3, 4, 5}[d.n(8)])
				}
			}
			if d.n(2) == 0 {
				body = wire.AppendSection(body, sec)
			}
		}
		it.Payloads = append(it.Payloads, body)
	}
	return it
}

// FuzzApply feeds entries, structured and raw, to two states, one of which goes
// through a snapshot on the way. They must agree, and nothing may panic.
func FuzzApply(f *testing.F) {
	begin := []byte{0, 1, 0, 0, 1, 1, 0, 0, 0, 1, 1, 1} // seeds open workers in different modes
	for i := range 64 {
		b := bytes.Clone(begin)
		for k := range 40 * (1 + i%8) {
			b = append(b, byte((k*k*31+i*7+k*i)>>2))
		}
		f.Add(b, i%3 == 0)
	}
	f.Fuzz(func(t *testing.T, data []byte, raw bool) {
		if len(data) > 4096 {
			return
		}
		a, b := NewState(StateConfig{HashSeed: 3}), NewState(StateConfig{HashSeed: 3})
		defer func() { _, _ = a.Close(), b.Close() }()
		d := &draws{data}
		at := 1 + d.n(32)
		for i := 1; len(d.b) > 0 && i < 200; i++ {
			var e []byte
			if raw && d.n(4) == 0 {
				e = mutate(d.entry(a), d)
			} else {
				e = d.entry(a)
			}
			x := applyChecked(t, a, e, uint64(i))
			if i == at {
				b = reload(t, b)
			}
			y := applyChecked(t, b, e, uint64(i))
			if x != y {
				t.Fatalf("entry %d: answers differ:\n%s\n%s", i, x, y)
			}
		}
		compare(t, a, b)
	})
}

// mutate overwrites a byte or cuts.
func mutate(e []byte, d *draws) []byte {
	if len(e) == 0 {
		return e
	}
	at := (d.n(256)<<8 | d.n(256)) % len(e)
	if d.n(4) == 0 {
		return e[:at]
	}
	e[at] = byte(d.n(256))
	return e
}

func applyChecked(t testing.TB, s *State, entry []byte, index uint64) string {
	t.Helper()
	// A log entry lies 8-byte aligned in a mapping that must not be written to.
	before := bytes.Clone(entry)
	answers, err := s.Apply(entry, index, 1)
	if errors.Is(err, wire.ErrEntryVersion) && len(entry) > 1 && entry[0] != wire.EntryVersion {
		return "a fault"
	}
	if err != nil {
		t.Fatalf("apply entry %d: %v", index, err)
	}
	if !bytes.Equal(before, entry) {
		t.Fatalf("apply entry %d wrote into the entry", index)
	}
	return fmt.Sprint(answers)
}

// compare demands that two states are equal in everything, rows included.
func compare(t testing.TB, a, b *State) {
	t.Helper()
	x, err := a.encode()
	if err != nil {
		t.Fatal(err)
	}
	y, err := b.encode()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(x, y) {
		t.Fatalf("states differ:\n%s\n%s", x, y)
	}
	if p, q := rowsOf(a), rowsOf(b); !bytes.Equal(p, q) {
		t.Fatalf("rows differ:\n%x\n%x", p, q)
	}
}

// rowsOf is every row of every table, in order.
func rowsOf(s *State) []byte {
	var out []byte
	for _, name := range s.names() {
		for _, t := range s.jobs[name].Tables {
			out = binary.LittleEndian.AppendUint32(out, t.Slot)
			out = scanTable(out, t, 0, true, 0)
			if t.Seen != nil {
				seen := *t.Table
				seen.Rows = t.Seen
				out = scanTable(out, &tab{Table: &seen}, 0, true, 0)
			}
		}
	}
	return out
}

// FuzzHead decodes heads that may be damaged: never a panic; what is accepted
// is written again the same.
func FuzzHead(f *testing.F) {
	s := NewState(StateConfig{HashSeed: 3})
	d := &draws{bytes.Repeat([]byte{0, 1, 7, 3, 250, 9, 2, 2, 77, 6, 0, 0, 1, 5, 31}, 40)}
	for i := 1; len(d.b) > 0; i++ {
		if _, err := s.Apply(d.entry(s), uint64(i), 1); err != nil {
			f.Fatal(err)
		}
		if i%8 == 0 {
			b, _ := s.encode()
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decodeState(b, StateConfig{HashSeed: 3})
		if err != nil {
			return
		}
		x, err := s.encode()
		if err != nil {
			t.Fatal(err)
		}
		n, err := decodeState(x, StateConfig{HashSeed: 3})
		if err != nil {
			t.Fatalf("decode what was encoded: %v\n%s", err, x)
		}
		compare(t, s, n)
		_, _ = s.Close(), n.Close()
	})
}
