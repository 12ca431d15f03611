package meta

import (
	"encoding/json"
	"fmt"

	"hcclps/checkpoint"
	"hcclps/ps/wire"
)

// MakeJob makes this group's part of a job that was trained without servers, of what
// its checkpoint says: what JobBlob holds in others.
func MakeJob(m *checkpoint.Manifest, of wire.JobState) ([]byte, error) {
	j := &job{Params: of.Params}
	for _, w := range m.Workers {
		j.Workers = append(j.Workers, worker{Name: w.Name, Rank: w.Rank, Incarnation: w.Incarnation, Owner: "restored", State: sessionOpen})
	}
	for _, t := range m.Tables {
		if wire.IsSeen(t.ID) {
			continue
		}
		var spec wire.Table
		if err := json.Unmarshal(t.Schema, &spec); err != nil {
			return nil, fmt.Errorf("table %q: %w", t.Name, err)
		}
		if j.Tables = append(j.Tables, spec); spec.ID != uint32(len(j.Tables)) {
			return nil, fmt.Errorf("table %q has the number %d, want %d", t.Name, spec.ID, len(j.Tables))
		}
	}
	return encodeJob(j)
}
