package table

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"
)

const (
	coolUnits = 256     // units written under one hold of the lock
	coolLooks = 1 << 16 // units looked at under one hold of the lock
)

// Cool moves units that were not used for longest to the store, until there is room again: a sixteenth of what is in memory, or what Warm lately
// asked for. It returns at once when there is room. The caller does not hold lock, which is the owner's; nothing is read or written under it.
// When the store does not take them they stay in memory, and the error says why. It may be called concurrently.
func (t *Table) Cool(ctx context.Context, lock Lock) error { return t.cool(ctx, lock, 0) }

// Tight says that Cool has something to do. It is called under the owner's lock, of either side.
func (t *Table) Tight() bool { return t.tier != nil && !t.closed && t.lacking(0) > 0 }

// hot is the number of units in memory.
func (t *Table) hot() int { return int(t.tier.places.used) - len(t.tier.spares) - int(t.tier.cold) }

// lacking is the number of units that must go for so many to come, and some room to be left.
func (t *Table) lacking(need int) int {
	r := t.tier
	hot := t.hot()
	size := int64(t.units.block + t.units.head)
	room := t.units.room() + int(r.memory.left()/size)
	low := min(max(hot/32, r.need/4), hot/8)
	if room >= low+need {
		return 0
	}
	return min(hot, 2*low+need-room)
}

func (t *Table) cool(ctx context.Context, lock Lock, need int) error {
	r := t.tier
	if r == nil {
		return nil
	}
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("cool table: %w", context.Cause(ctx))
	}
	defer func() { <-r.turn }()
	lock.Lock()
	lack, left, idle := 0, 0, false
	if !t.closed {
		r.need = max(need, r.need-r.need/16)
		lack = t.lacking(need)
		left = 4 * int(t.places()) // around until the last counter is at 0
		idle = t.idle()
	}
	lock.Unlock()
	if lack == 0 && !idle {
		return nil
	}
	b := &r.chill
	for lack > 0 && left > 0 && ctx.Err() == nil {
		lock.RLock()
		left -= t.victims(b, min(lack, coolUnits))
		lock.RUnlock()
		err := b.write(ctx, r)
		lock.Lock()
		lack -= t.release(b, err)
		closed := t.closed
		lock.Unlock()
		if closed {
			return nil
		}
		if err != nil {
			return fmt.Errorf("write cold rows: %w: they stay in memory", err)
		}
	}
	for ctx.Err() == nil {
		lock.Lock()
		again, err := t.shrink()
		lock.Unlock()
		if err != nil || !again {
			return err
		}
	}
	return nil
}

func (t *Table) places() uint32 { return uint32(t.tier.places.used) }

// chill is units that are about to go.
type chill struct {
	ids   []uint32 // all of them
	dirty []uint32 // those that the store does not have as they are
	data  []byte   // of dirty
}

// victims chooses up to n units, by a clock with counters: what was used in several steps stays for as many rounds, and what came for one
// step goes first. It copies them, and returns how many units it has looked at. The owner's lock is held for reading.
func (t *Table) victims(b *chill, n int) (looked int) {
	b.ids, b.dirty, b.data = b.ids[:0], b.dirty[:0], b.data[:0]
	r := t.tier
	places := t.places()
	if t.closed || places == 0 {
		return coolLooks
	}
	t.oldGuests(b, n)
	for ; looked < min(coolLooks, int(places)) && len(b.ids) < n; looked++ {
		if r.hand >= places {
			r.hand = 0
		}
		unit := r.hand
		r.hand++
		p := r.at(unit)
		switch {
		case p.slot&isCold != 0:
		case atomic.LoadUint32(&p.state)&used != 0:
			atomic.AddUint32(&p.state, ^uint32(0)) // nobody else makes it less
		default:
			t.choose(b, unit)
		}
	}
	if len(b.ids) > 0 {
		r.active.Store(true)
	}
	slices.Sort(b.dirty)
	for _, unit := range b.dirty {
		b.data = append(b.data, t.unitBytes(unit)...)
	}
	return looked
}

