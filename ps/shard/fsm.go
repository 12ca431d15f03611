package shard

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/raft"

	"hcclps/ps/layout"
	"hcclps/ps/raftgroup"
	"hcclps/ps/wire"
)

// reserveTimeout bounds the wait of an entry for the budget of copies; after it
// the entry is applied all the same.
const reserveTimeout = 10 * time.Second

// machine is the group's raft.FSM. Raft calls its methods from one goroutine,
// and Persist of a snapshot beside them.
type machine struct{ g *Group }

// Apply implements raft.FSM.
func (m machine) Apply(l *raft.Log) any { return m.ApplyBatch([]*raft.Log{l})[0] }

// ApplyBatch implements raft.BatchingFSM: the response of an entry is its
// []wire.Answer, or the error that ends this replica.
func (m machine) ApplyBatch(logs []*raft.Log) []any {
	out := make([]any, len(logs))
	for i, l := range logs {
		p := m.g.state.work.prepare(l.Data)
		out[i] = m.g.apply(context.Background(), &p, l.Index, l.Term)
	}
	m.g.wake()
	return out
}

// apply applies one entry, made ready by the state's workspace. The goroutine that calls it is the only one that
// changes state.
func (g *Group) apply(ctx context.Context, p *prepared, index, term uint64) any {
	if g.broken != nil {
		return g.broken
	}
	span := g.applying(p)
	defer span.End()
	g.reserve(ctx, p)
	g.warmEntry(ctx, p)
	g.views.settle() // most of them before the lock is taken
	g.mu.Lock()
	g.views.settle()
	answers, err := g.state.apply(p, index, term)
	if err == nil {
		err = g.state.fault()
	}
	if err == nil {
		g.cut()
		g.lookAtMemory()
	}
	g.mu.Unlock()
	if err != nil {
		g.broken = err
		g.log.Fail(err)
		return err
	}
	return answers
}

// reserve waits, before the lock is taken, until the copies that a snapshot
// or a part of a checkpoint under way makes this entry cause fit their budget; a part is written as fast as it can be meanwhile. When it has
// waited in vain they are given up, so that what comes behind the entry does not wait
// for the same again: the next snapshot is taken later, if need be when the log is
// full and nothing more comes.
func (g *Group) reserve(ctx context.Context, p *prepared) {
	ctx, cancel := context.WithTimeout(ctx, reserveTimeout)
	defer cancel()
	g.short.Store(true)
	err := g.reserveEntry(ctx, p)
	g.short.Store(false)
	if err != nil {
		g.cfg.Logger.Warn("snapshot or checkpoint given up: it holds more copies than its budget, and is slow", "group", g.cfg.Group, "err", err)
		g.saving.slow(errSlow)
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.shot != nil {
			g.shot.Release()
			g.shot = nil
		}
	}
}

func (g *Group) reserveEntry(ctx context.Context, p *prepared) error {
	if m, ok := p.entry.Message.(*wire.Put); ok {
		if j := g.state.jobs[m.Job]; j != nil {
			if err := j.table(m.Table).reserve(ctx, len(p.rows)); err != nil {
				return err
			}
		}
	}
	for i := range p.items {
		j := g.state.jobs[p.entry.Steps[i].Job]
		if j == nil {
			continue
		}
		for _, s := range p.items[i].Sections {
			if err := j.table(s.Table).reserve(ctx, len(s.Keys)); err != nil {
				return err
			}
		}
	}
	return nil
}

// reserve waits for room for the copies of so many rows. t may be nil.
func (t *tab) reserve(ctx context.Context, rows int) error {
	if t == nil || !t.Rows.Captured() {
		return nil
	}
	for _, st := range t.stores() {
		if err := st.rows.Reserve(ctx, rows); err != nil {
			return fmt.Errorf("table %q: %w", t.Spec.Name, err)
		}
	}
	return nil
}

// wake makes everyone who waits for state look at it again.
func (g *Group) wake() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.changed)
	g.changed = make(chan struct{})
}

// Snapshot implements raft.FSM.
func (m machine) Snapshot() (raft.FSMSnapshot, error) {
	g := m.g
	if g.broken != nil {
		return nil, fmt.Errorf("snapshot %s: %w", layout.GroupName(g.cfg.Group), g.broken)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if id := g.saving.holds(); id != 0 {
		return nil, fmt.Errorf("%w: it waits until checkpoint %d is written", raftgroup.ErrLater, id)
	}
	c, err := g.state.capture(g.mu.RLocker(), &g.last)
	if err != nil {
		return nil, err
	}
	g.shot = c
	return c, nil
}

// Restore implements raft.FSM.
func (m machine) Restore(r io.ReadCloser) error {
	g := m.g
	s, err := restore(r, g.state.cfg, &g.last)
	if err != nil {
		return err
	}
	g.mu.Lock()
	g.views.settle()
	old := g.state
	g.state = s
	g.saving.forget()
	err = old.Close()
	g.mu.Unlock()
	if err != nil {
		g.cfg.Logger.Warn("free replaced tables", "group", g.cfg.Group, "err", err)
	}
	g.wake()
	return nil
}
