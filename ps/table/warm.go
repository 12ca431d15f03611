package table

import (
	"context"
	"fmt"
	"slices"

	"hcclps/internal/vec"
)

// warmUnits is the number of units that are brought back under one hold of the lock.
const warmUnits = 256

// wantedUnit is a cold unit that is asked for, and how often it had gone cold by then.
type wantedUnit struct{ unit, went uint32 }

// Warm brings the rows of keys into memory, so that an Apply, Put, Delete or Gather that follows soon need not read the store under the lock,
// and makes room for those that are new. The caller does not hold lock, which is the owner's; nothing is read or written under it.
// It returns at once when no row was ever cold and there is memory. Keys come in any order, as often as they like. It may be called concurrently.
func (t *Table) Warm(ctx context.Context, lock Lock, keys []uint64) error {
	if t.tier == nil || !t.Spills() && t.tier.memory.left() > t.tier.memory.limit/8 {
		return nil
	}
	lock.RLock()
	units, fresh := t.coldUnits(keys)
	lacking := 0
	if !t.closed {
		lacking = t.lacking(len(units) + fresh>>t.ushift)
	}
	lock.RUnlock()
	if lacking > 0 {
		// Without room the rows come all the same: it is the owner who refuses what would make more of them (Trouble).
		if err := t.cool(ctx, lock, len(units)+fresh>>t.ushift); err != nil && ctx.Err() != nil {
			return err
		}
	}
	if len(units) == 0 {
		return nil
	}
	buf := t.tier.room()
	defer t.tier.rooms.Put(buf)
	data, ids := *buf, make([]uint32, 0, warmUnits)
	for len(units) > 0 {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("warm table: %w", context.Cause(ctx))
		}
		now := units[:min(len(units), warmUnits)]
		units = units[len(now):]
		ids = ids[:0]
		for _, u := range now {
			ids = append(ids, u.unit)
		}
		if err := t.tier.store.Read(ids, data[:len(now)*t.units.block]); err != nil {
			return t.fail(fmt.Errorf("read cold rows: %w", err))
		}
		t.tier.read.Add(int64(len(now)))
		lock.Lock()
		err := t.welcome(now, data)
		lock.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// room is space for warmUnits units, to be put back into rooms.
func (r *tier) room() *[]byte {
	if have, _ := r.rooms.Get().(*[]byte); have != nil {
		return have
	}
	made := make([]byte, warmUnits*len(r.one))
	return &made
}

// coldUnits are the cold units of keys, ascending, and the number of keys without a row. Hot ones count as used.
func (t *Table) coldUnits(keys []uint64) (units []wantedUnit, fresh int) {
	if t.closed {
		return nil, 0
	}
	r := t.tier
	var w lookup
	for rest := keys; len(rest) > 0; {
		now := rest[:min(window, len(rest))]
		rest = rest[len(now):]
		t.locate(&w, now, false)
		for _, row := range w.rows[:len(now)] {
			if row == none {
				fresh++
			} else if unit := row >> t.ushift; !r.see(unit) {
				units = append(units, wantedUnit{unit, r.at(unit).state / wentBy})
			}
		}
	}
	slices.SortFunc(units, func(a, b wantedUnit) int { return int(int64(a.unit) - int64(b.unit)) })
	units = slices.Compact(units)
	r.looked.Add(int64(len(keys)))
	r.misses.Add(int64(len(units)))
	return units, fresh
}

// welcome installs units as they were read, unless they are back already, or came back, changed and went again in the meantime.
func (t *Table) welcome(units []wantedUnit, data []byte) error {
	if t.closed {
		return fmt.Errorf("warm table: %w", ErrClosed)
	}
	for i, u := range units {
		p := t.tier.at(u.unit)
		if p.slot&isCold == 0 || p.slot == none || p.state/wentBy != u.went {
			continue
		}
		if err := t.install(u.unit, data[i*t.units.block:][:t.units.block]); err != nil {
			return err
		}
	}
	return nil
}

// coldRow is a row to be read from the store, and its place in what was asked for.
type coldRow struct {
	row uint32
	at  int
}

// readCold calls visit with the record of each row, in ascending order of rows; the record is valid until visit returns. The caller holds the owner's lock.
func (t *Table) readCold(rows []coldRow, visit func(r coldRow, rec record) bool) error {
	slices.SortFunc(rows, func(a, b coldRow) int { return int(int64(a.row) - int64(b.row)) })
	ids := make([]uint32, 0, warmUnits)
	data := make([]byte, min(len(rows), warmUnits)*t.units.block)
	for len(rows) > 0 {
		ids = ids[:0]
		n := 0
		for ; n < len(rows); n++ {
			unit := rows[n].row >> t.ushift
			if len(ids) > 0 && ids[len(ids)-1] == unit {
				continue
			}
			if len(ids) == warmUnits {
				break
			}
			ids = append(ids, unit)
		}
		if err := t.tier.store.Read(ids, data[:len(ids)*t.units.block]); err != nil {
			return t.fail(fmt.Errorf("read cold rows: %w", err))
		}
		t.tier.read.Add(int64(len(ids)))
		i := 0
		for _, r := range rows[:n] {
			for ids[i] != r.row>>t.ushift {
				i++
			}
			at := i*t.units.block + int(r.row&(1<<t.ushift-1))*t.stride
			if !visit(r, data[at:][:t.stride:t.stride]) {
				return nil
			}
		}
		rows = rows[n:]
	}
	return nil
}

// gatherCold fills in the weights of cold rows.
func (t *Table) gatherCold(rows []coldRow, out []float32) {
	dim := t.spec.Dim
	err := t.readCold(rows, func(r coldRow, rec record) bool {
		copy(out[r.at*dim:][:dim], rec.values())
		return true
	})
	if err != nil {
		for _, r := range rows {
			clear(out[r.at*dim:][:dim])
		}
	}
}

// isCold says whether a row is in the store.
func (t *Table) isCold(row uint32) bool {
	return t.tier != nil && t.tier.at(row>>t.ushift).slot&isCold != 0
}

// unitBytes is a unit in memory.
func (t *Table) unitBytes(unit uint32) []byte {
	slot := unit
	if t.tier != nil {
		slot = t.tier.at(unit).slot
	}
	return t.units.bytesOf(slot)
}

// numberOf is the partition of a unit.
func (t *Table) numberOf(unit uint32) int {
	return int(vec.Mix64(t.record(unit<<t.ushift).key(), t.spec.HashSeed) >> 54)
}
