package collective

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"hcclps/p2p"
)

// Sub makes a group of some members, in the order of their new numbers, with a Comm of its own: it works beside this one, and has neither Shared nor Native. Every
// one of them calls Sub with the same ranks; this rank must be one. ctx bounds the making of the Comm. The caller runs the new group.
func (g *Group) Sub(ctx context.Context, ranks []int) (*Group, error) {
	sub, err := g.sub(ctx, ranks, func(c *Config) {
		if g.cfg.Scope != nil {
			c.Control = g.cfg.Scope(g.scope(c.Ranks))
		}
	})
	if err != nil {
		return nil, fmt.Errorf("make sub-group %v at rank %d: %w", ranks, g.Rank(), err)
	}
	return sub, nil
}

// scope names the next sub-group of some ranks.
func (g *Group) scope(ranks []int) string {
	name := fmt.Sprintf("group %08x of %d in %08x", digest(ranks), len(ranks), g.group)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.subs == nil {
		g.subs = make(map[string]int)
	}
	g.subs[name]++
	return fmt.Sprintf("%s, %d", name, g.subs[name])
}

// sub makes a group of some members whose Config change may alter.
func (g *Group) sub(ctx context.Context, ranks []int, change func(*Config)) (*Group, error) {
	if g.cfg.Open == nil {
		return nil, errors.New("the group has no way to open a comm for it")
	}
	sub := g.cfg
	sub.Ranks, sub.Hosts, sub.Apart, sub.Open, sub.Shared, sub.Native = nil, nil, nil, nil, nil, nil
	sub.Algorithms = g.choose.messages().pinned
	for i, r := range ranks {
		if r < 0 || r >= g.Size() {
			return nil, fmt.Errorf("no rank %d among %d: %w", r, g.Size(), p2p.ErrRank)
		}
		sub.Ranks = append(sub.Ranks, g.cfg.Ranks[r])
		if g.cfg.Hosts != nil {
			sub.Hosts = append(sub.Hosts, g.cfg.Hosts[r])
		}
		if slices.Contains(g.cfg.Apart, r) && len(sub.Apart) < len(ranks)-1 {
			sub.Apart = append(sub.Apart, i)
		}
	}
	if c := g.cfg.Measured; c != nil {
		sub.Measured = c.Of(ranks)
	}
	change(&sub)
	me := slices.Index(ranks, g.Rank())
	if me < 0 {
		return nil, fmt.Errorf("this rank is not in it: %w", p2p.ErrRank)
	}
	if sorted := slices.Sorted(slices.Values(ranks)); len(slices.Compact(sorted)) != len(ranks) {
		return nil, fmt.Errorf("a rank is in it twice: %w", p2p.ErrRank)
	}
	comm, err := g.cfg.Open(ctx, ranks)
	if err != nil {
		return nil, err
	}
	if comm.Rank() != me || comm.Size() != len(ranks) {
		return nil, errors.Join(fmt.Errorf("the comm is of rank %d of %d", comm.Rank(), comm.Size()), comm.Close())
	}
	sub.Comm = comm
	made, err := New(sub)
	if err != nil {
		return nil, errors.Join(err, comm.Close())
	}
	return made, nil
}
