package update

import (
	"hcclps/ps/optim"
	"hcclps/ps/wire"
)

// WantsMomentum says whether the next step of the table is of a momentum in the place of a gradient.
func (t *Table) WantsMomentum() bool {
	rule, ok := t.rule.(optim.MomentumRule)
	return ok && !rule.Warm(&t.Opt)
}

// Momentum makes of gradients of rows parts of a momentum, in place, as optim.MomentumRule says; the last row may be short. The table wants one.
func (t *Table) Momentum(s wire.Section, share, scale float64) {
	rule, ok := t.rule.(optim.MomentumRule)
	if !ok {
		return
	}
	spec := t.Rows.Spec()
	row := make([]float32, spec.Dim+spec.Slots)
	for i, key := range s.Keys {
		if _, there := t.Rows.RowInto(row, key); !there {
			t.Rows.Gather(s.Keys[i:i+1], row[:spec.Dim])
			copy(row[spec.Dim:], spec.SlotInit)
		}
		first := i * s.Dim
		rule.Momentum(row, s.Values[first:min(first+s.Dim, len(s.Values))], share, scale)
	}
}
