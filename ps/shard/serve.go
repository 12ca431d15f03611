package shard

import (
	"context"
	"fmt"
	"time"

	"hcclps/internal/vec"
	"hcclps/ps/layout"
	"hcclps/ps/update"
	"hcclps/ps/wire"
)

// How long, in milliseconds, a refused push waits: for the log or the inbox, and
// for what the owner of the server must mend.
const (
	busyAfter    = 20
	refusedAfter = 500
)

// Serve answers one request to this group. m is its decoded head, bodyLen the
// length of its body; what m aliases must stay as it is until Serve returns. It
// returns when the request is answered or ctx has ended.
func (g *Group) Serve(ctx context.Context, m wire.Message, bodyLen int, r Request) {
	switch m := m.(type) {
	case *wire.Push:
		span := g.answering(m, bodyLen)
		a := g.push(ctx, m, bodyLen, r)
		span.End()
		g.reply(r, g.final(ctx, a))
	case *wire.Pull:
		g.pull(ctx, m, bodyLen, r)
	case *wire.Probe:
		g.reply(r, g.probe(m))
	case *wire.Scan:
		g.scan(ctx, m, r)
	case *wire.Rule:
		a, body := g.rule(ctx, m)
		g.reply(r, a, body)
	case *wire.Find:
		a, body := g.find(ctx, m)
		g.reply(r, a, body)
	case *wire.Put:
		g.reply(r, g.put(ctx, m, bodyLen, r))
	case *wire.Checkpoint:
		a, body := g.checkpoint(ctx, m)
		g.reply(r, a, body)
	case *wire.Restore:
		g.reply(r, g.bring(ctx, m, bodyLen, r))
	case *wire.Fence, *wire.Finish, *wire.Hold, *wire.Release:
		g.reply(r, g.submit(ctx, m))
	default:
		g.reply(r, wire.Answer{Status: wire.Refused, Detail: fmt.Sprintf("%T is no request to a shard", m)})
	}
}

// reply answers.
func (g *Group) reply(r Request, a wire.Answer, body ...[]byte) {
	g.said(r.Reply(wire.AppendAnswer(nil, a), body...))
}

// said takes the outcome of an answer; an error means that the caller is gone, who asks again.
func (g *Group) said(err error) {
	if err != nil {
		g.cfg.Logger.Debug("answer not delivered", "group", g.cfg.Group, "err", err)
	}
}

// push takes a push to the point where its entry is applied.
func (g *Group) push(ctx context.Context, m *wire.Push, bodyLen int, r Request) wire.Answer {
	if !g.IsLeader() {
		return g.elsewhere()
	}
	ref := pushRef{m.Job, m.Worker, m.Incarnation, m.Step, m.Part}
	if bodyLen+entryHead > g.maxEntry {
		return wire.Answer{Status: wire.Refused, Detail: fmt.Sprintf("%v has %d bytes, at most %d fit in the log: use more parts a step, or raise --log-budget", ref, bodyLen, g.maxEntry-entryHead)}
	}
	if m.Plain > update.MaxPlain {
		return wire.Answer{Status: wire.Refused, Detail: fmt.Sprintf("%v decodes to %d bytes, at most %d may be: use more parts a step", ref, m.Plain, update.MaxPlain)}
	}
	if why := g.refuses(); why != "" {
		return wire.Answer{Status: wire.Busy, After: refusedAfter, Detail: why}
	}
	if g.full() {
		return wire.Answer{Status: wire.Busy, After: busyAfter, Detail: "the log is full until the next snapshot is written"}
	}
	c, mine, a := g.enter(ref, m.Parts, bodyLen+int(m.Plain))
	if c == nil {
		return a
	}
	if mine {
		g.receive(ctx, c, m, bodyLen, r)
	}
	patience := time.NewTimer(sayAfter)
	defer patience.Stop()
	select {
	case <-c.done:
		if c.answer.Duplicate {
			g.dups.add(m.Job)
		}
		a := c.answer
		a.Waited = g.tracks.waited(m.Step, c.arrived, c.joined)
		return a
	case <-patience.C: // the push stays here; sent again it goes on waiting
		return wire.Answer{Status: wire.Pending, After: busyAfter, Detail: g.waitsFor(ref)}
	case <-ctx.Done():
		return wire.Answer{Status: wire.Busy, Detail: fmt.Sprintf("%v: gave up waiting", ref)}
	}
}

