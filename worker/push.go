package worker

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"hcclps/p2p/link"
	"hcclps/ps/layout"
	"hcclps/ps/wire"
)

// Gradient is a step's gradient of some rows of a table, summed over the rows
// of the batch.
type Gradient struct {
	Table  Table
	Keys   []uint64  // strictly ascending; dense tensors: nil
	Values []float32 // [len(Keys), Dim], or the tensor's elements
}

// Push commits one step: all tables' gradients, the rows of data behind them,
// and the data cursor after them (at most 64 bytes). Every shard gets a
// message, empty or not, and applies it once however often it is sent. Push
// returns when all have; then Clock has advanced. After an error other than
// the end of ctx the step may be pushed again with the same contents only.
func (c *Client) Push(ctx context.Context, rows int, cursor []byte, grads ...Gradient) error {
	p, err := c.encode(rows, cursor, grads)
	if err == nil {
		err = p.run(ctx)
	}
	if err != nil {
		return fmt.Errorf("push step %d: %w", c.Clock(), err)
	}
	c.step.Add(1)
	c.session.cursor = append([]byte(nil), cursor...)
	return nil
}

// push is one step. Its gradients are sent from where they lie, and do not change
// before every shard has acknowledged it: a resend sends the same bytes. A client
// has one, whose memory serves step after step.
type push struct {
	c      *Client
	step   uint64
	rows   uint32
	cursor []byte
	bodies []body // [shard x parts + part]
	cuts   []*cut // one a table of the step
}

func (c *Client) encode(rows int, cursor []byte, grads []Gradient) (*push, error) {
	if len(cursor) > wire.MaxCursor {
		return nil, fmt.Errorf("cursor of %d bytes is over %d", len(cursor), wire.MaxCursor)
	}
	parts := int(c.session.params.Parts)
	shards := len(c.servers.layout.Shards)
	p := &c.sent
	p.c, p.step, p.rows, p.cursor = c, c.Clock(), uint32(rows), cursor
	if len(p.bodies) != shards*parts {
		p.bodies = make([]body, shards*parts)
	}
	for i := range p.bodies {
		p.bodies[i].reset()
	}
	for len(p.cuts) < len(grads) {
		p.cuts = append(p.cuts, &cut{})
	}
	grads = slices.Clone(grads)
	slices.SortFunc(grads, func(a, b Gradient) int { return int(a.Table.spec().ID) - int(b.Table.spec().ID) })
	for i := range grads {
		if i > 0 && same(grads[i].Table, grads[i-1].Table) {
			return nil, fmt.Errorf("table %q is there twice", grads[i].Table.spec().Name)
		}
		if err := p.add(grads[i], p.cuts[i]); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// add gives each body that gets some of a table's rows a section of it.
func (p *push) add(g Gradient, cut *cut) error {
	t := g.Table.spec()
	dim := int(t.Dim)
	keys, want := g.Keys, len(g.Keys)*dim
	if dense(g.Table) && keys == nil {
		keys, want = blockKeys(t), elements(t)
	}
	if len(g.Values) != want {
		return fmt.Errorf("table %q: %d gradient floats, want %d: %d rows of %d", t.Name, len(g.Values), want, len(keys), dim)
	}
	if i := unordered(keys); i > 0 {
		return fmt.Errorf("table %q: key %d after key %d: want strictly ascending keys", t.Name, keys[i], keys[i-1])
	}
	cut.deal(p.c.servers.layout, len(p.bodies)/len(p.c.servers.layout.Shards), keys)
	all := wire.Section{Table: t.ID, Dim: dim, Keys: keys, Values: g.Values}
	for b, at := range cut.positions {
		if len(at) > 0 {
			p.bodies[b].add(all, at)
		}
	}
	p.c.servers.counters.pushedRows.Add(uint64(len(keys)))
	return nil
}

// under is how many parts a shard are under way: while some are applied and logged, others are on the wire. More would only
// push each other out of the servers' caches.
const under = 4

// run sends the parts, one after another to all shards. Every worker of a job has the same order, so that the parts which a step
// waits for are under way.
func (p *push) run(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx) // a step that nobody waits for is not begun
	}
	if err := p.c.session.holdsLease(ctx); err != nil {
		return err
	}
	shards := len(p.c.session.shards)
	parts := len(p.bodies) / shards
	eg, ectx := errgroup.WithContext(ctx)
	eg.SetLimit(under * shards)
	for part := range parts {
		for s := range shards {
			eg.Go(func() error { return p.send(ectx, s, part, parts) })
		}
	}
	return eg.Wait()
}

func (p *push) send(ctx context.Context, shard, part, parts int) error {
	body := &p.bodies[shard*parts+part]
	m := wire.Push{Target: p.c.target(shard), Step: p.step, Part: uint32(part), Parts: uint32(parts), Rows: p.rows}
	if part == parts-1 {
		m.Cursor = p.cursor
	}
	r := request{op: fmt.Sprintf("push step %d", p.step), group: layout.GroupOf(shard), head: wire.Append(nil, &m), prio: link.Push}
	r.again = func() []byte {
		m.Resent = true
		return wire.Append(nil, &m)
	}
	if body.size > 0 {
		r.source = body
	}
	a, _, err := p.c.servers.do(ctx, r)
	if err != nil {
		return err
	}
	n := &p.c.servers.counters
	n.pushes.Add(1)
	n.pushedBytes.Add(uint64(body.size))
	if a.Duplicate {
		n.duplicatePushes.Add(1)
	}
	p.c.session.shards[shard].advance(a)
	return nil
}
