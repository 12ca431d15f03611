package shard

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"hcclps/ps/optim"
	"hcclps/ps/table"
	"hcclps/ps/wire"
)

// tab is a table and its optimizer in this shard.
type tab struct {
	Spec wire.Table
	Slot uint32 // order of creation in this shard, from 1
	Opt  optim.State
	rule optim.Rule
	rows *table.Table
}

// maxDim bounds the width of a row.
const maxDim = 1 << 16

// newTab makes an empty table.
func newTab(spec wire.Table, slot uint32, cfg StateConfig) (*tab, error) {
	if !wire.ValidName(spec.Name) {
		return nil, fmt.Errorf("table %d: want a name (UTF-8, 1 to %d bytes)", spec.ID, maxName)
	}
	if spec.Dim == 0 || spec.Dim > maxDim {
		return nil, fmt.Errorf("table %q: %d values a row: want 1 to %d", spec.Name, spec.Dim, maxDim)
	}
	switch spec.NonFinite {
	case policyReject, policyZero, policyClip:
	default:
		return nil, fmt.Errorf("table %q: policy %q for gradients that are not finite: want %s, %s or %s", spec.Name, spec.NonFinite, policyReject, policyZero, policyClip)
	}
	if err := spec.Schedule.Validate(); err != nil {
		return nil, fmt.Errorf("table %q: %w", spec.Name, err)
	}
	rule, err := optim.New(optim.Config{Name: spec.Optimizer, Params: spec.Params})
	if err != nil {
		return nil, fmt.Errorf("table %q: %w", spec.Name, err)
	}
	ini, err := initOf(spec.Init, spec.InitParams)
	if err != nil {
		return nil, fmt.Errorf("table %q: %w", spec.Name, err)
	}
	dim := int(spec.Dim)
	rows, err := table.New(table.Spec{
		Dim: dim, Slots: rule.Slots(dim), SlotInit: rule.SlotInit(dim),
		Init: ini, Seed: spec.Seed, HashSeed: cfg.HashSeed, Budget: cfg.CopyBudget,
	})
	if err != nil {
		return nil, fmt.Errorf("table %q: %w", spec.Name, err)
	}
	return &tab{Spec: spec, Slot: slot, rule: rule, rows: rows}, nil
}

// initOf reads the parameters of an initializer: constant: value; uniform: low,
// high; normal and truncnormal: mean, std; the xavier and he kinds: fan_in,
// fan_out.
func initOf(kind string, params map[string]float64) (table.Init, error) {
	ini := table.Init{Kind: kind}
	for _, name := range slices.Sorted(maps.Keys(params)) {
		v := params[name]
		switch {
		case name == "value" && kind == "constant", name == "low" && kind == "uniform", name == "mean" && (kind == "normal" || kind == "truncnormal"):
			ini.A = float32(v)
		case name == "high" && kind == "uniform", name == "std" && (kind == "normal" || kind == "truncnormal"):
			ini.B = float32(v)
		case (name == "fan_in" || name == "fan_out") && v >= 0 && v <= 1<<31:
			if name == "fan_in" {
				ini.FanIn = int(v)
			} else {
				ini.FanOut = int(v)
			}
		default:
			return ini, fmt.Errorf("initializer %q has no parameter %q that can be %v", kind, name, v)
		}
	}
	return ini, nil
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
