package table

import (
	"encoding/binary"
	"fmt"

	"hcclps/internal/vec"
)

// Put writes rows as they are, heads and values: it creates those that are missing. Keys ascend strictly, len(Values) = Dim + Slots, and Values
// are not kept. It is called like Apply, and Reserve counts its rows like keys. Wrong arguments are refused before anything is touched; after
// any other error memory has run out and the process must end.
func (t *Table) Put(rows []Row) error {
	if err := t.checkPut(rows); err != nil {
		return err
	}
	defer t.settle()
	for i := range rows {
		r := &rows[i]
		h := vec.Mix64(r.Key, t.spec.HashSeed)
		row := t.find(h, r.Key)
		if row == none {
			var err error
			if row, err = t.create(h, r.Key); err != nil {
				return err
			}
		} else if err := t.touch(row>>t.ushift, int(h>>54)); err != nil {
			return err
		}
		to := t.record(row)
		to.setHead(r)
		copy(to.values(), r.Values)
	}
	return nil
}

func (t *Table) checkPut(rows []Row) error {
	if t.closed {
		return fmt.Errorf("put into table: %w", ErrClosed)
	}
	if t.strays != 0 {
		return fmt.Errorf("put into table: %w", t.errStrays())
	}
	want := t.spec.Dim + t.spec.Slots
	for i := range rows {
		if n := len(rows[i].Values); n != want {
			return fmt.Errorf("put into table: %d values for key %d: want %d weights and %d slots", n, rows[i].Key, t.spec.Dim, t.spec.Slots)
		}
		if i > 0 && rows[i-1].Key >= rows[i].Key {
			return fmt.Errorf("put into table: key %d follows key %d: keys must ascend strictly", rows[i].Key, rows[i-1].Key)
		}
	}
	return nil
}

// setHead writes all of a head but the key.
func (r record) setHead(h *Row) {
	binary.LittleEndian.PutUint32(r[8:], h.Step)
	binary.LittleEndian.PutUint16(r[12:], h.Sightings)
	binary.LittleEndian.PutUint16(r[14:], h.Writer)
}
