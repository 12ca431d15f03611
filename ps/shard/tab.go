package shard

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	"hcclps/ps/update"
	"hcclps/ps/wire"
)

// tab is a table in this shard.
type tab struct {
	*update.Table
	Slot uint32 // order of creation in this shard, from 1
}

// newTab makes an empty table.
func newTab(spec wire.Table, slot uint32, cfg StateConfig) (*tab, error) {
	t, err := update.New(spec, update.Config{HashSeed: cfg.HashSeed, Budget: cfg.CopyBudget})
	if err != nil {
		return nil, err
	}
	return &tab{t, slot}, nil
}

// differs says how two descriptions of a table differ, or nothing.
func differs(have, want wire.Table) string {
	if reflect.DeepEqual(have, want) {
		return ""
	}
	return fmt.Sprintf("table %d is %+v, not %+v", have.ID, have, want)
}

func (j *job) addTable(t *tab) {
	i, _ := slices.BinarySearchFunc(j.Tables, t, func(a, b *tab) int { return cmp.Compare(a.Spec.ID, b.Spec.ID) })
	j.Tables = slices.Insert(j.Tables, i, t)
}
