package shard

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"hcclps/ps/optim"
	"hcclps/ps/wire"
)

// fork is a table of a checkpoint on its way into a job: nobody sees it before a PlanFork is in force, which all shards hold that have the
// whole of it.
type fork struct {
	Load  uint64
	Whole bool
	Tab   *tab // its Spec has no id yet
}

// tabs are the tables of a job, and those on their way into it.
func (j *job) tabs() []*tab {
	if len(j.Forks) == 0 {
		return j.Tables
	}
	out := slices.Clone(j.Tables)
	for _, f := range j.Forks {
		out = append(out, f.Tab)
	}
	return out
}

func (j *job) forkOf(load uint64) *fork {
	i := slices.IndexFunc(j.Forks, func(f *fork) bool { return f.Load == load })
	if i < 0 {
		return nil
	}
	return j.Forks[i]
}

// forksAlone says that the job is nothing but forks on their way, broken off, refused or given up: it may be restored.
func (j *job) forksAlone() bool {
	return j.Restore == 0 && j.Held == nil && len(j.Tables) == 0 && len(j.Workers) == 0
}

// dropForks gives up those that were to have a name. The error is a fault of this replica.
func (j *job) dropForks(name string) error {
	return j.closeForks(func(f *fork) bool { return f.Tab.Spec.Name == name })
}

func (j *job) closeForks(which func(*fork) bool) error {
	var errs []error
	j.Forks = slices.DeleteFunc(j.Forks, func(f *fork) bool {
		if !which(f) {
			return false
		}
		errs = append(errs, f.Tab.Close())
		return true
	})
	if len(j.Forks) == 0 {
		j.Forks = nil
	}
	return errors.Join(errs...)
}

// fork takes a piece of a table that comes into a job. The error is a fault of this replica.
func (s *State) fork(m *wire.Restore) (wire.Answer, error) {
	no := refusedFork(m)
	if m.Load == 0 || !wire.ValidName(m.Job) {
		return no("a fork needs a number and a job's name")
	}
	if j := s.jobs[m.Job]; j != nil && slices.ContainsFunc(j.Tables, func(t *tab) bool { return t.Fork == m.Load }) {
		a := j.answer(wire.OK, wire.RestoredWhole)
		a.Duplicate = true
		return a, nil
	}
	if m.Piece == wire.ForkTable {
		return s.beginFork(m)
	}
	j := s.jobs[m.Job]
	if j == nil || j.forkOf(m.Load) == nil {
		return no("its rows came before its description, or somebody has made a table of that name meanwhile")
	}
	f := j.forkOf(m.Load)
	s.digest.word(m.Load)
	s.digest.bytes(m.Data)
	if m.Piece == wire.ForkEnd {
		f.Whole = true
	} else if why := j.loadPages(f.Tab.Rows, m); why != "" {
		return no("%s", why)
	}
	return j.answer(wire.OK, ""), nil
}

// refusedFork says why a piece is refused.
func refusedFork(m *wire.Restore) func(format string, args ...any) (wire.Answer, error) {
	return func(format string, args ...any) (wire.Answer, error) {
		return wire.Answer{Status: wire.Refused, Detail: clean(fmt.Sprintf("fork into job %q: ", m.Job) + fmt.Sprintf(format, args...))}, nil
	}
}

// beginFork makes room for a table. Another fork that was to have its name is given up.
func (s *State) beginFork(m *wire.Restore) (wire.Answer, error) {
	no := refusedFork(m)
	var of wire.ForkedTable
	if err := json.Unmarshal(m.Data, &of); err != nil {
		return no("description of the table: %v", err)
	}
	j := s.jobs[m.Job]
	switch {
	case j == nil: // nobody has opened it
	case slices.ContainsFunc(j.Tables, func(t *tab) bool { return t.Spec.Name == of.Table.Name }):
		return no("it has a table %q already: give the copy another name", of.Table.Name)
	case j.forkOf(m.Load) != nil:
		a := j.answer(wire.OK, "")
		a.Duplicate = true
		return a, nil
	case j.Held != nil && j.Held.Kind == wire.PlanFork && j.Held.Table.Name == of.Table.Name:
		return no("another table %q is about to be made of a fork: give the copy another name", of.Table.Name)
	}
	of.Table.ID = 0
	t, err := newTab(of.Table, s.slots+1, s.cfg)
	if err != nil {
		return no("%v", err)
	}
	j = s.jobOf(m.Job)
	if err := j.dropForks(of.Table.Name); err != nil {
		return wire.Answer{}, err
	}
	s.slots += t.slots()
	t.Opt = optim.State(of.Rule)
	j.Forks = append(j.Forks, &fork{Load: m.Load, Tab: t})
	s.digest.word(m.Load)
	s.digest.bytes(m.Data)
	return j.answer(wire.OK, ""), nil
}

// badFork says why a fork cannot become a table, or nothing.
func (j *job) badFork(p *wire.Plan) string {
	if t := j.table(p.Table.ID); t != nil && t.Fork == p.Fork {
		return differs(t.Spec, p.Table)
	}
	f := j.forkOf(p.Fork)
	if f == nil || !f.Whole {
		return fmt.Sprintf("not all rows of table %q are here", p.Table.Name)
	}
	want := p.Table
	want.ID = 0
	return differs(f.Tab.Spec, want)
}

// adopt makes a fork a table of the job. The error is a fault of this replica.
func (j *job) adopt(p *wire.Plan) error {
	f := j.forkOf(p.Fork)
	switch t := j.table(p.Table.ID); {
	case t != nil && t.Fork == p.Fork:
		return nil // it is one
	case f == nil:
		return fmt.Errorf("make table %q of job %q of a fork: its rows are gone, though the plan was held", p.Table.Name, j.Name)
	}
	f.Tab.Spec.ID, f.Tab.Fork, f.Tab.Kept.Since = p.Table.ID, f.Load, p.T
	j.addTable(f.Tab)
	j.Forks = slices.DeleteFunc(j.Forks, func(o *fork) bool { return o == f })
	return j.dropForks(p.Table.Name)
}

// restoreForks makes what is not in a snapshot.
func (j *job) restoreForks(s *State) error {
	made := j.Forks
	j.Forks = nil
	for i, f := range made {
		if f == nil || f.Tab == nil || f.Tab.Table == nil || f.Load == 0 || f.Tab.Slot == 0 || f.Tab.Slot > s.slots {
			return fmt.Errorf("fork %d of %d is bad", i, len(made))
		}
		t, err := newTab(f.Tab.Spec, f.Tab.Slot, s.cfg)
		if err != nil {
			return err
		}
		t.Opt = f.Tab.Opt
		j.Forks = append(j.Forks, &fork{Load: f.Load, Whole: f.Whole, Tab: t})
		if t.SeenSlot > s.slots || f.Tab.SeenSlot != t.SeenSlot {
			return fmt.Errorf("table %q has the slots %d and %d", t.Spec.Name, t.Slot, t.SeenSlot)
		}
	}
	return nil
}

// Restamp makes the rows of a page as new as a step, and nobody's. The page is changed in place.
func Restamp(page []byte, stride int, step uint64) {
	const stepAt = 8
	for at := 2; at+stride <= len(page); at += stride {
		binary.LittleEndian.PutUint32(page[at+stepAt:], uint32(min(step, math.MaxUint32)))
		binary.LittleEndian.PutUint16(page[at+writerAt:], 0)
	}
}
