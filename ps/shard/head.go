package shard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"hcclps/ps/table"
	"hcclps/ps/wire"
)

// headVersion is the first byte of a snapshot's head:
//
//	u8 version | u8 length, id of the snapshot | headFields as JSON
const headVersion = 1

// headFields is State without rows.
type headFields struct {
	HashSeed uint64       `json:"hash_seed"`
	Entries  uint64       `json:"entries"`
	Index    uint64       `json:"index"`
	Term     uint64       `json:"term"`
	Digest   uint64       `json:"digest"`
	Slots    uint32       `json:"slots"`
	Writers  []string     `json:"writers,omitempty"`
	Marks    []wire.Check `json:"marks,omitempty"`
	Jobs     []*job       `json:"jobs,omitempty"`
}

// encode writes State without rows.
func (s *State) encode() ([]byte, error) {
	h := headFields{
		HashSeed: s.cfg.HashSeed, Entries: s.entries, Index: s.index, Term: s.term, Digest: s.Digest(),
		Slots: s.slots, Writers: s.writers, Marks: s.marks,
	}
	for _, name := range s.names() {
		j := s.jobs[name]
		if s.cfg.Bugs.DedupeNotInSnapshot {
			j = j.forget()
		}
		h.Jobs = append(h.Jobs, j)
	}
	b, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("encode state: %w", err)
	}
	return b, nil
}

// forget is a copy without the records that make pushes apply once: a planted
// bug.
func (j *job) forget() *job {
	c := *j
	c.Workers = nil
	for _, w := range j.Workers {
		v := *w
		v.Done, v.Parts = forgotten, 0
		c.Workers = append(c.Workers, &v)
	}
	return &c
}

// decodeState makes a state without rows from what encode wrote, checking it.
func decodeState(b []byte, cfg StateConfig) (*State, error) {
	var h headFields
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&h); err != nil {
		return nil, fmt.Errorf("decode state: byte %d: %w", d.InputOffset(), err)
	}
	if h.HashSeed != cfg.HashSeed {
		return nil, fmt.Errorf("decode state: hash seed %d, the cluster's is %d", h.HashSeed, cfg.HashSeed)
	}
	s := NewState(cfg)
	s.entries, s.index, s.term, s.digest = h.Entries, h.Index, h.Term, digest(h.Digest)
	s.slots, s.writers, s.marks = h.Slots, h.Writers, h.Marks
	for i, j := range h.Jobs {
		if j == nil || i > 0 && h.Jobs[i-1].Name >= j.Name {
			return nil, errors.Join(fmt.Errorf("decode state: job %d is out of order", i), s.Close())
		}
		if err := j.restore(s); err != nil {
			return nil, errors.Join(fmt.Errorf("decode state: job %q: %w", j.Name, err), s.Close())
		}
		s.jobs[j.Name] = j
	}
	return s, nil
}

// restore checks a decoded job and makes what is not in the snapshot.
func (j *job) restore(s *State) error {
	if !wire.ValidName(j.Name) || j.Params.Parts > wire.MaxParts || len(j.Workers) > 0 && (j.Params.Parts == 0 || j.Params.World == 0) {
		return fmt.Errorf("parameters %v", j.Params)
	}
	j.byName = map[string]*worker{}
	for i, w := range j.Workers {
		switch {
		case w == nil || !wire.ValidName(w.Name) || w.Rank >= j.Params.World || w.Session > expelled || int(w.Writer) > len(s.writers):
			return fmt.Errorf("worker %d of %d is bad", i, len(j.Workers))
		case i > 0 && (j.Workers[i-1].Rank > w.Rank || j.Workers[i-1].Rank == w.Rank && j.Workers[i-1].Name >= w.Name), j.byName[w.Name] != nil:
			return fmt.Errorf("worker %q is out of order", w.Name)
		}
		j.byName[w.Name] = w
	}
	made := j.Tables
	j.Tables = nil // those that are whole, for State.Close
	for i, t := range made {
		if t == nil || t.Table == nil || t.Slot == 0 || t.Slot > s.slots || i > 0 && made[i-1].Spec.ID >= t.Spec.ID {
			return fmt.Errorf("table %d of %d is bad", i, len(made))
		}
		n, err := newTab(t.Spec, t.Slot, s.cfg)
		if err != nil {
			return err
		}
		j.Tables = append(j.Tables, n)
		if t.SeenSlot != n.SeenSlot || n.SeenSlot > s.slots {
			return fmt.Errorf("table %q has the slots %d and %d", t.Spec.Name, t.Slot, t.SeenSlot)
		}
		if err := n.Restore(t.Opt, t.Kept); err != nil {
			return err
		}
		n.Fork = t.Fork
	}
	return j.restoreForks(s)
}

// Page ids: slot of the table, partition, page.
const (
	pageBits      = 22
	partitionBits = 10
)

// packPage makes the number of a page in a snapshot.
func packPage(slot uint32, id table.PageID) (uint64, error) {
	if id.Page >= 1<<pageBits {
		return 0, fmt.Errorf("page %v of table %d: over %d pages a partition", id, slot, 1<<pageBits)
	}
	return uint64(slot)<<(pageBits+partitionBits) | uint64(id.Partition)<<pageBits | uint64(id.Page), nil
}

func unpackPage(v uint64) (slot uint32, id table.PageID) {
	return uint32(v >> (pageBits + partitionBits)), table.PageID{
		Partition: uint16(v >> pageBits & (1<<partitionBits - 1)),
		Page:      uint32(v & (1<<pageBits - 1)),
	}
}

// loadPage restores one page of a table that nobody else knows yet, and makes room for the next. Rows that cannot go cold stay in memory.
func (s *State) loadPage(rows *table.Table, id table.PageID, data []byte) error {
	if err := rows.Load(id, data); err != nil || !rows.Tight() {
		return err
	}
	if err := rows.Cool(context.Background(), new(sync.RWMutex)); err != nil && !s.uncooled && s.cfg.Logger != nil {
		s.cfg.Logger.Warn("memory is short while a snapshot is loaded, and cold rows cannot leave it", "err", err)
		s.uncooled = true // once is enough, of many pages
	}
	return nil
}

// load restores one page.
func (s *State) load(page uint64, data []byte) error {
	slot, id := unpackPage(page)
	for _, name := range s.names() {
		for _, t := range storesOf(s.jobs[name].tabs()) {
			if t.slot == slot {
				return s.loadPage(t.rows, id, data)
			}
		}
	}
	return fmt.Errorf("load page %v: table slot %d does not exist", id, slot)
}
