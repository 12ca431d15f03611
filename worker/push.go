package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"hcclps/compress"
	"hcclps/internal/trace"
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
	_, err := c.push(ctx, &commit{rows: rows, cursor: cursor, grads: grads})
	return err
}

// push gives a step to the store. It returns what all workers have lost in it, as far
// as the store knows.
func (c *Client) push(ctx context.Context, s *commit) (outcome, error) {
	if err := c.meet(ctx); err != nil {
		return outcome{}, err
	}
	s.step = c.Clock()
	if len(s.cursor) > wire.MaxCursor {
		return outcome{}, fmt.Errorf("push step %d: cursor of %d bytes is over %d", s.step, len(s.cursor), wire.MaxCursor)
	}
	all, err := c.store.push(ctx, s)
	if errors.Is(err, ErrRebuilt) {
		c.follow()
	}
	if err != nil {
		return all, fmt.Errorf("push step %d: %w", s.step, err)
	}
	c.step.Add(1)
	c.cursor = append([]byte(nil), s.cursor...)
	c.later = all.later
	if all.checkpoint > 0 {
		err = c.upload(ctx, all.checkpoint)
	}
	return all, err
}

// push is one step. Its gradients are sent from where they lie, and do not change
// before every shard has acknowledged it: a resend sends the same bytes. A client
// has one, whose memory serves step after step.
type push struct {
	s      *servers
	step   uint64
	rows   uint32
	cursor []byte
	bodies []body // [shard x parts + part]
	cuts   []*cut // one a table of the step
	others latest // until when other workers were waited for

	checkpoint atomic.Uint64 // that waits for this worker's state after the step; 0: none does
	later      atomic.Uint64 // one of a later step
}

// push implements store.
func (s *servers) push(ctx context.Context, c *commit) (outcome, error) {
	p, err := s.encode(c)
	if err == nil {
		err = p.run(ctx)
	}
	return outcome{loss: c.loss, others: s.sent.others.time(), checkpoint: s.sent.checkpoint.Load(), later: s.sent.later.Load()}, err
}

