package table

import "slices"

// keyRow is a key and the number of its row.
type keyRow struct {
	key uint64
	row uint32
}

// Scan visits rows in ascending key: those above after, or with first set all, at most limit of them (0 means no limit), until visit
// returns false. Values are in place: they must not be changed, nor kept beyond visit. A call looks at every key of the table and
// holds 32 bytes for each row it visits, so a walk in pieces wants large ones. Cold rows are read, and stay cold; where they cannot be,
// the scan ends early (see Err). Scans may run concurrently under the owner's read lock.
func (t *Table) Scan(after uint64, first bool, limit int, visit func(Row) bool) {
	if limit <= 0 || int64(limit) > t.rows {
		limit = int(t.rows)
	}
	rows := t.lowest(after, first, limit)
	if t.Spills() {
		t.scanCold(rows, visit)
		return
	}
	for _, k := range rows {
		if !visit(t.record(k.row).row()) {
			return
		}
	}
}

// scanCold visits rows of which some may be cold, a few at a time.
func (t *Table) scanCold(rows []keyRow, visit func(Row) bool) {
	copies := make([]byte, min(len(rows), warmUnits)*t.stride)
	records := make([]record, warmUnits)
	var cold []coldRow
	for len(rows) > 0 {
		now := rows[:min(len(rows), warmUnits)]
		rows = rows[len(now):]
		cold = cold[:0]
		for i, k := range now {
			if records[i] = t.record(k.row); t.isCold(k.row) {
				cold = append(cold, coldRow{k.row, i})
				records[i] = copies[i*t.stride:][:t.stride:t.stride]
			}
		}
		if t.readCold(cold, func(r coldRow, rec record) bool { copy(records[r.at], rec); return true }) != nil {
			return
		}
		for _, r := range records[:len(now)] {
			if !visit(r.row()) {
				return
			}
		}
	}
}

// lowest returns the limit smallest keys above after, ascending: it collects twice as many, keeps the lower half, and goes on.
func (t *Table) lowest(after uint64, first bool, limit int) []keyRow {
	var found []keyRow
	ceiling := ^uint64(0)
	cut := func() {
		slices.SortFunc(found, func(a, b keyRow) int {
			if a.key < b.key {
				return -1
			}
			return 1
		})
		if len(found) > limit {
			found = found[:limit]
		}
		if len(found) == limit && limit > 0 {
			ceiling = found[limit-1].key
		}
	}
	for i := range t.parts {
		p := &t.parts[i]
		for r := range p.rows {
			row := t.rowNumber(p, r)
			key := t.record(row).key()
			if key > ceiling || !first && key <= after {
				continue
			}
			if found = append(found, keyRow{key, row}); len(found) >= 2*limit {
				cut()
			}
		}
	}
	cut()
	return found
}