// sayAfter is how long a push or pull waits before its sender is told for whom.
const sayAfter = 10 * time.Second

// entryHead is what a push needs in an entry beside its body, at most.
const entryHead = 2048

// enter finds or makes the contribution of a push; mine says that the caller
// must bring its body. Without one, the answer is final.
func (g *Group) enter(ref pushRef, parts uint32, n int) (c *contribution, mine bool, a wire.Answer) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	adm := g.state.admit(ref)
	if !adm.ok() {
		if adm.answer.Duplicate {
			g.dups.add(ref.job)
		}
		return nil, false, adm.answer
	}
	if parts != adm.job.Params.Parts {
		return nil, false, wire.Answer{Status: wire.Refused, Detail: fmt.Sprintf("%v: it has %d parts a step, the job %d", ref, parts, adm.job.Params.Parts)}
	}
	c, how := g.inbox.enter(&adm, ref, n)
	switch how {
	case full:
		return nil, false, wire.Answer{Status: wire.Busy, After: busyAfter, Detail: "too many bytes wait to be applied"}
	case notLeader:
		return nil, false, g.elsewhere()
	case took, joined:
	}
	return c, how == took, a
}

// receive brings the body of a contribution, checks it and puts it in line.
func (g *Group) receive(ctx context.Context, c *contribution, m *wire.Push, bodyLen int, r Request) {
	body, err := g.body(ctx, bodyLen, r)
	c.body, c.pooled = body.body, body.kept
	if err != nil {
		g.inbox.drop(c, wire.Answer{Status: wire.Busy, Detail: fmt.Sprintf("receive %v: %v", c.ref, err)})
		g.inbox.release(c)
		return
	}
	c.rows = m.Rows
	c.cursor = append([]byte(nil), m.Cursor...)
	if a := g.check(c, m, body.finite()); a.Status != wire.OK {
		g.inbox.drop(c, a)
		g.inbox.release(c)
		return
	}
	g.mu.RLock()
	bsp := false
	if j := g.state.jobs[m.Job]; j != nil {
		bsp = j.Params.Sync == wire.BSP
	}
	g.mu.RUnlock()
	if !g.inbox.arrive(c, bsp) {
		g.inbox.release(c)
		return
	}
	g.log.arrived()
}

// check decodes a contribution's body and refuses what apply would refuse, by
// the name of the one who sent it. Values that are not finite are mended here
// where the table's policy says so. finite says that there are none.
func (g *Group) check(c *contribution, m *wire.Push, finite bool) wire.Answer {
	no := func(st wire.Status, format string, args ...any) wire.Answer {
		return wire.Answer{Status: st, Detail: c.ref.String() + ": " + fmt.Sprintf(format, args...)}
	}
	var err error
	if c.sections, err = wire.DecodeSections(c.body); err != nil {
		return no(wire.Refused, "%v", err)
	}
	if err := g.decode(c, m.Plain); err != nil {
		return no(wire.Refused, "%v", err)
	}
	finite = finite && c.plain == nil
	if err := g.checkKeys(c.sections); err != nil {
		return no(wire.Refused, "%v", err)
	}
	full, _ := g.overfull()
	g.mu.RLock()
	defer g.mu.RUnlock()
	j := g.state.jobs[c.ref.job]
	if j == nil {
		return no(wire.Unknown, "the job is unknown here")
	}
	if full != "" {
		if why := j.outgrows(c.sections, full); why != "" {
			a := no(wire.Busy, "%s", why)
			a.After = refusedAfter
			return a
		}
	}
	for _, s := range c.sections {
		bad := -1
		if !finite {
			bad = vec.NonFinite(s.Values)
		}
		if st, why := j.takes(s, bad); st != wire.OK {
			return no(st, "%s", why)
		}
	}
	if key, ok := g.strayPart(c.sections, c.ref.part, m.Parts); ok {
		return no(wire.Refused, "key %d belongs to another part", key)
	}
	return wire.Answer{}
}

