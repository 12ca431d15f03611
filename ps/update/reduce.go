package update

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"hcclps/internal/vec"
	"hcclps/ps/wire"
)

// Reducer adds contributions. It keeps its memory from call to call: what it
// returns is good until the next Reset. One goroutine uses it.
type Reducer struct {
	keys   []uint64
	values []float32
	heap   []int
	src    []source
	plain  []uint64 // of decoded sections
}

// source is one contribution's rows of the table at hand.
type source struct {
	keys   []uint64
	values []float32
	at     int
}

// Reset takes back the memory of what was returned.
func (r *Reducer) Reset() { r.keys, r.values, r.plain = r.keys[:0], r.values[:0], r.plain[:0] }

// Merge adds bodies: tables ascending, keys ascending, the values of one key in
// the order of the bodies, one after another. A table that is in one body only
// is returned in place, without a copy.
func (r *Reducer) Merge(bodies [][]wire.Section) ([]wire.Section, error) {
	if len(bodies) == 1 {
		return bodies[0], nil
	}
	var out []wire.Section
	rest := slices.Clone(bodies)
	for {
		first := uint64(math.MaxUint64)
		for _, b := range rest {
			if len(b) > 0 {
				first = min(first, uint64(b[0].Table))
			}
		}
		if first == math.MaxUint64 {
			return out, nil
		}
		r.src = r.src[:0]
		one := wire.Section{}
		for i, b := range rest {
			if len(b) == 0 || uint64(b[0].Table) != first {
				continue
			}
			if len(r.src) > 0 && b[0].Dim != one.Dim {
				return nil, fmt.Errorf("table %d: rows of %d and of %d values", first, one.Dim, b[0].Dim)
			}
			one = b[0]
			r.src = append(r.src, source{keys: b[0].Keys, values: b[0].Values})
			rest[i] = b[1:]
		}
		if len(r.src) > 1 {
			one = r.sum(one.Table, one.Dim)
		}
		out = append(out, one)
	}
}

// sum adds the sources.
func (r *Reducer) sum(table uint32, dim int) wire.Section {
	if s, ok := r.sumSame(table, dim); ok {
		return s
	}
	firstKey, firstValue := len(r.keys), len(r.values)
	r.heap = r.heap[:0]
	for i := range r.src {
		if len(r.src[i].keys) > 0 {
			r.heap = append(r.heap, i)
		}
	}
	for i := len(r.heap)/2 - 1; i >= 0; i-- {
		r.down(i)
	}
	for len(r.heap) > 0 {
		s := &r.src[r.heap[0]]
		row := s.values[s.at*dim : (s.at+1)*dim]
		if key := s.keys[s.at]; len(r.keys) > firstKey && r.keys[len(r.keys)-1] == key {
			vec.Add(r.values[len(r.values)-dim:], row)
		} else {
			r.keys = append(r.keys, key)
			r.values = append(r.values, row...)
		}
		if s.at++; s.at == len(s.keys) {
			r.heap[0] = r.heap[len(r.heap)-1]
			r.heap = r.heap[:len(r.heap)-1]
		}
		r.down(0)
	}
	return wire.Section{Table: table, Dim: dim, Keys: r.keys[firstKey:], Values: r.values[firstValue:]}
}

// sumSame adds sources that have the same keys, as dense tensors do.
func (r *Reducer) sumSame(table uint32, dim int) (wire.Section, bool) {
	keys := r.src[0].keys
	for _, s := range r.src[1:] {
		if !slices.Equal(s.keys, keys) {
			return wire.Section{}, false
		}
	}
	first := len(r.values)
	r.values = append(r.values, r.src[0].values...)
	for _, s := range r.src[1:] {
		vec.Add(r.values[first:], s.values)
	}
	return wire.Section{Table: table, Dim: dim, Keys: keys, Values: r.values[first:]}, true
}

// down restores the heap of sources, ordered by (next key, rank), below i.
func (r *Reducer) down(i int) {
	less := func(a, b int) bool {
		x, y := &r.src[r.heap[a]], &r.src[r.heap[b]]
		if kx, ky := x.keys[x.at], y.keys[y.at]; kx != ky {
			return kx < ky
		}
		return r.heap[a] < r.heap[b]
	}
	for {
		child := 2*i + 1
		if child >= len(r.heap) {
			return
		}
		if child+1 < len(r.heap) && less(child+1, child) {
			child++
		}
		if !less(child, i) {
			return
		}
		r.heap[i], r.heap[child] = r.heap[child], r.heap[i]
		i = child
	}
}

// errDim is a section that does not fit its own head.
var errDim = errors.New("keys without values")

// Quotient is a step's gradient, divided, and where it is not finite.
type Quotient struct {
	Sections []wire.Section
	bad      []int // first value of each that is not finite, or -1; nil: none of any
}

// Bad is the first value of a section that is not finite, or -1.
func (q *Quotient) Bad(section int) int {
	if q.bad == nil {
		return -1
	}
	return q.bad[section]
}

// Divided divides every value by rows, in the Reducer's memory, and finds the
// first value of each section that is not finite. Sections may lie
// in a log entry, which is not written to. clean says that all values are known to be finite: then the quotients are too.
func (r *Reducer) Divided(sections []wire.Section, rows uint64, clean bool) (Quotient, error) {
	if clean && rows == 1 {
		return Quotient{Sections: sections}, nil
	}
	q := Quotient{Sections: make([]wire.Section, len(sections)), bad: make([]int, len(sections))}
	for i, s := range sections {
		if s.Dim == 0 {
			return Quotient{}, fmt.Errorf("table %d: %w", s.Table, errDim)
		}
		if rows != 1 {
			s.Values, q.bad[i] = r.quotients(s.Values, float32(rows))
		} else if q.bad[i] = vec.NonFinite(s.Values); q.bad[i] >= 0 {
			s.Values = slices.Clone(s.Values) // they may be mended
		}
		q.Sections[i] = s
	}
	return q, nil
}

// quotients divides, in one pass through memory, and finds the first quotient
// that is not finite (-1: none).
func (r *Reducer) quotients(values []float32, by float32) (out []float32, bad int) {
	first := len(r.values)
	r.values = slices.Grow(r.values, len(values))[:first+len(values)]
	out = r.values[first:][:len(values)]
	bad = -1
	for k, v := range values {
		v /= by
		out[k] = v
		if !finite(v) && bad < 0 {
			bad = k
		}
	}
	return out, bad
}
