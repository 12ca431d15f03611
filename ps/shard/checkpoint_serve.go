package shard

import (
	"context"
	"encoding/json"

	"hcclps/ps/wire"
)

// checkpoint answers how far this shard's part is, or ends it.
func (g *Group) checkpoint(ctx context.Context, m *wire.Checkpoint) (wire.Answer, []byte) {
	if m.Do == wire.CheckpointGo {
		return g.submit(ctx, m), nil
	}
	if !g.IsLeader() {
		return g.elsewhere(), nil
	}
	p, waits := g.partOf(m)
	switch {
	case p == nil && m.Do != wire.CheckpointReport:
		return wire.Answer{}, nil
	case p == nil && waits:
		return g.reported(m.Job, wire.CheckpointPart{Group: g.cfg.Group, State: wire.PartWaiting})
	case p == nil:
		return g.reported(m.Job, wire.CheckpointPart{Group: g.cfg.Group, State: wire.PartFailed, Why: "the leader of the group has changed"})
	case m.Do != wire.CheckpointReport:
		return g.close(ctx, p, m.Do), nil
	}
	p.mu.Lock()
	state := p.state
	p.mu.Unlock()
	return g.reported(m.Job, state)
}

// close ends a part, committed or abandoned.
func (g *Group) close(ctx context.Context, p *part, do wire.CheckpointDo) wire.Answer {
	if do == wire.CheckpointDrop {
		p.giveUp(errDropped)
		wait, cancel := context.WithTimeout(ctx, dropFor)
		defer cancel()
		ctx = wait
	}
	select {
	case <-p.ended:
	case <-ctx.Done():
		if do == wire.CheckpointDrop {
			return wire.Answer{} // the folder hangs; write takes it back once that has an end
		}
		return wire.Answer{Status: wire.Busy, Detail: "the part is still being written"}
	}
	if do == wire.CheckpointKeep {
		g.saving.keep(p)
	}
	g.clear(p)
	return wire.Answer{}
}

// partOf is this shard's part of a checkpoint, nil if there is none; then waits says whether its moment is still to come, which this
// replica would capture. One lock for both: a capture may be made between two looks.
func (g *Group) partOf(m *wire.Checkpoint) (p *part, waits bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if p = g.saving.find(m.ID); p != nil {
		return p, false
	}
	j := g.state.jobs[m.Job]
	return nil, j != nil && j.Cut != nil && j.Cut.ID == m.ID && (!j.atCut() || !g.saving.leads())
}

func (g *Group) reported(job string, state wire.CheckpointPart) (wire.Answer, []byte) {
	b, err := json.Marshal(state)
	if err != nil {
		return wire.Answer{Status: wire.Refused, Detail: err.Error()}, nil
	}
	a := wire.Answer{}
	g.mu.RLock()
	defer g.mu.RUnlock()
	if j := g.state.jobs[job]; j != nil {
		a.Clock, a.Done = j.Clock, j.Applied
	}
	return a, b
}
