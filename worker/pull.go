package worker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"hcclps/p2p/link"
	"hcclps/ps/layout"
	"hcclps/ps/wire"
)

// Read asks for rows of a table.
type Read struct {
	Table Table
	Keys  []uint64  // strictly ascending; dense tensors: nil, meaning all of it
	Out   []float32 // [len(Keys), Dim], or the tensor's elements
}

// Pull reads rows as of this worker's clock: under bsp exactly the pushes of
// all earlier steps, under ssp at least those older than the staleness, and
// always the worker's own. Rows never pushed to are their initial values, and
// pulling them changes nothing. Shards are asked in parallel.
func (c *Client) Pull(ctx context.Context, reads ...Read) error {
	if err := c.meet(ctx); err != nil {
		return err
	}
	p, err := c.store.read(reads)
	if err != nil {
		return fmt.Errorf("pull: %w", err)
	}
	if err := p.run(ctx, c.Clock(), nil); err != nil {
		return fmt.Errorf("pull at step %d: %w", c.Clock(), err)
	}
	return nil
}

// PullFinal waits until every worker of the job has finished, and reads.
func (c *Client) PullFinal(ctx context.Context, reads ...Read) error {
	p, err := c.store.read(reads)
	if err != nil {
		return fmt.Errorf("pull: %w", err)
	}
	if err := p.run(ctx, wire.Infinity, nil); err != nil {
		return fmt.Errorf("pull after the last step: %w", err)
	}
	return nil
}

// pull is one read of some tables, cut by shard. It is run once; then its memory
// serves a later one.
type pull struct {
	s      *servers
	reads  []keyed // ascending table id
	cuts   []cut   // of each
	shards []exchange
	until  *latest // nil: nobody asks
}

// exchange is the memory of what is said to one shard.
type exchange struct {
	body   []byte
	answer scatter
	wide   widen // for answers in 16 bits
}

// keyed is a Read in the form that stores know: rows of the table, dense
// tensors as blocks.
type keyed struct {
	table *wire.Table
	keys  []uint64
	out   []float32 // the last row of a dense tensor may be short
}

// read implements store.
func (s *servers) read(reads []Read) (reader, error) {
	p, _ := s.pulls.Get().(*pull)
	if p == nil {
		p = &pull{s: s, shards: make([]exchange, len(s.session.shards))}
	}
	var err error
	if p.reads, err = keyAll(p.reads, reads); err != nil {
		return nil, err
	}
	p.cuts = slices.Grow(p.cuts[:0], len(p.reads))[:len(p.reads)]
	for i := range p.reads {
		p.cuts[i].deal(s.layout, 1, p.reads[i].keys)
	}
	return p, nil
}

// keyAll puts reads into the form of keyed, ascending by table, in the memory of out.
func keyAll(out []keyed, reads []Read) ([]keyed, error) {
	out = slices.Grow(out[:0], len(reads))[:len(reads)]
	for i, r := range reads {
		if err := out[i].set(r); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b keyed) int { return int(a.table.ID) - int(b.table.ID) })
	for i := 1; i < len(out); i++ {
		if out[i-1].table.ID == out[i].table.ID {
			return nil, fmt.Errorf("table %q is there twice", out[i].table.Name)
		}
	}
	return out, nil
}

func (k *keyed) set(r Read) error {
	t := r.Table.spec()
	k.table, k.keys, k.out = t, r.Keys, r.Out
	want := len(r.Keys) * int(t.Dim)
	if dense(r.Table) {
		if want = elements(t); r.Keys == nil {
			k.keys = blockKeys(t)
		}
	}
	if len(r.Out) != want {
		return fmt.Errorf("table %q: room for %d floats, want %d", t.Name, len(r.Out), want)
	}
	if i := unordered(k.keys); i > 0 {
		return fmt.Errorf("table %q: key %d after key %d: want strictly ascending keys", t.Name, k.keys[i], k.keys[i-1])
	}
	return nil
}

func blockKeys(t *wire.Table) []uint64 {
	keys := make([]uint64, blocks(t))
	for i := range keys {
		keys[i] = uint64(i)
	}
	return keys
}

func unordered(keys []uint64) int {
	for i := 1; i < len(keys); i++ {
		if keys[i] <= keys[i-1] {
			return i
		}
	}
	return 0
}

// run asks every shard that owns one of the keys, or all of them whether the
// job has ended.
func (p *pull) run(ctx context.Context, step uint64, until *latest) error {
	p.until = until
	defer p.keep()
	eg, ectx := errgroup.WithContext(ctx)
	for s := range p.s.session.shards {
		eg.Go(func() error { return p.shard(ectx, s, step) })
	}
	if err := eg.Wait(); err != nil {
		return err
	}
	p.s.counters.pulls.Add(1)
	return nil
}

// keep gives the memory of a pull back, when nobody has a part in it any more.
func (p *pull) keep() {
	for i := range p.reads {
		k := &p.reads[i]
		k.table, k.keys, k.out = nil, nil, nil
	}
	p.s.pulls.Put(p)
}

// ask makes what a shard is asked for, and is the number of rows.
func (p *pull) ask(s int) (rows int) {
	x := &p.shards[s]
	x.body = x.body[:0]
	x.answer.reset()
	for i := range p.reads {
		k := &p.reads[i]
		at := p.cuts[i].of(s, 0)
		if len(at) == 0 {
			continue
		}
		x.body = wire.AppendPicked(x.body, wire.Section{Table: k.table.ID, Keys: k.keys}, at)
		x.answer.add(k.out, int(k.table.Dim), at)
		rows += len(at)
	}
	return rows
}

// shard asks one shard.
func (p *pull) shard(ctx context.Context, s int, step uint64) error {
	x, rows := &p.shards[s], p.ask(s)
	if rows == 0 && step != wire.Infinity { // the end is waited for at every shard
		return nil
	}
	pos := &p.s.session.shards[s]
	// A shard that was ahead when the session opened has this step already: it
	// answers as of where it is.
	m := wire.Pull{Target: p.s.target(s), Step: max(step, pos.resumed)}
	pos.stamp(&m)
	sink := x.answer.begin
	if step != wire.Infinity {
		m.Own = max(m.Own, step)
		if m.Half = p.s.half; m.Half != wire.Whole {
			x.wide.to, x.wide.form = &x.answer, m.Half
			sink = x.wide.begin
		}
	}
	what := fmt.Sprintf("pull of step %d", step)
	if step == wire.Infinity {
		what = "pull after the last step"
	}
	span := p.s.prof.pulls.Begin("pull")
	began := time.Now()
	a, _, err := p.s.do(ctx, request{
		op: what, group: layout.GroupOf(s), head: wire.Append(nil, &m), body: [][]byte{x.body}, prio: link.Pull, sink: sink,
	})
	if err != nil {
		return err
	}
	if x.answer.came != x.answer.size {
		return fmt.Errorf("%s at shard %d: answer of %d bytes of float32, want %d", what, s, x.answer.came, x.answer.size)
	}
	came := x.answer.size / 4 * m.Half.Size()
	if span.Bytes = int64(came); span.Active() {
		span.Peer = groupName(m.Group)
	}
	if step != wire.Infinity {
		span.Step = int64(step)
	}
	span.End()
	if a.Waited > 0 {
		p.until.tell(began.Add(time.Duration(a.Waited) * time.Microsecond))
	}
	pos.advance(a)
	n := p.s.counters
	n.pulledRows.Add(uint64(rows))
	n.pulledBytes.Add(uint64(came))
	return nil
}
