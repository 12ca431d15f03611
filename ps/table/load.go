package table

import (
	"encoding/binary"
	"fmt"
	"slices"

	"hcclps/internal/vec"
)

// Load restores one page that Pages emitted for a table of the same Spec. It is called under the owner's write lock.
//
// The pages of a partition come in ascending order from 0, each full but the last. A page that is there already is replaced by a newer
// version of itself, and one with fewer rows than fit ends the partition. So a full snapshot and then its increments in order restore the last.
// A page that cannot be is refused and leaves the table as it was; where one is left out, rows may stay that have moved, and Apply is refused.
func (t *Table) Load(id PageID, data []byte) error {
	if t.closed {
		return fmt.Errorf("load page %v: %w", id, ErrClosed)
	}
	defer t.settle()
	rows, err := t.checkPage(id, data)
	if err != nil {
		return fmt.Errorf("load page %v: %w: the snapshot is damaged or belongs to another table", id, err)
	}
	p, number := &t.parts[id.Partition], int(id.Partition)
	begin := uint64(id.Page) * uint64(t.spec.PageRows())
	if len(rows) < t.spec.PageRows() {
		if err := t.cutTo(p, number, begin+uint64(len(rows))); err != nil {
			return err
		}
	}
	for i, r := range rows {
		h := vec.Mix64(r.key(), t.spec.HashSeed)
		if at := uint32(begin) + uint32(i); at < p.rows {
			err = t.replace(p, number, t.rowNumber(p, at), h, r)
		} else {
			err = t.append(p, number, h, r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// cutTo ends a partition after so many rows.
func (t *Table) cutTo(p *partition, number int, rows uint64) error {
	for uint64(p.rows) > rows {
		row := t.rowNumber(p, p.rows-1)
		if err := t.touch(row>>t.ushift, number); err != nil {
			return err
		}
		t.leave(p, row)
		if err := t.dropLast(p, number); err != nil {
			return err
		}
	}
	return nil
}

// leave takes a row that goes out of the index, where its key may be another row's by now.
func (t *Table) leave(p *partition, row uint32) {
	if p.dir != nil && !t.unindex(p, vec.Mix64(t.record(row).key(), t.spec.HashSeed), row) {
		t.strays--
	}
}

// replace puts a record where a row is.
func (t *Table) replace(p *partition, number int, row uint32, h uint64, r record) error {
	if err := t.touch(row>>t.ushift, number); err != nil {
		return err
	}
	if t.record(row).key() == r.key() {
		copy(t.record(row), r)
		return nil
	}
	t.leave(p, row)
	if old := t.find(h, r.key()); old != none && p.dir != nil {
		t.reindex(p, h, old, row) // from a place that is loaded later
		t.strays++
		copy(t.record(row), r)
		return nil
	}
	copy(t.record(row), r)
	return t.insert(h, row)
}

// append puts a record behind the last row.
func (t *Table) append(p *partition, number int, h uint64, r record) error {
	row, err := t.addRow(p, number)
	if err != nil {
		return err
	}
	copy(t.record(row), r)
	return t.insert(h, row)
}

// checkPage cuts data into records and proves that they may stand where id says.
func (t *Table) checkPage(id PageID, data []byte) ([]record, error) {
	if id.Partition >= Partitions {
		return nil, fmt.Errorf("partition %d of %d", id.Partition, Partitions)
	}
	if len(data) < 2 {
		return nil, fmt.Errorf("%d bytes", len(data))
	}
	count := int(binary.LittleEndian.Uint16(data))
	if count > t.spec.PageRows() || len(data) != 2+count*t.stride {
		return nil, fmt.Errorf("%d bytes for %d rows of %d bytes, at most %d rows", len(data), count, t.stride, t.spec.PageRows())
	}
	p := &t.parts[id.Partition]
	begin := uint64(id.Page) * uint64(t.spec.PageRows())
	have := uint64(p.rows)
	if begin > have && count > 0 {
		return nil, fmt.Errorf("the page before it is not full: the partition has %d rows", have)
	}
	rows := make([]record, count)
	for i := range rows {
		rows[i] = record(data[2+i*t.stride:][:t.stride:t.stride])
	}
	return rows, t.checkKeys(id, rows, begin)
}

// checkKeys: all of the partition, none twice, and none in a page before this one, which is as it will be.
func (t *Table) checkKeys(id PageID, rows []record, begin uint64) error {
	var seen [64]uint64
	keys := seen[:0]
	for i, r := range rows {
		key := r.key()
		h := vec.Mix64(key, t.spec.HashSeed)
		if h>>54 != uint64(id.Partition) {
			return fmt.Errorf("row %d: key %d belongs to partition %d", i, key, h>>54)
		}
		if row := t.find(h, key); row != none && uint64(t.place(row)) < begin {
			return fmt.Errorf("row %d: key %d is in the table already", i, key)
		}
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for i := 1; i < len(keys); i++ {
		if keys[i-1] == keys[i] {
			return fmt.Errorf("key %d occurs twice", keys[i])
		}
	}
	return nil
}

// place is a row's place in the order of its partition.
func (t *Table) place(row uint32) uint32 {
	return t.headOf(row>>t.ushift).ordinal<<t.ushift | row&(1<<t.ushift-1)
}

// errStrays says that a page is missing.
func (t *Table) errStrays() error {
	return fmt.Errorf("%d rows are in two places: a page of the last increment was not loaded", t.strays)
}
