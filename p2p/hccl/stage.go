package hccl

import (
	"context"
	"fmt"
)

// stageSends fills slots with what is to be sent, until ctx ends.
func (c *Comm) stageSends(ctx context.Context, h *half) {
	for {
		m, n := c.nextPiece(h)
		if m == nil {
			select {
			case <-h.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		s := c.slotFor(ctx, h)
		if s == nil {
			return
		}
		if err := m.move(s.memory[:n]); err != nil {
			c.giveUp(fmt.Errorf("fill a message of %d bytes: %w", m.n, err))
			return
		}
		c.mu.Lock()
		p := h.stage(s, m, n)
		c.onIssuer(func() error { return c.bond.upload(c.d.lib, p) })
		c.announce(frame{kind: kindStaged, flow: uint8(h.flow), n: 1}, c.rank)
		c.pump()
		c.mu.Unlock()
	}
}

// stageRecvs makes room for what is to be received and hands out what has arrived, until ctx ends.
func (c *Comm) stageRecvs(ctx context.Context, h *half) {
	for {
		if m, n := c.nextPiece(h); m != nil {
			s := c.slotFor(ctx, h)
			if s == nil {
				return
			}
			c.mu.Lock()
			h.stage(s, m, n)
			c.announce(frame{kind: kindRoom, flow: uint8(h.flow), n: 1}, c.rank)
			c.pump()
			c.mu.Unlock()
			continue
		}
		if ok, err := c.takeArrived(h); err != nil {
			c.giveUp(err)
		} else if ok {
			continue
		}
		select {
		case <-h.wake:
		case <-ctx.Done():
			return
		}
	}
}

// nextPiece is what to stage next, nil if nothing can be staged now.
func (c *Comm) nextPiece(h *half) (*message, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return nil, 0
	}
	return h.next(c.piece, c.d.cfg.Depth)
}

// slotFor gets a slot, nil if there is none to be had: then the Comm is dead.
func (c *Comm) slotFor(ctx context.Context, h *half) *slot {
	s, err := c.d.pool.get(ctx)
	if err != nil {
		if ctx.Err() == nil {
			c.fault(err)
		}
		return nil
	}
	c.mu.Lock()
	h.slots[s] = struct{}{}
	c.mu.Unlock()
	return s
}

// give puts a slot back that a flow no longer needs. c.mu is held.
func (c *Comm) give(h *half, s *slot) {
	delete(h.slots, s)
	c.d.pool.put(s)
	h.poke()
}

// takeArrived hands out one received piece, and says whether there was one.
func (c *Comm) takeArrived(h *half) (bool, error) {
	c.mu.Lock()
	if h.arrived.len() == 0 || c.local {
		c.mu.Unlock()
		return false, nil
	}
	p := h.arrived.pop()
	c.taking = true
	c.mu.Unlock()
	err := p.m.move(p.memory[:p.n])
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taking = false
	if err != nil {
		return false, fmt.Errorf("take a message of %d bytes: %w", p.m.n, err)
	}
	p.m.finished += p.n
	c.give(h, p.slot)
	c.finish(h)
	c.checkSettled()
	return true, nil
}