func (s *servers) encode(c *commit) (*push, error) {
	parts := int(s.session.params.Parts)
	shards := len(s.layout.Shards)
	p := &s.sent
	p.others.reset()
	p.checkpoint.Store(0)
	p.later.Store(0)
	p.s, p.step, p.rows, p.cursor = s, c.step, uint32(c.rows), c.cursor
	if len(p.bodies) != shards*parts {
		p.bodies = make([]body, shards*parts)
	}
	for i := range p.bodies {
		p.bodies[i].reset()
	}
	for len(p.cuts) < len(c.grads) {
		p.cuts = append(p.cuts, &cut{})
	}
	grads, err := byTable(c.grads)
	if err != nil {
		return nil, err
	}
	for i := range grads { // before residuals change
		if grads[i].Values, err = p.s.coders.passed(grads[i]); err != nil {
			return nil, err
		}
	}
	for i := range grads {
		if err := p.add(grads[i], p.cuts[i]); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// byTable is gradients in the order of their tables, each once.
func byTable(grads []Gradient) ([]Gradient, error) {
	grads = slices.Clone(grads)
	slices.SortFunc(grads, func(a, b Gradient) int { return int(a.Table.spec().ID) - int(b.Table.spec().ID) })
	for i := range grads {
		if i > 0 && same(grads[i].Table, grads[i-1].Table) {
			return nil, fmt.Errorf("table %q is there twice", grads[i].Table.spec().Name)
		}
	}
	return grads, nil
}

// rowsOf checks a gradient and gives the keys of its rows; those of a dense tensor are
// its blocks.
func (g *Gradient) rowsOf() ([]uint64, error) {
	t := g.Table.spec()
	keys, want := g.Keys, len(g.Keys)*int(t.Dim)
	if dense(g.Table) {
		if keys != nil {
			return nil, fmt.Errorf("table %q is dense, and its gradient has %d keys: give it without keys, whole", t.Name, len(keys))
		}
		keys, want = blockKeys(t), elements(t)
	}
	if len(g.Values) != want {
		return nil, fmt.Errorf("table %q: %d gradient floats, want %d: %d rows of %d", t.Name, len(g.Values), want, len(keys), t.Dim)
	}
	if i := unordered(keys); i > 0 {
		return nil, fmt.Errorf("table %q: key %d after key %d: want strictly ascending keys", t.Name, keys[i], keys[i-1])
	}
	return keys, nil
}

// add gives each body that gets some of a table's rows a section of it.
func (p *push) add(g Gradient, cut *cut) error {
	keys, err := g.rowsOf()
	if err != nil {
		return err
	}
	p.s.counters.pushedRows.Add(uint64(len(keys)))
	cut.deal(p.s.layout, len(p.bodies)/len(p.s.layout.Shards), keys)
	if k, err := p.s.coders.of(g.Table.spec()); k != nil || err != nil {
		return p.addCoded(k, err, keys, g.Values, cut)
	}
	all := wire.Section{Table: g.Table.spec().ID, Dim: int(g.Table.spec().Dim), Keys: keys, Values: g.Values}
	for b, at := range cut.positions {
		if len(at) > 0 {
			p.bodies[b].add(all, at)
		}
	}
	return nil
}

// addCoded is add of a table with a codec. Codes of a step that is pushed again are those it had.
func (p *push) addCoded(k *coder, err error, keys []uint64, values []float32, cut *cut) error {
	if err != nil {
		return err
	}
	fresh := k.begin(p.step, len(p.bodies))
	if fresh {
		p.s.coders.choose(k, p.step, len(values), p.s.speed)
	}
	t := &k.spec
	for b, at := range cut.positions {
		if len(at) == 0 {
			continue
		}
		if fresh {
			if err := k.encode(b, keys, values, at, p.s.coders.seedOf(t, p.step, p.s.cfg.Rank)); err != nil {
				return err
			}
		}
		p.bodies[b].addCode(wire.Section{Table: t.ID, Dim: int(t.Dim), Rows: len(at), Code: k.codes[b]})
	}
	if fresh {
		p.s.coders.look(k, p.step, values)
	}
	return nil
}

// speed is what was measured of the links to servers, by the answers to pulls.
func (s *servers) speed() compress.Link {
	m := s.link.Stats()
	return compress.Link{Bandwidth: m.Bandwidth, Latency: m.Latency}
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
	if err := p.s.session.holdsLease(ctx); err != nil {
		return err
	}
	shards := len(p.s.session.shards)
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
	m := wire.Push{Target: p.s.target(shard), Step: p.step, Part: uint32(part), Parts: uint32(parts), Rows: p.rows, Plain: uint64(body.plain)}
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
	span := p.span(&m, body.size)
	began := time.Now()
	a, _, err := p.s.do(ctx, r)
	if err != nil {
		return err
	}
	span.End()
	if a.Waited > 0 {
		p.others.tell(began.Add(time.Duration(a.Waited) * time.Microsecond))
	}
	n := p.s.counters
	n.pushes.Add(1)
	n.pushedBytes.Add(uint64(body.size))
	n.pushedRaw.Add(uint64(body.raw))
	if a.Duplicate {
		n.duplicatePushes.Add(1)
	}
	switch {
	case a.Checkpoint > 0 && a.Cut == p.step+1:
		p.checkpoint.Store(a.Checkpoint)
	case a.Checkpoint > 0 && a.Cut > p.step+1:
		p.later.Store(a.Checkpoint)
	}
	p.s.session.shards[shard].advance(a)
	return nil
}

// span begins that of a part. Where the servers record too, the flow from it ends where the part is applied, and one from there ends here.
func (p *push) span(m *wire.Push, bytes int) trace.Span {
	s := p.s.prof.pushes.Begin("push")
	if s.Active() {
		flow := func(kind string) uint64 {
			return trace.FlowID(kind, trace.Key(m.Job, m.Worker), m.Incarnation, m.Step, uint64(m.Part), uint64(m.Group))
		}
		s.Peer, s.Step, s.Bytes, s.Out, s.In = groupName(m.Group), int64(m.Step), int64(bytes), flow("push"), flow("answer")
	}
	return s
}
