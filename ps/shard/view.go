package shard

import (
	"slices"
	"sync"

	"hcclps/internal/vec"
	"hcclps/ps/table"
)

// viewBytes is the size from which on an answer to a pull is a view.
const viewBytes = 64 << 10

// view is the body of an answer to a large pull: rows, which it reads from their tables while they are sent. It shows them
// as they are when it is opened; before a table changes, open views copy what they show. It is a p2p.Source.
type view struct {
	parts []viewPart
	size  int // bytes

	mu     sync.Mutex
	part   int       // the one that was read last
	row    []float32 // of which a piece ends within
	memory []float32 // for a copy
	copied bool      // it holds all rows: they are not read from the tables any more
}

// viewPart is rows of one table. Its keys are those of the request.
type viewPart struct {
	rows       *table.Table
	keys       []uint64
	start, end int // bytes, in the view
}

func (v *view) reset() {
	clear(v.parts)
	v.parts, v.size, v.part, v.copied = v.parts[:0], 0, 0, false
}

// add appends rows.
func (v *view) add(t *table.Table, keys []uint64) {
	n := 4 * t.Spec().Dim * len(keys)
	v.parts = append(v.parts, viewPart{t, keys, v.size, v.size + n})
	v.size += n
}

// bytes are all rows, copied.
func (v *view) bytes() []byte {
	if !v.copied {
		v.memory = slices.Grow(v.memory[:0], v.size/4)[:v.size/4]
		for i := range v.parts {
			p := &v.parts[i]
			p.rows.Gather(p.keys, v.memory[p.start/4:p.end/4])
		}
		v.copied = true
	}
	return vec.BytesOfFloats(v.memory)
}

// settle makes the view independent of the tables.
func (v *view) settle() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.bytes()
}

// Len implements p2p.Source.
func (v *view) Len() int { return v.size }

// Fill implements p2p.Source.
func (v *view) Fill(off int, p []byte) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.copied {
		copy(p, v.bytes()[off:])
		return nil
	}
	for done := 0; done < len(p); {
		done += v.fill(off+done, p[done:], done%4 == 0)
	}
	return nil
}

// fill writes some bytes from offset off on, of one table: whole rows in place, if p is aligned, or a part of one. It returns how many.
func (v *view) fill(off int, p []byte, aligned bool) int {
	at := v.seek(off)
	width := 4 * at.rows.Spec().Dim
	first, skip := (off-at.start)/width, (off-at.start)%width
	if n := min(len(p), at.end-off) / width; n > 0 && skip == 0 && aligned {
		at.rows.Gather(at.keys[first:first+n], vec.Floats(p[:n*width]))
		return n * width
	}
	v.row = slices.Grow(v.row[:0], width/4)[:width/4]
	at.rows.Gather(at.keys[first:first+1], v.row)
	return copy(p, vec.BytesOfFloats(v.row)[skip:])
}

// seek finds the part that holds an offset.
func (v *view) seek(off int) *viewPart {
	if off < v.parts[v.part].start {
		v.part = 0
	}
	for off >= v.parts[v.part].end {
		v.part++
	}
	return &v.parts[v.part]
}

// views are those that are open, and memory for more. They are opened under the lock of State, which who changes tables has for itself.
type views struct {
	mu   sync.Mutex
	open map[*view]struct{}
	free sync.Pool // *view
}

// get is an empty view.
func (vs *views) get() *view {
	if v, ok := vs.free.Get().(*view); ok {
		v.reset()
		return v
	}
	return &view{}
}

func (vs *views) enter(v *view) {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	if vs.open == nil {
		vs.open = map[*view]struct{}{}
	}
	vs.open[v] = struct{}{}
}

func (vs *views) leave(v *view) {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	delete(vs.open, v)
}

// settle makes open views independent of the tables, which may change then.
func (vs *views) settle() {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	for v := range vs.open {
		v.settle()
	}
	clear(vs.open)
}
