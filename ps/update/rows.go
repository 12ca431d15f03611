package update

import (
	"fmt"

	"hcclps/internal/vec"
	"hcclps/ps/table"
	"hcclps/ps/wire"
)

// RowsOf decodes the rows of a put and checks them. Who wrote them and when belongs to
// the job they come from, and is left out.
func RowsOf(m *wire.Put) ([]table.Row, error) {
	in, err := wire.DecodeRows(m.Rows)
	if err != nil {
		return nil, err
	}
	for _, v := range m.Rule.Pow {
		if !(v >= 0 && v <= 1) {
			return nil, fmt.Errorf("a power of its optimizer is %v", v)
		}
	}
	rows := make([]table.Row, len(in))
	for i, r := range in {
		if i > 0 && in[i-1].Key >= r.Key {
			return nil, fmt.Errorf("key %d after key %d", r.Key, in[i-1].Key)
		}
		if bad := vec.NonFinite(r.Values); bad >= 0 {
			return nil, fmt.Errorf("key %d: value %d is %v", r.Key, bad, r.Values[bad])
		}
		rows[i] = table.Row{Key: r.Key, Sightings: r.Sightings, Values: r.Values}
	}
	return rows, nil
}

// Put writes rows as they are. The error is a refusal (ErrUnfit) or the end of memory.
func (t *Table) Put(rows []table.Row) error {
	want := t.Width()
	for _, r := range rows {
		if len(r.Values) != want {
			return refusal{fmt.Sprintf("table %q: key %d has %d values, want %d: weights and optimizer slots", t.Spec.Name, r.Key, len(r.Values), want), ErrUnfit}
		}
	}
	return t.Rows.Put(rows)
}
