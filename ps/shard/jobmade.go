package shard

import (
	"encoding/json"
	"fmt"

	"hcclps/checkpoint"
	"hcclps/ps/optim"
	"hcclps/ps/update"
	"hcclps/ps/wire"
)

// MakeHead makes the state of a job that was trained without servers, of what its
// checkpoint says: it is what MergeHeads takes, as if one shard had had all of it.
func MakeHead(m *checkpoint.Manifest, of wire.JobState) ([]byte, error) {
	j := &job{
		Name: m.Job, Params: of.Params, Begun: true, Clock: m.Step, Stop: wire.Infinity, Applied: of.Applied,
		Loading: of.Loaded, Loaded: of.Loaded != 0,
	}
	for _, r := range of.Rates {
		j.Rates = append(j.Rates, rateFrom(r))
	}
	for _, w := range m.Workers {
		j.Workers = append(j.Workers, &worker{Name: w.Name, Rank: w.Rank, Incarnation: w.Incarnation, Done: w.Clock, Cursor: w.Cursor})
	}
	seen := map[uint32]bool{}
	for _, t := range m.Tables {
		seen[t.ID] = wire.IsSeen(t.ID)
	}
	for i, t := range m.Tables {
		if wire.IsSeen(t.ID) {
			continue
		}
		made := &tab{Table: &update.Table{}, Slot: uint32(i + 1)}
		var state struct {
			wire.RuleState
			Kept update.Kept `json:"kept"`
		}
		err := json.Unmarshal(t.Schema, &made.Spec)
		if err == nil {
			err = json.Unmarshal(t.State, &state)
		}
		if err != nil {
			return nil, fmt.Errorf("table %q: %w", t.Name, err)
		}
		if made.Opt, made.Kept = optim.State(state.RuleState), state.Kept; seen[wire.SeenTable(t.ID)] {
			made.SeenSlot = uint32(len(m.Tables) + i + 1)
		}
		j.Tables = append(j.Tables, made)
	}
	b, err := json.Marshal(head{Version: jobHeadVersion, HashSeed: m.HashSeed, Job: j})
	if err != nil {
		return nil, fmt.Errorf("encode state of job %q: %w", m.Job, err)
	}
	return b, nil
}
