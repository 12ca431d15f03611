package shard

import (
	"errors"
	"fmt"

	"hcclps/ps/table"
	"hcclps/ps/update"
	"hcclps/ps/wire"
)

// ErrDiverged means that this replica's state differs from the leader's: it
// must stop, and be replaced.
var ErrDiverged = errors.New("replica has diverged")

// workspace is the memory in which entries are made ready. The goroutine that
// applies owns it.
type workspace struct{ reducer update.Reducer }

// prepared is an entry made ready to be applied: decoded, reduced and divided,
// which needs no state and thus no lock.
type prepared struct {
	entry wire.Entry
	rows  []table.Row // of a put
	bad   string      // not an entry, and why
	fault error       // of another version: this program must not go on
	err   error       // of a put: its rows are bad
	items []preparedItem
}

type preparedItem struct {
	update.Quotient
	err error
}

// prepare decodes an entry. What it returns is good until the next call.
func (w *workspace) prepare(entry []byte) prepared {
	e, err := wire.DecodeEntry(entry)
	if errors.Is(err, wire.ErrEntryVersion) {
		return prepared{fault: err}
	}
	if err != nil {
		return prepared{bad: clean(err.Error())}
	}
	w.reducer.Reset()
	p := prepared{entry: e, items: make([]preparedItem, len(e.Steps))}
	if m, ok := e.Message.(*wire.Put); ok {
		p.rows, p.err = update.RowsOf(m)
	}
	for i := range e.Steps {
		p.items[i] = w.prepareItem(&e.Steps[i])
	}
	return p
}

// sums is prepare of steps whose contributions are decoded, checked and added up already.
func (w *workspace) sums(e wire.Entry, sums [][]wire.Section) prepared {
	w.reducer.Reset()
	p := prepared{entry: e, items: make([]preparedItem, len(e.Steps))}
	for i := range e.Steps {
		it := &e.Steps[i]
		if it.Divisor != 0 && finiteRates(it) {
			p.items[i].Quotient, p.items[i].err = w.reducer.Divided(sums[i], it.Divisor, len(it.Contributors) == 1)
		}
	}
	return p
}

func (w *workspace) prepareItem(it *wire.Item) preparedItem {
	if n := len(it.Payloads); n != 1 && n != len(it.Contributors) {
		return preparedItem{err: fmt.Errorf("%d payloads of %d contributors", n, len(it.Contributors))}
	}
	if it.Divisor == 0 || !finiteRates(it) {
		return preparedItem{}
	}
	bodies := make([][]wire.Section, len(it.Payloads))
	for i, b := range it.Payloads {
		var err error
		if bodies[i], err = w.reducer.Sections(b); err != nil {
			return preparedItem{err: err}
		}
	}
	sum, err := w.reducer.Merge(bodies)
	if err != nil {
		return preparedItem{err: err}
	}
	q, err := w.reducer.Divided(sum, it.Divisor, false)
	return preparedItem{q, err}
}

// Apply applies one log entry and returns its answers: one for a message, one
// for each contributor of each item of steps in order, none for a check. A bad
// entry is answered, the same on every replica. An error is a fault of this
// replica alone (memory, divergence, an entry that another version of the program wrote): the state must not be used any more.
func (s *State) Apply(entry []byte, index, term uint64) ([]wire.Answer, error) {
	p := s.work.prepare(entry)
	return s.apply(&p, index, term)
}

func (s *State) apply(p *prepared, index, term uint64) ([]wire.Answer, error) {
	s.index, s.term = index, term
	s.entries++
	answers, err := s.dispatch(p)
	if err != nil {
		return nil, fmt.Errorf("apply entry %d: %w", index, err)
	}
	for i := range answers {
		if a := &answers[i]; !a.Duplicate {
			a.Term, a.Index = term, index
		}
		s.digest.answer(&answers[i])
	}
	if s.entries%checkEvery == 0 {
		s.marks = append(s.marks, wire.Check{Index: index, Digest: s.Digest()})
		if len(s.marks) > keepMarks {
			s.marks = append(s.marks[:0], s.marks[1:]...)
		}
	}
	return answers, nil
}

func (s *State) dispatch(p *prepared) ([]wire.Answer, error) {
	if p.fault != nil {
		return nil, p.fault
	}
	if p.bad != "" {
		return []wire.Answer{{Status: wire.Refused, Detail: p.bad}}, nil
	}
	switch m := p.entry.Message.(type) {
	case *wire.Fence:
		return []wire.Answer{s.fence(m)}, nil
	case *wire.Finish:
		return []wire.Answer{s.finish(m)}, nil
	case *wire.Hold:
		return []wire.Answer{s.hold(m)}, nil
	case *wire.Release:
		a, err := s.release(m)
		return []wire.Answer{a}, err
	case *wire.Put:
		a, err := s.put(m, p)
		return []wire.Answer{a}, err
	case *wire.Checkpoint:
		return []wire.Answer{s.goOn(m)}, nil
	case *wire.Restore:
		a, err := s.restore(m)
		return []wire.Answer{a}, err
	case *wire.Sweep:
		return []wire.Answer{s.sweepTime(m)}, nil
	}
	if p.entry.Check != nil {
		return nil, s.check(*p.entry.Check)
	}
	var answers []wire.Answer
	for i := range p.entry.Steps {
		a, err := s.item(&p.entry.Steps[i], &p.items[i])
		if err != nil {
			return nil, err
		}
		answers = append(answers, a...)
	}
	return answers, nil
}

// check compares the leader's digest with ours at the same entry.
func (s *State) check(c wire.Check) error {
	for _, m := range s.marks {
		if m.Index == c.Index && m.Digest != c.Digest {
			return fmt.Errorf("%w: digest of state at entry %d is %016x, the leader's %016x: stop this server, remove its data, and let it be replaced",
				ErrDiverged, c.Index, m.Digest, c.Digest)
		}
	}
	return nil
}