// checkKeys refuses keys of other shards.
func (g *Group) checkKeys(sections []wire.Section) error {
	l := g.cfg.Layout()
	shards := len(l.Shards)
	if shards == 1 {
		return nil
	}
	for _, s := range sections {
		for _, k := range s.Keys {
			if at := layout.ShardOf(layout.Partition(k, l.HashSeed), shards) + 1; at != g.cfg.Group {
				return fmt.Errorf("table %d: key %d belongs to %s, this is %s", s.Table, k, layout.GroupName(at), layout.GroupName(g.cfg.Group))
			}
		}
	}
	return nil
}

// strayPart finds a key that should travel in another part: parts have fixed
// borders, so that the same rows of all workers meet.
func (g *Group) strayPart(sections []wire.Section, part, parts uint32) (uint64, bool) {
	if parts == 1 {
		return 0, false
	}
	l := g.cfg.Layout()
	for _, s := range sections {
		for _, k := range s.Keys {
			if layout.PartOf(layout.Partition(k, l.HashSeed), len(l.Shards), int(parts)) != int(part) {
				return k, true
			}
		}
	}
	return 0, false
}

// submit logs a message and waits for its answer.
func (g *Group) submit(ctx context.Context, m wire.Message) wire.Answer {
	if !g.IsLeader() {
		return g.elsewhere()
	}
	if g.full() {
		return wire.Answer{Status: wire.Busy, After: busyAfter, Detail: "the log is full until the next snapshot is written"}
	}
	q := g.inbox.message(m)
	if q == nil {
		return g.elsewhere()
	}
	g.log.arrived()
	select {
	case <-q.done:
		return q.answer
	case <-ctx.Done():
		return wire.Answer{Status: wire.Busy, Detail: "gave up waiting for the log"}
	}
}

// probe says where a job is.
func (g *Group) probe(m *wire.Probe) wire.Answer {
	if !g.IsLeader() {
		return g.elsewhere()
	}
	g.mu.RLock()
	defer g.mu.RUnlock()
	a := wire.Answer{}
	if j := g.state.jobs[m.Job]; j != nil {
		a = j.answer(wire.OK, "")
	}
	a.Term, a.Index = g.state.Applied()
	return a
}

// scan answers rows of a table in key order, as of some moment after the
// request arrived.
func (g *Group) scan(ctx context.Context, m *wire.Scan, r Request) {
	if !g.IsLeader() || g.fresh.wait(ctx) != nil {
		g.reply(r, g.elsewhere())
		return
	}
	body, a := g.rows(m)
	g.reply(r, a, body)
}

func (g *Group) rows(m *wire.Scan) ([]byte, wire.Answer) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	j := g.state.jobs[m.Job]
	if j == nil || g.ended {
		return nil, wire.Answer{Status: wire.Unknown, Detail: fmt.Sprintf("job %q is unknown here", m.Job)}
	}
	t := j.table(m.Table)
	if t == nil {
		return nil, j.answer(wire.Refused, fmt.Sprintf("table %d of job %q does not exist here", m.Table, m.Job))
	}
	a := j.answer(wire.OK, "")
	a.Term, a.Index = g.state.Applied()
	return scanTable(nil, t, m.After, m.First, int(min(m.Limit, maxScanRows))), a
}
