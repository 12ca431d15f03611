package table

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"hcclps/internal/vec"
)

// ErrClosed is the cause when a table or a capture is used after its Close.
var ErrClosed = errors.New("table is closed")

// Partition is the bucket of key: the top ten bits of its mix.
func Partition(key, hashSeed uint64) int { return int(vec.Mix64(key, hashSeed) >> 54) }

// Stamp is what an entry writes into the head of every row it touches.
type Stamp struct {
	Step   uint32
	Writer uint16 // index into the shard's table of writers' names
	// Halving, if not 0, halves the sightings of a row at every multiple of so many steps, before this one is counted. See Halved.
	Halving uint32
}

// Updater changes one row in place: len(row) = Dim + Slots, weights then slots; len(grad) = Dim.
type Updater interface {
	Update(row, grad []float32)
}

// Row is one row as read.
type Row struct {
	Key       uint64
	Step      uint32 // of the last update
	Sightings uint16 // updates, counted up to 65,535
	Writer    uint16 // of the last update
	Values    []float32
}

// Stats is the size of a table.
type Stats struct {
	Rows       int64
	Bytes      int64 // all memory: rows, index, directories, unused parts of slabs; without copies
	RowBytes   int64 // of Bytes, mapped for rows and their heads
	IndexBytes int64 // of Bytes, mapped for index lines
	CopyBytes  int64 // held by the open capture
	Epoch      uint32
	Cold       ColdStats
}

// Table holds rows by 64-bit key. See the package comment for who may call what at the same time.
type Table struct {
	spec   Spec
	init   initial
	stride int
	ushift uint // rows of a unit, binary logarithm
	parts  []partition
	units  slabs // copy units of rows; the head of each is a unitHead
	tier   *tier // nil: all rows are in memory, and the number of a unit is its place in units
	lines  slabs // index lines
	rows   int64
	epoch  uint32
	strays int // rows that Load has put elsewhere, and that are still in their old place

	budget   *Budget
	reserved int64 // of budget, for the Apply to come
	capture  atomic.Pointer[Capture]
	closed   bool

	moved []uint32 // scratch of empty
	ahead []uintptr
}

// partition is the rows whose keys share a bucket, in order of arrival.
type partition struct {
	units []uint32   // numbers of its copy units
	dir   []chunkRef // nil up to scanRows rows
	rows  uint32
	pages uint32 // the most it had when one became empty
	cut   uint32 // epoch in which one last became empty
	shift uint   // of the hash, to bring the directory's bits down
}

// unitHead belongs to one copy unit.
type unitHead struct {
	ordinal uint32 // in its partition
	epoch   uint32 // of the last write
}

// New makes an empty table. It maps no memory before the first row.
func New(spec Spec) (*Table, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	t := &Table{
		spec:   spec,
		init:   newInitial(spec.Init, spec.Seed),
		stride: spec.Stride(),
		ushift: spec.unitShift(),
		parts:  make([]partition, Partitions),
		units:  newSlabs(spec.Stride()<<spec.unitShift(), int(unsafe.Sizeof(unitHead{}))),
		lines:  newSlabs(int(unsafe.Sizeof(line{})), 0),
		epoch:  1,
		budget: spec.Budget,
	}
	if t.budget == nil {
		t.budget = NewBudget(0)
	}
	t.units.memory, t.lines.memory = spec.Memory, spec.Memory
	if spec.Memory != nil && spec.Cold != nil {
		t.tier = t.newTier(spec.Cold(), spec.Memory)
	}
	return t, nil
}

// Spec returns the specification the table was made with.
func (t *Table) Spec() Spec { return t.spec }

// Row reads one row; Values is a copy of weights and slots.
func (t *Table) Row(key uint64) (Row, bool) { return t.RowInto(nil, key) }

// RowInto is Row with Values in the memory of dst, where that is large enough.
func (t *Table) RowInto(dst []float32, key uint64) (Row, bool) {
	n := t.find(vec.Mix64(key, t.spec.HashSeed), key)
	if n == none {
		return Row{}, false
	}
	r := t.record(n)
	if t.isCold(n) {
		err := t.readCold([]coldRow{{row: n}}, func(_ coldRow, rec record) bool {
			r = rec
			return true
		})
		if err != nil {
			return Row{}, false
		}
	}
	row := r.row()
	row.Values = append(dst[:0], row.Values...)
	return row, true
}

// row is the record in place.
func (r record) row() Row {
	return Row{Key: r.key(), Step: r.step(), Sightings: r.sightings(), Writer: r.writer(), Values: r.values()}
}

