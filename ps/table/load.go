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
// version of itself: the same keys first, then rows that have arrived since. So a full snapshot and then its increments in order restore the last.
// A page that cannot be is refused and leaves the table as it was.
func (t *Table) Load(id PageID, data []byte) error {
	if t.closed {
		return fmt.Errorf("load page %v: %w", id, ErrClosed)
	}
	defer t.settle()
	rows, err := t.checkPage(id, data)
	if err != nil {
		return fmt.Errorf("load page %v: %w: the snapshot is damaged or belongs to another table", id, err)
	}
	p := &t.parts[id.Partition]
	begin := id.Page * uint32(t.spec.PageRows())
	for i, r := range rows {
		if at := begin + uint32(i); at < p.rows {
			row := t.rowNumber(p, at)
			t.touch(row>>t.ushift, int(id.Partition))
			copy(t.record(row), r)
			continue
		}
		row, err := t.addRow(p, int(id.Partition))
		if err != nil {
			return err
		}
		copy(t.record(row), r)
		if err := t.insert(vec.Mix64(r.key(), t.spec.HashSeed), row); err != nil {
			return err
		}
	}
	return nil
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
	if count < 1 || count > t.spec.PageRows() || len(data) != 2+count*t.stride {
		return nil, fmt.Errorf("%d bytes for %d rows of %d bytes, at most %d rows", len(data), count, t.stride, t.spec.PageRows())
	}
	p := &t.parts[id.Partition]
	begin := uint64(id.Page) * uint64(t.spec.PageRows())
	have := uint64(p.rows)
	if begin > have {
		return nil, fmt.Errorf("the page before it is not full: the partition has %d rows", have)
	}
	if begin+uint64(count) < have && (count < t.spec.PageRows()) {
		return nil, fmt.Errorf("%d rows replace %d", count, have-begin)
	}
	rows := make([]record, count)
	for i := range rows {
		rows[i] = record(data[2+i*t.stride:][:t.stride:t.stride])
	}
	return rows, t.checkKeys(id, rows, begin, have)
}

// checkKeys: all of the partition, none twice, and each where it was before.
func (t *Table) checkKeys(id PageID, rows []record, begin, have uint64) error {
	p := &t.parts[id.Partition]
	var seen [64]uint64
	keys := seen[:0]
	for i, r := range rows {
		key := r.key()
		h := vec.Mix64(key, t.spec.HashSeed)
		if h>>54 != uint64(id.Partition) {
			return fmt.Errorf("row %d: key %d belongs to partition %d", i, key, h>>54)
		}
		if at := begin + uint64(i); at < have {
			if old := t.record(t.rowNumber(p, uint32(at))).key(); old != key {
				return fmt.Errorf("row %d: key %d replaces key %d", i, key, old)
			}
		} else if t.find(h, key) != none {
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
