package dataset

import "math"

// windowEntries closes a window early, so that wide rows cannot fill the
// memory: 4 Mi entries are at most 48 MiB.
const windowEntries = 4 << 20

// shape says what a row consists of.
type shape struct {
	bags     []part // ragged features
	numerics []part // numeric features
	weighted bool   // keys have weights of their own
}

// part is a feature in a shape.
type part struct {
	name string
	at   int // place among all features
}

// newShape is the shape of rows with one ragged feature.
func newShape(name string) *shape {
	return &shape{bags: []part{{name: name}}, weighted: true}
}

// rows is a growing set of rows of one shape, row by row. A row is appended
// piece by piece: the keys of a bag and endBag for each bag, the numerics, then
// close. What was appended since the last close goes away with undo.
type rows struct {
	*shape
	label, weight []float32
	ends          []int32   // ends[i*len(bags)+f] is where bag f of row i ends in keys
	keys          []uint64  // ids
	values        []float32 // one a key if weighted, else none
	numeric       []float32 // len(numerics) a row
}

func (r *rows) len() int { return len(r.label) }

func (r *rows) reset() { r.cut(0) }

// add appends a key to the bag under way.
func (r *rows) add(key uint64, value float32) {
	r.keys = append(r.keys, key)
	if r.weighted {
		r.values = append(r.values, value)
	}
}

// endBag makes the keys appended since the last call a bag.
func (r *rows) endBag() { r.ends = append(r.ends, int32(len(r.keys))) }

// close makes what was appended since the last call a row.
func (r *rows) close(label, weight float32) {
	r.label = append(r.label, label)
	r.weight = append(r.weight, weight)
}

// undo takes away what was appended since the last close.
func (r *rows) undo() { r.cut(r.len()) }

// drop takes the last row away.
func (r *rows) drop() { r.cut(r.len() - 1) }

// cut leaves the first n rows.
func (r *rows) cut(n int) {
	r.label, r.weight = r.label[:n], r.weight[:n]
	r.ends = r.ends[:n*len(r.bags)]
	r.numeric = r.numeric[:n*len(r.numerics)]
	keys := r.start(n * len(r.bags))
	r.keys = r.keys[:keys]
	if r.weighted {
		r.values = r.values[:keys]
	}
}

// start returns where bag i, counted over all rows, begins in keys.
func (r *rows) start(i int) int {
	if i == 0 {
		return 0
	}
	return int(r.ends[i-1])
}

// bag returns the borders of bag i, counted over all rows, in keys.
func (r *rows) bag(i int) (from, to int) { return r.start(i), int(r.ends[i]) }

// full reports whether the rows make a window.
func (r *rows) full() bool {
	return r.len() == WindowRows || len(r.keys) >= windowEntries
}

// appendTo adds row i to b, or reports false where a feature of b would have
// more entries than its offsets can count.
func (r *rows) appendTo(b *Batch, i int) bool {
	at := r.start(i * len(r.bags))
	for f, p := range r.bags {
		to := int(r.ends[i*len(r.bags)+f])
		c := &b.Features[p.at]
		if to-at > math.MaxInt32-len(c.Keys) {
			return false
		}
		if r.weighted {
			c.Keys = append(c.Keys, r.keys[at:to]...)
			c.Weights = append(c.Weights, r.values[at:to]...)
		} else {
			for _, k := range r.keys[at:to] { // mostly one: not worth a memmove
				c.Keys = append(c.Keys, k)
				c.Weights = append(c.Weights, 1)
			}
		}
		c.Offsets = append(c.Offsets, int32(len(c.Keys)))
		at = to
	}
	for f, p := range r.numerics {
		c := &b.Features[p.at]
		c.Numeric = append(c.Numeric, r.numeric[i*len(r.numerics)+f])
	}
	b.Rows++
	b.Label = append(b.Label, r.label[i])
	b.Weight = append(b.Weight, r.weight[i])
	return true
}

// permutation fills perm with an order of 0..n-1 that is a function of the other
// arguments alone: Fisher and Yates's shuffle over splitmix64 (Steele, Lea,
// Flood: Fast splittable pseudorandom number generators, 2014). It is written
// out because the order is a promise that outlives versions of math/rand.
func permutation(perm []int32, n int, seed uint64, epoch, window int) []int32 {
	perm = perm[:0]
	for i := range n {
		perm = append(perm, int32(i))
	}
	state := seed
	for _, salt := range []int{epoch, window} {
		state = splitmix(&state) ^ uint64(salt)
	}
	for i := n - 1; i > 0; i-- {
		j := below(&state, uint64(i)+1)
		perm[i], perm[j] = perm[j], perm[i]
	}
	return perm
}

func splitmix(state *uint64) uint64 {
	*state += 0x9e3779b97f4a7c15
	z := *state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below returns an unbiased number under n, which is at most 2^32: the draws in
// the last, short cycle of remainders are thrown away.
func below(state *uint64, n uint64) uint64 {
	const space = 1 << 32
	for {
		if x := splitmix(state) >> 32; x < space-space%n {
			return x % n
		}
	}
}
