package shard

import (
	"context"
	"fmt"

	"hcclps/ps/update"
	"hcclps/ps/wire"
)

// waitLoad, in milliseconds, is when to ask again whether a load is complete.
const waitLoad = 50

// put takes rows of a load through the log, or says whether a load is complete.
func (g *Group) put(ctx context.Context, m *wire.Put, bodyLen int, r Request) wire.Answer {
	if !g.IsLeader() {
		return g.elsewhere()
	}
	if m.Wait {
		return g.loaded(m)
	}
	if why := g.refusesRows(); why != "" {
		return wire.Answer{Status: wire.Busy, After: refusedAfter, Detail: why}
	}
	if bodyLen+entryHead > g.maxEntry {
		return wire.Answer{Status: wire.Refused, Detail: fmt.Sprintf("load of job %q: %d bytes of rows, at most %d fit in the log: raise --log-budget", m.Job, bodyLen, g.maxEntry-entryHead)}
	}
	body, err := r.Body(ctx)
	if err != nil {
		return wire.Answer{Status: wire.Busy, Detail: fmt.Sprintf("receive rows: %v", err)}
	}
	logged := *m
	logged.Rows = body
	if err := g.checkPut(&logged); err != nil {
		return wire.Answer{Status: wire.Refused, Detail: fmt.Sprintf("load of job %q: %v", m.Job, err)}
	}
	return g.submit(ctx, &logged)
}

// checkPut refuses rows of other shards, which apply cannot tell.
func (g *Group) checkPut(m *wire.Put) error {
	rows, err := update.RowsOf(m)
	if err != nil {
		return err
	}
	keys := wire.Section{Table: m.Table}
	for _, r := range rows {
		keys.Keys = append(keys.Keys, r.Key)
	}
	return g.checkKeys([]wire.Section{keys})
}

// loaded says whether a load is complete in the applied state.
func (g *Group) loaded(m *wire.Put) wire.Answer {
	g.mu.RLock()
	defer g.mu.RUnlock()
	a := g.state.session(m.Job, m.Worker, m.Incarnation)
	switch {
	case a.answer.Status != wire.OK:
		return a.answer
	case a.job.Loading == m.Load && a.job.Loaded:
		return a.worker.answer(a.job, wire.OK, "")
	case a.job.untouched():
		return wire.Answer{Status: wire.Pending, After: waitLoad, Detail: fmt.Sprintf("job %q is not loaded yet", m.Job)}
	default:
		return wire.Answer{Status: wire.Refused, Detail: fmt.Sprintf("load into job %q: its clock is %d, and it was not loaded with this before", m.Job, a.job.Clock)}
	}
}

// rule answers what a table's optimizer remembers, as of some moment after the
// request arrived.
func (g *Group) rule(ctx context.Context, m *wire.Rule) (wire.Answer, []byte) {
	if !g.IsLeader() || g.fresh.wait(ctx) != nil {
		return g.elsewhere(), nil
	}
	g.mu.RLock()
	defer g.mu.RUnlock()
	j := g.state.jobs[m.Job]
	if j == nil {
		return wire.Answer{Status: wire.Unknown, Detail: fmt.Sprintf("job %q is unknown here", m.Job)}, nil
	}
	t := j.table(m.Table)
	if t == nil {
		return j.answer(wire.Refused, fmt.Sprintf("table %d of job %q does not exist here", m.Table, m.Job)), nil
	}
	return j.answer(wire.OK, ""), wire.AppendRule(nil, wire.RuleState(t.Opt))
}

// bring takes a piece of a restored job through the log.
func (g *Group) bring(ctx context.Context, m *wire.Restore, bodyLen int, r Request) wire.Answer {
	if !g.IsLeader() {
		return g.elsewhere()
	}
	if why := g.refusesRows(); why != "" {
		return wire.Answer{Status: wire.Busy, After: refusedAfter, Detail: why}
	}
	if bodyLen+entryHead > g.maxEntry {
		return wire.Answer{Status: wire.Refused, Detail: fmt.Sprintf("restore job %q: a piece of %d bytes, at most %d fit in the log: raise --log-budget", m.Job, bodyLen, g.maxEntry-entryHead)}
	}
	logged := *m
	var err error
	if logged.Data, err = r.Body(ctx); err != nil {
		return wire.Answer{Status: wire.Busy, Detail: fmt.Sprintf("receive a piece of a job: %v", err)}
	}
	if m.Piece == wire.RestorePages || m.Piece == wire.ForkPages {
		pages, err := wire.DecodePages(logged.Data)
		if err == nil {
			err = g.strayPage(pages)
		}
		if err != nil {
			return wire.Answer{Status: wire.Refused, Detail: fmt.Sprintf("restore job %q: %v", m.Job, err)}
		}
	}
	return g.submit(ctx, &logged)
}
