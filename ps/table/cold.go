package table

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Cold keeps copy units that a table has no memory for. Its methods may be called concurrently; no two calls of Write at once
// name the same unit. All units of a table are of one length.
type Cold interface {
	// Write stores units over what is there of them: the first in the first part of data, and so on. ids ascend. It keeps none of its arguments.
	// It may have garbage freed, until ctx ends.
	Write(ctx context.Context, ids []uint32, data []byte) error
	// Read fills data with units that were written. A unit that is not as it was written is an error. ids ascend.
	Read(ids []uint32, data []byte) error
	// Close forgets the units of this table.
	Close() error
}

// Lock is the lock of a table's owner. *sync.RWMutex is one.
type Lock interface {
	sync.Locker
	RLock()
	RUnlock()
}

// ColdStats counts what a table's cold tier does; all zero without one.
type ColdStats struct {
	Rows     int64 // cold now
	Bytes    int64 // of cold rows, without what the store adds
	Keys     int64 // bytes of memory for their keys; a part of Stats.Bytes
	Looked   int64 // units that Warm looked for
	Misses   int64 // of them, cold
	Read     int64 // units read, by Warm and by all others
	Stalls   int64 // units read while the owner's lock was held for writing: they had not been warmed
	Written  int64 // units written to the store
	Dropped  int64 // units that went cold without a write: the store had them as they were
	Failures int64 // writes that failed; the rows stay in memory
}

// tier is what a table with a Cold store knows about its units. Numbers of units are places here: the slot in memory behind a number changes.
//
// A cold unit leaves its keys and its head in memory. So lookups, growth of the index and deletion never read the store
// to find a row, only to read or change it.
type tier struct {
	store  Cold
	memory *Memory
	places slabs     // by number
	spares []uint32  // numbers given back
	keys   slabs     // of cold units; the head is that of the unit
	cold   int64     // units
	hand   uint32    // number at which the search for victims goes on
	guests []uint32  // units that came back, oldest first: those that are used once go before all others
	need   int       // units that a Warm has lately asked for
	one    []byte    // a unit
	rooms  sync.Pool // of *[]byte: space for units that are read
	turn   chan struct{}
	chill  chill // of who has the turn

	active                                                   atomic.Bool // a unit was cold
	fault                                                    atomic.Pointer[error]
	trouble                                                  atomic.Pointer[error] // of the newest write, if it failed
	looked, misses, read, stalls, written, dropped, failures atomic.Int64
}

// place is where a unit is.
type place struct {
	slot  uint32 // of units, or with isCold of keys; none: the number is not in use
	state uint32 // atomic: how much it was used, clean, and above them how often the unit went cold
}

const (
	isCold = 1 << 31
	used   = 3  // steps it was used in, up to three, less one each time that the search for victims comes by
	clean  = 4  // the store has it as it is
	taken  = 8  // chosen to go
	wentBy = 16 // one more time cold
)

func (t *Table) newTier(store Cold, memory *Memory) *tier {
	rows := 1 << t.ushift
	r := &tier{store: store, memory: memory, turn: make(chan struct{}, 1)}
	r.places = newSlabs(int(unsafe.Sizeof(place{})), 0)
	r.keys = newSlabs(8*rows, int(unsafe.Sizeof(unitHead{})))
	r.places.memory, r.keys.memory = memory, memory
	r.one = make([]byte, t.units.block)
	return r
}

func (r *tier) at(unit uint32) *place { return (*place)(r.places.at(unit)) }

// number gives the unit in a slot a number.
func (r *tier) number(slot uint32) (unit uint32, err error) {
	if last := len(r.spares) - 1; last >= 0 {
		unit, r.spares = r.spares[last], r.spares[:last]
	} else if unit, err = r.places.take(1); err != nil {
		return 0, err
	}
	p := r.at(unit)
	p.slot = slot
	p.state = p.state&^(clean|used) | 1
	return unit, nil
}

// see marks a unit used and reports whether it is in memory. It is called under the owner's lock, of either side.
func (r *tier) see(unit uint32) bool {
	p := r.at(unit)
	if p.slot&isCold != 0 {
		return false
	}
	if atomic.LoadUint32(&p.state)&used == 0 {
		atomic.OrUint32(&p.state, 1)
	}
	return true
}

