package table

import (
	"fmt"
	"unsafe"

	"hcclps/internal/vec"
)

// window is the number of keys looked up together. A lookup is two cache misses, the line of the index and the row; with a window of them
// in flight their latencies overlap.
const window = 64

// lookup is the state of one window; it lives on the caller's stack.
type lookup struct {
	hash  [window]uint64
	rows  [window]uint32
	addrs [window]uintptr
	found [window]*float32 // the weights, for a gather; nil where there is no row
}

// locate fills w.rows for up to window keys, and has the rows, and for writers the heads of their units, on the way into the cache.
func (t *Table) locate(w *lookup, keys []uint64, write bool) {
	for i, key := range keys {
		h := vec.Mix64(key, t.spec.HashSeed)
		w.hash[i] = h
		p := &t.parts[h>>54]
		switch {
		case p.dir != nil:
			c := *p.chunkOf(h)
			w.addrs[i] = uintptr(t.lines.at(c.first() + c.start(h)))
		case p.rows > 0:
			w.addrs[i] = uintptr(t.rowAt(t.rowNumber(p, 0)))
		default:
			w.addrs[i] = 0
		}
	}
	vec.Prefetch(w.addrs[:len(keys)], 1)
	n := 0
	for i := range keys {
		row := t.candidate(w.hash[i], keys[i])
		w.rows[i] = row
		if row == none {
			continue
		}
		if t.tier == nil {
			w.addrs[n] = uintptr(t.fixed(row))
		} else {
			w.addrs[n] = uintptr(t.rowAt(row))
		}
		n++
	}
	vec.Prefetch(w.addrs[:n], min(4, (t.stride+vec.CacheLine-1)/vec.CacheLine))
	if write {
		n = 0
		for _, row := range w.rows[:len(keys)] {
			if row != none {
				w.addrs[n] = uintptr(unsafe.Pointer(t.headOf(row >> t.ushift)))
				n++
			}
		}
		vec.Prefetch(w.addrs[:n], 1)
	}
	for i, key := range keys {
		row := w.rows[i]
		if row == none {
			continue
		}
		if t.tier == nil && *(*uint64)(t.fixed(row)) == key || t.tier != nil && t.record(row).key() == key {
			continue
		}
		w.rows[i] = t.find(w.hash[i], key) // another key with the same tag: one in some 30
	}
}

// candidate is the first row in the first line whose tag fits, without a look at the row itself.
func (t *Table) candidate(h, key uint64) uint32 {
	p := &t.parts[h>>54]
	if p.dir == nil {
		return t.scanUnindexed(p, key)
	}
	c := *p.chunkOf(h)
	l := t.line(c.first() + c.start(h))
	low, high := l.match(uint8(h))
	if low|high != 0 {
		return l.rows[slotOf(&low, &high)]
	}
	if l.used < lineSlots {
		return none
	}
	return t.find(h, key)
}

// Gather writes the weights of every key to out, len(out) = len(keys) x Dim, in the order of keys, which may hold any key any number of times.
// A missing row is computed, never created; a cold one is read and stays cold (see Err). Gathers may run concurrently under the owner's read lock.
func (t *Table) Gather(keys []uint64, out []float32) {
	var w lookup
	var cold []coldRow
	dim := t.spec.Dim
	all, end := out, len(keys)
	for len(keys) > 0 {
		now := keys[:min(window, len(keys))]
		t.locate(&w, now, false)
		for i, key := range now {
			if row := w.rows[i]; row != none {
				if t.tier != nil && !t.tier.see(row>>t.ushift) {
					cold = append(cold, coldRow{row, end - len(keys) + i})
					w.found[i] = nil
					continue
				}
				if t.tier == nil {
					w.found[i] = (*float32)(unsafe.Add(t.fixed(row), headBytes))
				} else {
					w.found[i] = (*float32)(unsafe.Add(t.rowAt(row), headBytes))
				}
			} else {
				w.found[i] = nil
				t.init.fill(key, out[i*dim:][:dim:dim])
			}
		}
		if dim < wideDim || t.units.mapped < farBytes {
			vec.GatherRows(out, w.found[:len(now)], dim)
		} else {
			w.gatherFar(out, len(now), dim)
		}
		keys, out = keys[len(now):], out[len(now)*dim:]
	}
	if len(cold) > 0 {
		t.gatherCold(cold, all)
	}
}

// Where both hold, the first lines of a row in the cache are too little: rows are wide, and too many for the caches.
const (
	wideDim  = 256
	farBytes = 16 << 20
)

// gatherFar copies rows, of which the next one is on its way while one is copied.
func (w *lookup) gatherFar(out []float32, n, dim int) {
	for i := range n {
		if i+1 < n && w.found[i+1] != nil {
			vec.Expect(unsafe.Slice(w.found[i+1], dim))
		}
		vec.GatherRows(out[i*dim:], w.found[i:i+1], dim)
	}
}

// Apply updates one row a key: it creates the row if it is missing, calls u with the row and its gradient, and stamps the head. keys ascend
// strictly, len(grads) = len(keys) x Dim. It is the only writer besides Load, under the owner's write lock, and u must not keep what it is given.
//
// Wrong arguments are refused before anything is touched. Any other error means that memory has run out, or that cold rows cannot be read, with a part
// of the keys applied: the table no longer equals its replicas and the process must end.
func (t *Table) Apply(keys []uint64, grads []float32, st Stamp, u Updater) error {
	if err := t.checkApply(keys, grads); err != nil {
		return err
	}
	defer t.settle()
	var w lookup
	dim := t.spec.Dim
	far := dim >= wideDim && t.units.mapped >= farBytes
	for len(keys) > 0 {
		now := keys[:min(window, len(keys))]
		t.locate(&w, now, true)
		for i, key := range now {
			row := w.rows[i]
			if row == none {
				var err error
				if row, err = t.create(w.hash[i], key); err != nil {
					return err
				}
			} else if err := t.touch(row>>t.ushift, int(w.hash[i]>>54)); err != nil {
				return err
			}
			r := t.record(row)
			if far && i+1 < len(now) && w.rows[i+1] != none {
				vec.Expect(t.record(w.rows[i+1]).values())
			}
			r.stamp(st)
			u.Update(r.values(), grads[i*dim:][:dim:dim])
		}
		keys, grads = keys[len(now):], grads[len(now)*dim:]
	}
	return nil
}

func (t *Table) checkApply(keys []uint64, grads []float32) error {
	if t.closed {
		return fmt.Errorf("apply to table: %w", ErrClosed)
	}
	if t.strays != 0 {
		return fmt.Errorf("apply to table: %w", t.errStrays())
	}
	if len(grads) != len(keys)*t.spec.Dim {
		return fmt.Errorf("apply to table: %d gradients for %d keys of dim %d", len(grads), len(keys), t.spec.Dim)
	}
	for i := 1; i < len(keys); i++ {
		if keys[i-1] >= keys[i] {
			return fmt.Errorf("apply to table: key %d at %d follows key %d: keys must ascend strictly", keys[i], i, keys[i-1])
		}
	}
	return nil
}

// create adds the row of a key that has none, with initial weights and slots.
func (t *Table) create(h, key uint64) (uint32, error) {
	number := int(h >> 54)
	row, err := t.addRow(&t.parts[number], number)
	if err != nil {
		return none, err
	}
	r := t.record(row)
	r.setKey(key)
	values, dim := r.values(), t.spec.Dim
	t.init.fill(key, values[:dim])
	copy(values[dim:], t.spec.SlotInit)
	return row, t.insert(h, row)
}
