package worker

import (
	"time"

	"hcclps/ps/table"
	"hcclps/ps/update"
	"hcclps/ps/wire"
)

// heldRows is the rows of a table, or what its admission remembers.
type heldRows struct {
	id   uint32 // in checkpoints
	name string
	rows *table.Table
}

// heldState is what a checkpoint has of a table beside rows. As JSON.
type heldState struct {
	wire.RuleState
	Kept update.Kept `json:"kept,omitzero"`
}

// stores lists the rows of all tables, by ascending id.
func (r *replica) stores() []heldRows {
	var out []heldRows
	for _, t := range r.tables {
		out = append(out, t.stores()[0])
	}
	for _, t := range r.tables {
		out = append(out, t.stores()[1:]...)
	}
	return out
}

func (t *held) stores() []heldRows {
	out := []heldRows{{t.Spec.ID, t.Spec.Name, t.Rows}}
	if t.Seen != nil {
		out = append(out, heldRows{wire.SeenTable(t.Spec.ID), t.Spec.Name + wire.SeenName, t.Seen})
	}
	return out
}

// sweepRounds is how many steps pass until all partitions were looked at for rows that outlived their time.
const sweepRounds = 64

// sweep evicts after a step, as a shard does. Time is what rank 0 has said, since all workers must do the same.
func (r *replica) sweep(clock uint64, seconds uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.tables {
		if !t.Evicts() {
			continue
		}
		t.Sweep(clock, clock)
		const width = table.Partitions / sweepRounds
		first := int(clock%sweepRounds) * width
		t.SweepTime(uint64(seconds)*uint64(time.Second), clock, first, first+width)
	}
}