// rowAt is rowAt for tables with a tier: where a row is cold, its key.
func (r *tier) rowAt(t *Table, n uint32) unsafe.Pointer {
	in := int(n & (1<<t.ushift - 1))
	slot := r.at(n >> t.ushift).slot
	if slot&isCold != 0 {
		return unsafe.Add(r.keys.at(slot&^isCold), 8*in)
	}
	return unsafe.Add(t.units.at(slot), in*t.stride)
}

// headOf is the head of a unit, hot or cold.
func (r *tier) headOf(t *Table, unit uint32) *unitHead {
	slot := r.at(unit).slot
	if slot&isCold != 0 {
		return (*unitHead)(r.keys.headOf(slot &^ isCold))
	}
	return (*unitHead)(t.units.headOf(slot))
}

// newUnit makes a unit in memory.
func (t *Table) newUnit(ordinal uint32) (unit uint32, err error) {
	if unit, err = t.units.take(1); err == nil && t.tier != nil {
		unit, err = t.tier.number(unit)
	}
	if err != nil {
		return 0, err
	}
	if unit > none>>t.ushift-1 || unit >= isCold {
		return 0, fmt.Errorf("grow table: %d rows in one shard: spread the table over more shards", t.rows)
	}
	*t.headOf(unit) = unitHead{ordinal: ordinal, epoch: t.epoch}
	return unit, nil
}

// freeUnit gives back a unit that is in memory.
func (t *Table) freeUnit(unit uint32) {
	if t.tier == nil {
		t.units.give(unit)
		return
	}
	p := t.tier.at(unit)
	t.units.give(p.slot)
	p.slot = none
	t.tier.spares = append(t.tier.spares, unit)
}

// heat has a unit that is about to be written in memory.
func (t *Table) heat(unit uint32) error {
	r := t.tier
	p := r.at(unit)
	if p.slot&isCold != 0 {
		if err := r.store.Read([]uint32{unit}, r.one); err != nil {
			return t.fail(fmt.Errorf("read cold rows: %w", err))
		}
		r.read.Add(1)
		r.stalls.Add(1)
		if err := t.install(unit, r.one); err != nil {
			return err
		}
	}
	if p.state&used != used {
		p.state++
	}
	p.state &^= clean
	return nil
}

// install brings a cold unit back, as it was read.
func (t *Table) install(unit uint32, data []byte) error {
	r := t.tier
	p := r.at(unit)
	slot, err := t.units.take(1)
	if err != nil {
		return err
	}
	copy(unsafe.Slice((*byte)(t.units.at(slot)), t.units.block), data)
	was := p.slot &^ isCold
	*(*unitHead)(t.units.headOf(slot)) = *(*unitHead)(r.keys.headOf(was))
	r.keys.give(was)
	p.slot = slot
	p.state = p.state&^used | clean
	r.guests = append(r.guests, unit)
	r.cold--
	return nil
}

// fail keeps the first failure to read the store.
func (t *Table) fail(err error) error {
	t.tier.fault.CompareAndSwap(nil, &err)
	return err
}

// Err is the first failure to read cold rows, or nil. After one, what the table returned may be wrong, and it must not be used. It may be called at any time.
func (t *Table) Err() error {
	if t.tier == nil {
		return nil
	}
	if err := t.tier.fault.Load(); err != nil {
		return *err
	}
	return nil
}

// Trouble is why rows that should be cold are still in memory: the newest write to the store failed. nil: it did not. It may be called at any time.
func (t *Table) Trouble() error {
	if t.tier == nil {
		return nil
	}
	if err := t.tier.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

// Spills says whether any row is cold, or ever was. It may be called at any time.
func (t *Table) Spills() bool { return t.tier != nil && t.tier.active.Load() }

// stats counts.
func (r *tier) stats(t *Table) ColdStats {
	if r == nil {
		return ColdStats{}
	}
	rows := r.cold << t.ushift // only whole units are cold
	return ColdStats{
		Rows: rows, Bytes: rows * int64(t.stride), Keys: r.keys.bytes(),
		Looked: r.looked.Load(), Misses: r.misses.Load(), Read: r.read.Load(), Stalls: r.stalls.Load(),
		Written: r.written.Load(), Dropped: r.dropped.Load(), Failures: r.failures.Load(),
	}
}
