package update

import (
	"fmt"

	"hcclps/internal/vec"
	"hcclps/ps/table"
	"hcclps/ps/wire"
)

// gate decides which keys that have no row get one.
type gate interface {
	// sight counts a sighting of keys, which ascend and have no row, and calls admit with the place in keys of each that is to get one,
	// places ascending.
	sight(keys []uint64, st table.Stamp, admit func(i int)) error
	// sightings is how many a key without a row has.
	sightings(key uint64) uint32
}

// newGate makes the gate of a table, and what it remembers beside rows: nil if it needs no memory.
func newGate(spec *wire.Table, cfg Config) (gate, *table.Table, error) {
	switch a := spec.Admit; a.Kind {
	case wire.AdmitProb:
		return chance{limit: limitOf(a.P), seed: spec.Seed}, nil, nil
	case wire.AdmitCount:
		seen, err := table.New(table.Spec{Dim: 1, HashSeed: cfg.HashSeed, Budget: cfg.Budget, Memory: cfg.Memory})
		return &counted{seen: seen, least: float32(a.Count)}, seen, err
	case wire.AdmitBloom:
		seen, err := table.New(table.Spec{Dim: blockFloats, HashSeed: cfg.HashSeed, Budget: cfg.Budget, Memory: cfg.Memory})
		return &bloom{seen: seen, least: uint8(a.Count), bits: uint(a.Bits), hashSeed: cfg.HashSeed}, seen, err
	default:
		return nil, nil, nil
	}
}

// admitted is a gradient without the rows of keys that are not admitted, in scratch memory if some are not. missing are the places of keys
// without a row.
func (t *Table) admitted(s wire.Section, st table.Stamp, missing []int32) (wire.Section, error) {
	w := &t.work
	w.keys = w.keys[:0]
	for _, at := range missing {
		w.keys = append(w.keys, s.Keys[at])
	}
	w.in = w.in[:0]
	err := t.gate.sight(w.keys, st, func(i int) { w.in = append(w.in, missing[i]) })
	if err != nil {
		return s, fmt.Errorf("count sightings of table %q: %w", t.Spec.Name, err)
	}
	if len(w.in) == len(missing) {
		return s, nil
	}
	t.Kept.Refused += uint64(len(missing) - len(w.in))
	out := wire.Section{Table: s.Table, Dim: s.Dim, Keys: w.keys[:0], Values: w.values[:0]}
	from, in := 0, w.in
	for _, at := range missing {
		out = appendRows(out, s, from, int(at))
		if from = int(at); len(in) > 0 && in[0] == at {
			in = in[1:]
		} else {
			from++
		}
	}
	out = appendRows(out, s, from, len(s.Keys))
	w.keys, w.values = out.Keys, out.Values
	return out, nil
}

// appendRows adds the rows [from, to) of s.
func appendRows(out, s wire.Section, from, to int) wire.Section {
	out.Keys = append(out.Keys, s.Keys[from:to]...)
	out.Values = append(out.Values, s.Values[from*s.Dim:to*s.Dim]...)
	return out
}

// Sightings is how many steps had a gradient for a key that has no row, as far as the table's admission remembers.
func (t *Table) Sightings(key uint64) uint32 {
	if t.gate == nil {
		return 0
	}
	return t.gate.sightings(key)
}

// scratch is memory of a table that gates.
type scratch struct {
	keys    []uint64
	values  []float32
	missing []int32
	in      []int32
}

// chance admits every sighting with the same probability: a hash of the table's seed, the key and the step decides. It is the step and not the
// place in a log, so that a run has the same rows however often its log has changed hands.
type chance struct {
	limit uint64 // of a hash, inclusive
	seed  uint64
}

// limitOf is the share p, above 0, of all hashes.
func limitOf(p float64) uint64 {
	if p >= 1 {
		return 1<<64 - 1
	}
	return uint64(p * (1 << 63) * 2)
}

func (c chance) sight(keys []uint64, st table.Stamp, admit func(i int)) error {
	salt := vec.Mix64(uint64(st.Step), c.seed)
	for i, key := range keys {
		if vec.Mix64(vec.Mix64(key, salt), c.seed) <= c.limit {
			admit(i)
		}
	}
	return nil
}

func (chance) sightings(uint64) uint32 { return 0 }

// counted admits at a sighting of a given number. A key that waits has a row of one value, its sightings, in a table of its own.
type counted struct {
	seen  *table.Table
	least float32
	ready []uint64
	none  []float32
	count counting
}

func (c *counted) sight(keys []uint64, st table.Stamp, admit func(i int)) error {
	if c.least <= 1 {
		for i := range keys {
			admit(i)
		}
		return nil
	}
	if len(c.none) < len(keys) {
		c.none = make([]float32, len(keys))
	}
	c.ready, c.count = c.ready[:0], counting{least: c.least, ready: c.count.ready[:0]}
	if err := c.seen.Apply(keys, c.none[:len(keys)], st, &c.count); err != nil {
		return err
	}
	for _, i := range c.count.ready {
		c.ready = append(c.ready, keys[i])
		admit(i)
	}
	c.seen.Delete(c.ready)
	return nil
}

func (c *counted) sightings(key uint64) uint32 {
	r, ok := c.seen.Row(key)
	if !ok {
		return 0
	}
	return uint32(r.Values[0])
}

// counting is the updater that counts.
type counting struct {
	least float32
	at    int   // of the row to come
	ready []int // rows that have enough
}

// Update implements table.Updater.
func (c *counting) Update(row, _ []float32) {
	if row[0]++; row[0] >= c.least {
		c.ready = append(c.ready, c.at)
	}
	c.at++
}
