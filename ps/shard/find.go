package shard

import (
	"context"
	"fmt"

	"hcclps/ps/wire"
)

// find answers one row, as of some moment after the request arrived.
func (g *Group) find(ctx context.Context, m *wire.Find) (wire.Answer, []byte) {
	if !g.IsLeader() || g.fresh.wait(ctx) != nil {
		return g.elsewhere(), nil
	}
	if err := g.checkKeys([]wire.Section{{Table: m.Table, Keys: []uint64{m.Key}}}); err != nil {
		return wire.Answer{Status: wire.Refused, Detail: err.Error()}, nil
	}
	g.mu.RLock()
	defer g.mu.RUnlock()
	j := g.state.jobs[m.Job]
	if j == nil || g.ended {
		return wire.Answer{Status: wire.Unknown, Detail: fmt.Sprintf("job %q is unknown here", m.Job)}, nil
	}
	t := j.table(m.Table)
	if t == nil {
		return j.answer(wire.Refused, fmt.Sprintf("table %d of job %q does not exist here", m.Table, m.Job)), nil
	}
	return j.answer(wire.OK, ""), wire.AppendFound(nil, g.state.found(j, t, m.Key))
}

// found is the row of a key, or what stands for it.
func (s *State) found(j *job, t *tab, key uint64) wire.Found {
	f := wire.Found{Clock: j.Clock}
	r, ok := t.Rows.Row(key)
	if !ok {
		r.Values = make([]float32, t.Spec.Dim)
		t.Rows.Gather([]uint64{key}, r.Values)
		r.Sightings = uint16(min(t.Sightings(key), 1<<16-1))
	}
	f.There, f.Row = ok, wire.Row{Key: key, Step: r.Step, Sightings: r.Sightings, Writer: r.Writer, Values: r.Values}
	if n := int(r.Writer); n > 0 && n <= len(s.writers) {
		f.Writer = s.writers[n-1]
	}
	return f
}

// status is a table for people.
func (t *tab) status() wire.TableStatus {
	rows := t.Rows.Stats()
	st := wire.TableStatus{
		ID: t.Spec.ID, Name: t.Spec.Name, Dim: t.Spec.Dim, Shape: t.Spec.Shape, Admit: t.Spec.Admit.String(), Evict: t.Spec.Evict.String(),
		Rows: rows.Rows, Bytes: rows.Bytes, ColdRows: rows.Cold.Rows, ColdBytes: rows.Cold.Bytes, Looked: rows.Cold.Looked, Misses: rows.Cold.Misses,
		Admitted: uint64(rows.Rows) + t.Kept.Evicted, Refused: t.Kept.Refused, Evicted: t.Kept.Evicted,
	}
	if t.Seen != nil {
		seen := t.Seen.Stats()
		st.Waiting, st.WaitingBytes = seen.Rows, seen.Bytes
		st.Bytes += seen.Bytes
	}
	return st
}