// oldGuests chooses units that came back for one step and were not used since. Those that came last are left for the step they came for. So a step's
// many rows that are rarely used do not drive out those that are used often (the idea of S3-FIFO, Yang et al., SOSP 2023).
func (t *Table) oldGuests(b *chill, n int) {
	r := t.tier
	old := min(max(0, len(r.guests)-2*r.need), coolLooks)
	at := 0
	for ; at < old && len(b.ids) < n; at++ {
		unit := r.guests[at]
		if p := r.at(unit); p.slot&isCold == 0 && atomic.LoadUint32(&p.state)&used <= 1 {
			atomic.AndUint32(&p.state, ^uint32(used))
			t.choose(b, unit)
		}
	}
	r.guests = append(r.guests[:0], r.guests[at:]...)
}

// choose adds a unit to those that go.
func (t *Table) choose(b *chill, unit uint32) {
	if units := t.parts[t.numberOf(unit)].units; units[len(units)-1] == unit {
		return // it is not full, or the next to change
	}
	p := t.tier.at(unit)
	state := atomic.LoadUint32(&p.state)
	if state&taken != 0 {
		return
	}
	atomic.OrUint32(&p.state, taken)
	b.ids = append(b.ids, unit)
	if state&clean == 0 {
		atomic.OrUint32(&p.state, clean)
		b.dirty = append(b.dirty, unit)
	}
}

// write brings copies of changed units to the store.
func (b *chill) write(ctx context.Context, r *tier) error {
	if len(b.dirty) == 0 {
		return nil
	}
	if err := r.store.Write(ctx, b.dirty, b.data); err != nil {
		r.failures.Add(1)
		r.trouble.Store(&err)
		return err
	}
	r.trouble.Store(nil)
	r.written.Add(int64(len(b.dirty)))
	return nil
}

// release makes those units cold that were not used since they were chosen. The owner's lock is held for writing.
func (t *Table) release(b *chill, failed error) (n int) {
	if t.closed {
		return 0
	}
	r := t.tier
	if failed != nil {
		for _, unit := range b.dirty {
			r.at(unit).state &^= clean
		}
	}
	for _, unit := range b.ids {
		p := r.at(unit)
		p.state &^= taken
		if p.slot&isCold != 0 || p.state&(used|clean) != clean {
			continue
		}
		slot, err := r.keys.take(1)
		if err != nil {
			return n
		}
		keys := unsafe.Slice((*uint64)(r.keys.at(slot)), 1<<t.ushift)
		for i := range keys {
			keys[i] = t.record(unit<<t.ushift | uint32(i)).key()
		}
		*(*unitHead)(r.keys.headOf(slot)) = *(*unitHead)(t.units.headOf(p.slot))
		t.units.give(p.slot)
		p.slot = slot | isCold
		p.state += wentBy
		r.cold++
		n++
	}
	r.dropped.Add(int64(max(0, n-len(b.dirty))))
	return n
}

// idle says that memory is to be given back: too much is in use, as the index and the keys of cold rows have grown, or there is little left for other
// tables, and most of this one's is for rows that are gone. What Cool and Warm make room for is less than that.
func (t *Table) idle() bool {
	r := t.tier
	left := r.memory.left()
	return left < 0 || left < r.memory.limit/32 && t.units.room() > t.hot()+2*r.need
}

// shrink gives a mapping back if memory is idle: it moves units out of the newest.
// It says whether it did, and may do so again. The owner's lock is held for writing.
func (t *Table) shrink() (again bool, err error) {
	r := t.tier
	if t.closed || !t.idle() {
		return false, nil
	}
	first, ok := t.units.last()
	if !ok {
		return false, nil
	}
	for unit := range t.places() {
		p := r.at(unit)
		if p.slot&isCold != 0 || p.slot < first {
			continue
		}
		to := t.units.pop()
		copy(unsafe.Slice((*byte)(t.units.at(to)), t.units.block), unsafe.Slice((*byte)(t.units.at(p.slot)), t.units.block))
		*(*unitHead)(t.units.headOf(to)) = *(*unitHead)(t.units.headOf(p.slot))
		p.slot = to
	}
	return true, t.units.unmapLast()
}
