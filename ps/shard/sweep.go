package shard

import (
	"context"
	"time"

	"hcclps/ps/table"
	"hcclps/ps/wire"
)

const (
	// sweepEvery is how often the leader looks whether rows may have outlived their time.
	sweepEvery = time.Second
	// sweepRows is about how many rows one entry looks at.
	sweepRows = 1 << 15
	// sweepPart is what part of the time that rows may live lies between two sweeps.
	sweepPart = 16
)

// tellTime logs the time for tables whose rows live for a time, until ctx ends. The entries say which partitions to look at.
func (g *Group) tellTime(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if !g.IsLeader() {
			continue
		}
		for _, m := range g.sweeps(uint64(time.Now().UnixNano())) {
			if a := g.submit(ctx, &m); a.Status != wire.OK {
				g.cfg.Logger.Debug("sweep not logged", "group", g.cfg.Group, "table", m.Table, "status", a.Status, "detail", a.Detail)
				break // another time
			}
		}
	}
}

// sweeps lists the entries that are due.
func (g *Group) sweeps(now uint64) []wire.Sweep {
	width := table.Partitions / len(g.cfg.Layout().Shards)
	first := int(g.cfg.Group-1) * width
	g.mu.RLock()
	defer g.mu.RUnlock()
	var out []wire.Sweep
	for _, name := range g.state.names() {
		for _, t := range g.state.jobs[name].Tables {
			ttl := uint64(t.Spec.Evict.TTL)
			if ttl == 0 || t.Kept.Time != 0 && now < t.Kept.Time+ttl/sweepPart {
				continue
			}
			piece := max(1, min(width, width*sweepRows/int(t.Rows.Stats().Rows+1)))
			for from := first; from < first+width; from += piece {
				out = append(out, wire.Sweep{
					Group: g.cfg.Group, Job: name, Table: t.Spec.ID, Time: now, From: uint32(from), To: uint32(min(from+piece, first+width)),
				})
			}
		}
	}
	return out
}
