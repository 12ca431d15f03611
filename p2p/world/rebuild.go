package world

import (
	"context"
	"fmt"

	"hcclps/p2p"
)

// Rebuild makes the next epoch: the World of all ranks of this one that call it too, and of the processes that wait to be let in. It is called after a
// failure, or by all ranks at a point on which they agreed. This World ends: its Comms die, and its Run returns nil. The new one must run soon, as
// after Open. Ranks are given out anew from 0: survivors come before newcomers, and keep their order.
//
// The rendezvous decides who is in. It waits for the ranks that are not known to be dead, but no longer than [Config.Gather], and for [Config.Least]
// ranks. Where the rendezvous died with its rank, a survivor on that machine takes its address over.
//
// The error wraps p2p.ErrRefused where the others went on without this rank; else ctx, or [Config.Timeout], was over first. Then nothing is left of the
// World, and the others do not wait for this rank.
func (w *World) Rebuild(ctx context.Context) (*World, error) {
	if err := w.release(); err != nil {
		return nil, fmt.Errorf("rebuild world: %w", err)
	}
	dead := -1
	if v := w.fate.known(); v != nil && v.Rank != w.rank {
		dead = v.Rank
	}
	j := &joiner{cfg: &w.cfg, self: w.self, past: &w.table, dead: dead, local: w.local, center: w.center}
	if w.link == nil {
		j.alone(w.table.epoch + 1)
		return newWorld(j), nil
	}
	j.lost = w.gone.Load() && !w.moved.Load()
	if w.gone.Load() && w.center != nil {
		j.dissolved()
	}
	err := j.again(ctx, w)
	if err == nil {
		err = j.within(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("rebuild world of epoch %d %s as its rank %d: %w", w.table.epoch, w.cfg.where(), w.rank, err)
	}
	return newWorld(j), nil
}

// release ends Run but for the connection to the rendezvous.
func (w *World) release() error {
	w.mu.Lock()
	was := w.state
	if was == opened || was == running {
		w.state = handed
	}
	w.mu.Unlock()
	if was == opened || was == running {
		close(w.quit)
	}
	switch was {
	case opened:
		w.stop()
		if w.ln != nil {
			_ = w.ln.Close()
		}
	case running:
		<-w.done // soon: nothing in it waits for others
	default:
		return fmt.Errorf("it has ended, or was rebuilt before: %w", p2p.ErrClosed)
	}
	return nil
}

// again says at the rendezvous, if it is still there, that this rank comes, and where it listens now.
func (j *joiner) again(ctx context.Context, w *World) error {
	if err := j.listen(ctx); err != nil {
		w.part()
		return err
	}
	if w.gone.Load() {
		return nil
	}
	j.link = w.link
	j.link.post(frame{kind: kindRebuild, address: j.address()})
	return nil
}
