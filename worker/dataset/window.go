package dataset

// windowEntries closes a window early, so that wide rows cannot fill the
// memory: 8 Mi entries are 96 MiB.
const windowEntries = 8 << 20

// rows is a growing set of rows in compressed form.
type rows struct {
	label  []float32
	ends   []int // ends[i] is where row i ends in keys and values
	keys   []uint64
	values []float32
}

func (r *rows) len() int { return len(r.label) }

func (r *rows) reset() {
	r.label, r.ends, r.keys, r.values = r.label[:0], r.ends[:0], r.keys[:0], r.values[:0]
}

// close makes the entries appended since the last call a row.
func (r *rows) close(label float32) {
	r.label = append(r.label, label)
	r.ends = append(r.ends, len(r.keys))
}

// drop takes the last row away.
func (r *rows) drop() {
	r.label = r.label[:len(r.label)-1]
	r.ends = r.ends[:len(r.label)]
	r.keys, r.values = r.keys[:r.start(len(r.label))], r.values[:r.start(len(r.label))]
}

// start returns where row i begins in keys and values.
func (r *rows) start(i int) int {
	if i == 0 {
		return 0
	}
	return r.ends[i-1]
}

// full reports whether the rows make a window.
func (r *rows) full() bool {
	return r.len() == WindowRows || len(r.keys) >= windowEntries
}

// appendTo adds row i to b.
func (r *rows) appendTo(b *Batch, i int) {
	from, to := r.start(i), r.ends[i]
	b.Rows++
	b.Label = append(b.Label, r.label[i])
	b.Weight = append(b.Weight, 1)
	b.Keys = append(b.Keys, r.keys[from:to]...)
	b.Values = append(b.Values, r.values[from:to]...)
	b.Offsets = append(b.Offsets, int32(len(b.Keys)))
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
