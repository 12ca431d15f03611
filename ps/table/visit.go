package table

// RowsIn is the number of rows of a partition.
func (t *Table) RowsIn(partition int) int { return int(t.parts[partition].rows) }

// Room is how many rows can be made without more memory, wherever they fall, but for the index.
func (t *Table) Room() int { return t.units.room() }

// Visit shows every row of a partition, in its order of arrival. Values are in place: they must not be changed, nor kept beyond visit. It is
// called like Scan, reads cold rows as Scan does, and looks at one partition alone.
func (t *Table) Visit(partition int, visit func(Row)) {
	p := &t.parts[partition]
	if t.Spills() {
		rows := make([]keyRow, p.rows)
		for i := range rows {
			rows[i].row = t.rowNumber(p, uint32(i))
		}
		t.scanCold(rows, func(r Row) bool {
			visit(r)
			return true
		})
		return
	}
	for i := range p.rows {
		visit(t.record(t.rowNumber(p, i)).row())
	}
}

// Missing appends to dst the places in keys of those that have no row. It is called like Gather.
func (t *Table) Missing(keys []uint64, dst []int32) []int32 {
	var w lookup
	for done := 0; done < len(keys); done += window {
		now := keys[done:min(done+window, len(keys))]
		t.locate(&w, now, false)
		for i, row := range w.rows[:len(now)] {
			if row == none {
				dst = append(dst, int32(done+i))
			}
		}
	}
	return dst
}
