package table

import "hcclps/internal/vec"

// Delete removes the rows of keys and returns how many there were: they are missing rows again. Keys come in any order; their order and the
// table's decide where rows lie afterwards, so replicas delete the same keys in the same order. The last row of the partition takes
// the place of one that goes. It is called like Apply, and Reserve counts three for each of its keys.
//
// It ends early when cold rows cannot be read (see Err): the table no longer equals its replicas then.
//
// A page that becomes empty is emitted once more by captures, without a row.
func (t *Table) Delete(keys []uint64) (n int) {
	if t.closed {
		return 0
	}
	defer t.settle()
	for _, key := range keys {
		h := vec.Mix64(key, t.spec.HashSeed)
		if row := t.find(h, key); row != none {
			if t.remove(h, row) != nil {
				return n
			}
			n++
		}
	}
	return n
}

// remove takes a row out and puts the last one of its partition in its place. h is the mix of its key.
func (t *Table) remove(h uint64, row uint32) error {
	number := int(h >> 54)
	p := &t.parts[number]
	last := t.rowNumber(p, p.rows-1)
	err := t.touch(row>>t.ushift, number)
	if err == nil {
		err = t.touch(last>>t.ushift, number)
	}
	if err != nil {
		return err
	}
	if p.dir != nil {
		t.unindex(p, h, row)
	}
	if last != row {
		r := t.record(last)
		copy(t.record(row), r)
		if p.dir != nil {
			t.reindex(p, vec.Mix64(r.key(), t.spec.HashSeed), last, row)
		}
	}
	return t.dropLast(p, number)
}

// dropLast makes a partition one row shorter. The row is not in the index, and its unit was touched.
func (t *Table) dropLast(p *partition, number int) error {
	p.rows--
	t.rows--
	if p.rows&(1<<t.ushift-1) != 0 {
		return nil
	}
	end := len(p.units) - 1
	t.freeUnit(p.units[end])
	p.units = p.units[:end]
	if end%pageUnits == 0 {
		p.pages, p.cut = max(p.pages, uint32(end/pageUnits)+1), t.epoch
		return nil
	}
	return t.touch(p.units[end-1], number) // the page has changed, and this is its last unit
}
