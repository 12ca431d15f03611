package shard

import (
	"cmp"
	"fmt"
	"slices"

	"hcclps/ps/table"
	"hcclps/ps/update"
	"hcclps/ps/wire"
)

// tab is a table in this shard.
type tab struct {
	*update.Table
	Slot uint32 // order of creation in this shard, from 1
	// SeenSlot is that of what the admission of keys remembers; 0: nothing.
	SeenSlot uint32 `json:",omitzero"`
	// Fork is what the rows came by that it began with; 0: it began empty.
	Fork uint64 `json:",omitzero"`
}

// newTab makes an empty table.
func newTab(spec wire.Table, slot uint32, cfg StateConfig) (*tab, error) {
	t, err := update.New(spec, update.Config{HashSeed: cfg.HashSeed, Budget: cfg.CopyBudget, Memory: cfg.Memory, Cold: cfg.Cold})
	if err != nil {
		return nil, err
	}
	made := &tab{Table: t, Slot: slot}
	if t.Seen != nil {
		made.SeenSlot = slot + 1
	}
	return made, nil
}

// slots is how many places in snapshots the table has.
func (t *tab) slots() uint32 {
	if t.Seen != nil {
		return 2
	}
	return 1
}

// store is rows that have a place of their own in snapshots and checkpoints.
type store struct {
	slot uint32 // in snapshots
	id   uint32 // in checkpoints
	rows *table.Table
}

// stores lists the rows of a table, and what its admission remembers.
func (t *tab) stores() []store { return storesOf([]*tab{t}) }

// stores lists those of all tables, by ascending id.
func (j *job) stores() []store { return storesOf(j.Tables) }

func storesOf(tabs []*tab) []store {
	var out []store
	for _, t := range tabs {
		out = append(out, store{t.Slot, t.Spec.ID, t.Rows})
	}
	for _, t := range tabs {
		if t.Seen != nil {
			out = append(out, store{t.SeenSlot, wire.SeenTable(t.Spec.ID), t.Seen})
		}
	}
	return out
}

// differs says how two descriptions of a table differ, or nothing.
func differs(have, want wire.Table) string {
	if have.Same(&want) {
		return ""
	}
	return fmt.Sprintf("table %d is %+v, not %+v", have.ID, have, want)
}

func (j *job) addTable(t *tab) {
	i, _ := slices.BinarySearchFunc(j.Tables, t, func(a, b *tab) int { return cmp.Compare(a.Spec.ID, b.Spec.ID) })
	j.Tables = slices.Insert(j.Tables, i, t)
}
