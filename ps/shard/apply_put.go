package shard

import (
	"fmt"

	"hcclps/internal/vec"
	"hcclps/ps/optim"
	"hcclps/ps/table"
	"hcclps/ps/wire"
)

// putRows decodes the rows of a put. Who wrote them and when belongs to the job
// they come from.
func putRows(m *wire.Put) ([]table.Row, error) {
	in, err := wire.DecodeRows(m.Rows)
	if err != nil {
		return nil, err
	}
	rows := make([]table.Row, len(in))
	for _, v := range m.Rule.Pow {
		if !(v >= 0 && v <= 1) {
			return nil, fmt.Errorf("a power of its optimizer is %v", v)
		}
	}
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

// put writes rows of a load. The error is a fault of this replica.
func (s *State) put(m *wire.Put, p *prepared) (wire.Answer, error) {
	a := s.session(m.Job, m.Worker, m.Incarnation)
	if a.answer.Status != wire.OK {
		return a.answer, nil
	}
	j, w := a.job, a.worker
	no := func(format string, args ...any) (wire.Answer, error) {
		return w.answer(j, wire.Refused, clean(fmt.Sprintf("load into job %q: ", j.Name)+fmt.Sprintf(format, args...))), nil
	}
	if m.Load != 0 && j.Loading == m.Load && j.Loaded {
		stored := w.answer(j, wire.OK, "")
		stored.Duplicate = true
		return stored, nil
	}
	t := j.table(m.Table)
	switch {
	case m.Load == 0:
		return no("it has no id")
	case !j.untouched():
		return no("its clock is %d: parameters are loaded before the first step", j.Clock)
	case j.Loading != 0 && j.Loading != m.Load:
		return no("another load (%016x) has begun here, this is %016x: use a new job", j.Loading, m.Load)
	case p.err != nil:
		return no("table %d: %v", m.Table, p.err)
	case t == nil && (len(p.rows) > 0 || m.Rule.Steps > 0):
		return no("table %d does not exist", m.Table)
	}
	if len(p.rows) > 0 {
		if want := t.width(); len(p.rows[0].Values) != want || !sameWidth(p.rows) {
			return no("table %q: key %d has %d values, want %d: weights and optimizer slots", t.Spec.Name, p.rows[0].Key, len(p.rows[0].Values), want)
		}
		if err := t.rows.Put(p.rows); err != nil {
			return wire.Answer{}, fmt.Errorf("load table %q of job %q: %w", t.Spec.Name, j.Name, err)
		}
		s.digest.word(uint64(t.Slot))
		s.digest.bytes(m.Rows)
	}
	if m.Rule.Steps > 0 {
		t.Opt = optim.State(m.Rule)
		s.digest.word(m.Rule.Steps)
	}
	j.Loading, j.Loaded = m.Load, m.Complete
	return w.answer(j, wire.OK, ""), nil
}

// width is the number of values of a row: weights and optimizer slots.
func (t *tab) width() int {
	spec := t.rows.Spec()
	return spec.Dim + spec.Slots
}

func sameWidth(rows []table.Row) bool {
	for _, r := range rows[1:] {
		if len(r.Values) != len(rows[0].Values) {
			return false
		}
	}
	return true
}
