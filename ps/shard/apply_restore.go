package shard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"hcclps/ps/layout"
	"hcclps/ps/table"
	"hcclps/ps/wire"
)

// restore takes a piece of a job as a checkpoint has it. The error is a fault of
// this replica.
func (s *State) restore(m *wire.Restore) (wire.Answer, error) {
	if m.Piece >= wire.ForkTable {
		return s.fork(m)
	}
	j := s.jobs[m.Job]
	no := func(format string, args ...any) (wire.Answer, error) {
		return wire.Answer{Status: wire.Refused, Detail: clean(fmt.Sprintf("restore job %q: ", m.Job) + fmt.Sprintf(format, args...))}, nil
	}
	switch {
	case m.Load == 0 || !wire.ValidName(m.Job):
		return no("a restore needs a number and a job's name")
	case j != nil && j.Restore == m.Load && (j.Restored || m.Piece == wire.RestoreHead):
		a := j.answer(wire.OK, "")
		if a.Duplicate = true; j.Restored {
			a.Detail = wire.RestoredWhole
		}
		return a, nil
	case j != nil && j.Restore != m.Load && !j.forksAlone():
		return no("it is here already, at step %d: restore into a cluster that does not know it, or under another name", j.Clock)
	case (j == nil || j.Restore != m.Load) && m.Piece != wire.RestoreHead:
		return no("its rows came before its state")
	}
	s.digest.word(m.Load)
	s.digest.bytes(m.Data)
	switch m.Piece {
	case wire.RestoreHead:
		if err := s.restoreHead(m); err != nil {
			return no("%v", err)
		}
		if j != nil { // forks that were broken off
			if err := j.closeForks(func(*fork) bool { return true }); err != nil {
				return wire.Answer{}, err
			}
		}
		j = s.jobs[m.Job]
	case wire.RestorePages:
		if why := j.restorePages(m); why != "" {
			return no("%s", why)
		}
	case wire.RestoreEnd:
		j.Restored = true
	case wire.ForkTable, wire.ForkPages, wire.ForkEnd: // of fork
	}
	return j.answer(wire.OK, ""), nil
}

// restoreHead makes the job and its tables, empty.
func (s *State) restoreHead(m *wire.Restore) error {
	h, err := decodeHead(m.Data)
	if err != nil {
		return err
	}
	j := h.Job
	if h.HashSeed != s.cfg.HashSeed || j.Name != m.Job {
		return fmt.Errorf("the state is of job %q with hash seed %d, the cluster's is %d", j.Name, h.HashSeed, s.cfg.HashSeed)
	}
	if len(s.writers)+len(h.Writers) > 1<<16-1 {
		return fmt.Errorf("%d writers of rows, and %d are known here already: 65535 can be told apart", len(h.Writers), len(s.writers))
	}
	j.Forks = nil
	slots, from := s.slots, uint16(len(s.writers))
	for _, t := range j.Tables {
		s.slots++
		if t.Slot = s.slots; t.SeenSlot != 0 {
			s.slots++
			t.SeenSlot = s.slots
		}
	}
	s.writers = append(s.writers, h.Writers...)
	for _, w := range j.Workers {
		if w.Writer != 0 {
			w.Writer += from
		}
	}
	if err := j.restore(s); err != nil {
		s.slots, s.writers = slots, s.writers[:from]
		for _, t := range j.Tables { // those that were made
			err = errors.Join(err, t.Close())
		}
		return err
	}
	j.Cut, j.Held, j.Last = nil, nil, planEnd{}
	j.Restore, j.Restored, j.Writers = m.Load, false, from
	s.jobs[j.Name] = j
	return nil
}

// restorePages puts pages in their place.
func (j *job) restorePages(m *wire.Restore) (why string) {
	stores := j.stores()
	at := slices.IndexFunc(stores, func(t store) bool { return t.id == m.Table })
	if at < 0 {
		return fmt.Sprintf("table %d does not exist", m.Table)
	}
	return j.loadPages(stores[at].rows, m)
}

func (j *job) loadPages(rows *table.Table, m *wire.Restore) (why string) {
	pages, err := wire.DecodePages(m.Data)
	if err != nil {
		return err.Error()
	}
	for _, p := range pages {
		data := p.Data
		if j.Writers != 0 && m.Piece == wire.RestorePages {
			data = renumbered(data, rows.Spec().Stride(), func(n uint16) uint16 { return n + j.Writers })
		}
		if err := rows.Load(table.PageID{Partition: p.Partition, Page: p.Page}, data); err != nil {
			return fmt.Sprintf("table %d: %v", m.Table, err)
		}
	}
	return ""
}

// RowHead is the size of a row's head in a page; the values follow.
const RowHead = 16

// writerAt is where a record has the number of its writer.
const writerAt = 14

// renumbered is a page whose rows have other numbers of writers.
func renumbered(page []byte, stride int, number func(uint16) uint16) []byte {
	out := append([]byte(nil), page...)
	for at := 2 + writerAt; at+2 <= len(out); at += stride {
		if n := binary.LittleEndian.Uint16(out[at:]); n != 0 {
			binary.LittleEndian.PutUint16(out[at:], number(n))
		}
	}
	return out
}

// Renumber gives the rows of a page of a checkpoint the numbers that their
// writers have in a Merged: numbers is that of the shard it comes from. The page is changed in place.
func Renumber(page []byte, stride int, numbers []uint16) {
	for at := 2 + writerAt; at+2 <= len(page); at += stride {
		n := binary.LittleEndian.Uint16(page[at:])
		if int(n) < len(numbers) {
			n = numbers[n]
		} else {
			n = 0
		}
		binary.LittleEndian.PutUint16(page[at:], n)
	}
}

// strayPage finds a page of another shard, which apply cannot tell.
func (g *Group) strayPage(pages []wire.Page) error {
	shards := len(g.cfg.Layout().Shards)
	for _, p := range pages {
		if int(p.Partition) >= layout.Partitions || layout.GroupOf(int(layout.ShardOf(int(p.Partition), shards))) != g.cfg.Group {
			return fmt.Errorf("a page of partition %d came to %s", p.Partition, layout.GroupName(g.cfg.Group))
		}
	}
	return nil
}
