package shard

import (
	"errors"
	"fmt"

	"hcclps/ps/optim"
	"hcclps/ps/update"
	"hcclps/ps/wire"
)

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
		if err := t.Put(p.rows); errors.Is(err, update.ErrUnfit) {
			return no("%v", err)
		} else if err != nil {
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