// rowAt is the first byte of row n, its key's; where it is cold nothing else is there. A row's number is unit x rows of a unit + place; only Delete and Load change it.
func (t *Table) rowAt(n uint32) unsafe.Pointer {
	if t.tier != nil {
		return t.tier.rowAt(t, n)
	}
	return t.fixed(n)
}

// fixed is rowAt of a table without a tier; it is inlined where rows are looked up.
func (t *Table) fixed(n uint32) unsafe.Pointer {
	shift := t.units.shift + t.ushift
	in := int(n & (1<<shift - 1))
	return unsafe.Add(t.units.extents[n>>shift], t.units.head<<t.units.shift+in*t.stride)
}

func (t *Table) record(n uint32) record {
	return unsafe.Slice((*byte)(t.rowAt(n)), t.stride)
}

func (t *Table) headOf(unit uint32) *unitHead {
	if t.tier != nil {
		return t.tier.headOf(t, unit)
	}
	return (*unitHead)(t.units.headOf(unit))
}

// rowNumber is the number of the partition's row i in order of arrival.
func (t *Table) rowNumber(p *partition, i uint32) uint32 {
	return p.units[i>>t.ushift]<<t.ushift | i&(1<<t.ushift-1)
}

// addRow gives partition p, of the given number, room for one more row and returns its number. The record is zero.
func (t *Table) addRow(p *partition, number int) (uint32, error) {
	if p.rows&(1<<t.ushift-1) == 0 {
		unit, err := t.newUnit(uint32(len(p.units)))
		if err != nil {
			return 0, err
		}
		if len(p.units) == cap(p.units) { // by an eighth, since every byte a row counts
			units := make([]uint32, len(p.units), len(p.units)+len(p.units)/8+1)
			copy(units, p.units)
			t.spec.Memory.Add(4 * int64(cap(units)-cap(p.units)))
			p.units = units
		}
		p.units = append(p.units, unit)
	} else if err := t.touch(p.units[len(p.units)-1], number); err != nil {
		return 0, err
	}
	p.rows++
	t.rows++
	row := t.rowNumber(p, p.rows-1)
	clear(t.record(row)) // another row may have lain there
	return row, nil
}

// touch precedes every write to a unit: it has it in memory, marks it dirty and, for an open capture, sets its old content aside.
func (t *Table) touch(unit uint32, number int) error {
	if t.tier != nil {
		if err := t.heat(unit); err != nil {
			return err
		}
	}
	head := t.headOf(unit)
	if head.epoch == t.epoch {
		return nil
	}
	if c := t.capture.Load(); c != nil {
		if err := c.save(unit, head, number); err != nil {
			return err
		}
	}
	head.epoch = t.epoch
	return nil
}

// Stats counts rows and bytes, in time proportional to the number of partitions.
func (t *Table) Stats() Stats {
	s := Stats{Rows: t.rows, RowBytes: t.units.mapped, IndexBytes: t.lines.mapped, Epoch: t.epoch}
	s.Bytes = t.units.bytes() + t.lines.bytes() + int64(cap(t.moved))*4 + int64(cap(t.ahead))*8 +
		int64(len(t.parts))*int64(unsafe.Sizeof(partition{}))
	s.Bytes += t.listBytes()
	if t.tier != nil {
		s.Cold = t.tier.stats(t)
		s.Bytes += s.Cold.Keys + t.tier.places.bytes() + int64(cap(t.tier.spares))*4
	}
	if c := t.capture.Load(); c != nil {
		s.CopyBytes = c.bytes()
	}
	return s
}

// listBytes is the memory of the partitions' lists.
func (t *Table) listBytes() (n int64) {
	for i := range t.parts {
		n += int64(cap(t.parts[i].units))*4 + int64(cap(t.parts[i].dir))*8
	}
	return n
}

// Close unmaps the table. It is called under the owner's write lock, once; afterwards the table is empty and refuses Apply and Load.
func (t *Table) Close() error {
	if t.closed {
		return fmt.Errorf("close table: %w", ErrClosed)
	}
	t.closed = true
	if c := t.capture.Load(); c != nil {
		c.Close()
	}
	t.spec.Memory.Add(-t.listBytes())
	t.parts = make([]partition, Partitions)
	t.rows = 0
	err := errors.Join(t.units.close(), t.lines.close())
	if t.tier != nil {
		err = errors.Join(err, t.tier.places.close(), t.tier.keys.close(), t.tier.store.Close())
	}
	return err
}
