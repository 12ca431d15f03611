package shard

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"hcclps/ps/wire"
)

// counters counts by job.
type counters struct {
	mu sync.Mutex
	n  map[string]uint64
}

func (c *counters) add(job string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]uint64{}
	}
	c.n[job]++
}

func (c *counters) get(job string) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[job]
}

// Status is this replica's view; waiting adds who waits for whom.
func (g *Group) Status(waiting bool) wire.GroupStatus {
	st := g.log.Status()
	out := wire.GroupStatus{
		Group: g.cfg.Group, State: st.State, Leader: st.Leader, Term: st.Term, Applied: st.Applied,
		Last: st.Last, LogBytes: st.LogBytes, Elections: st.Elections,
	}
	if g.scratch {
		out.Durable = "none (scratch)"
	}
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.scratch {
		out.Applied, out.Last = g.state.index, g.state.index
	}
	out.Digest = fmt.Sprintf("%d:%016x", g.state.index, g.state.Digest())
	for _, name := range g.state.names() {
		j := g.state.jobs[name]
		s := wire.JobStatus{Job: name, Clock: j.Clock, Applied: j.Applied, Duplicate: g.dups.get(name)}
		for _, w := range j.Workers {
			s.Workers = append(s.Workers, wire.WorkerStatus{
				Worker: w.Name, Rank: w.Rank, Incarnation: w.Incarnation, Done: w.Done, State: w.Session.String(), Owner: w.Owner, Restores: w.Restores,
			})
		}
		for _, t := range j.Tables {
			s.Tables = append(s.Tables, t.status())
		}
		for _, f := range j.Forks {
			s.Forks = append(s.Forks, f.Tab.status())
		}
		if waiting {
			s.Waiting = append(g.inbox.waits(j), g.parked.waits(j)...)
		}
		out.Jobs = append(out.Jobs, s)
	}
	return out
}

// Snapshot takes a snapshot now, as the group does by itself when its log has
// grown. A knob for tests.
func (g *Group) Snapshot(ctx context.Context) error {
	if n, ok := g.log.(replicated); ok {
		return n.Snapshot(ctx)
	}
	return nil
}

// Size is the rows and bytes of this replica's tables.
func (g *Group) Size() (rows, bytes int64) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	for _, j := range g.state.jobs {
		for _, t := range j.tabs() {
			for _, st := range t.stores() {
				bytes += st.rows.Stats().Bytes
			}
			rows += t.Rows.Stats().Rows
		}
	}
	return rows, bytes
}

// waits lists the pushes of a job that wait, and for whom. State's lock is held
// for reading.
func (b *inbox) waits(j *job) []wire.Wait {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []wire.Wait
	for ref, c := range b.all {
		if ref.job != j.Name {
			continue
		}
		w := wire.Wait{Who: ref.worker, What: fmt.Sprintf("push of step %d, part %d", ref.step, ref.part), Since: time.Since(c.since)}
		switch {
		case !c.whole:
			w.For = []string{"its body"}
		case c.proposed:
			w.For = []string{"the log"}
		case !j.Begun:
			w.For = j.unopened()
		case j.Held != nil && j.Held.T <= ref.step:
			w.For = []string{fmt.Sprintf("plan %d", j.Held.ID)}
		default:
			w.For = b.missing(j, ref.of())
		}
		out = append(out, w)
	}
	sortWaits(out)
	return out
}

// unopened names the ranks that step 0 waits for.
func (j *job) unopened() []string {
	var names []string
	for rank := range j.Params.World {
		if !slices.ContainsFunc(j.Workers, func(w *worker) bool { return w.Rank == rank }) {
			names = append(names, fmt.Sprintf("rank %d of %d to open", rank, j.Params.World))
		}
		if len(names) == maxNamed {
			return append(names, "others")
		}
	}
	return names
}

// maxNamed bounds how many of those missing are named.
const maxNamed = 8

// waitsFor says who a push that is here waits for.
func (g *Group) waitsFor(ref pushRef) string {
	g.mu.RLock()
	defer g.mu.RUnlock()
	j := g.state.jobs[ref.job]
	if j == nil {
		return fmt.Sprintf("%v waits for its job", ref)
	}
	for _, w := range g.inbox.waits(j) {
		if w.Who == ref.worker {
			return fmt.Sprintf("%v waits for %s, for %v", ref, strings.Join(w.For, ", "), w.Since.Round(time.Second))
		}
	}
	return fmt.Sprintf("%v waits", ref)
}

// pullWaitsFor says who a parked pull waits for.
func (g *Group) pullWaitsFor(spot *parkedPull) string {
	g.mu.RLock()
	defer g.mu.RUnlock()
	names := []string{spot.why.String()}
	if j := g.state.jobs[spot.m.Job]; j != nil {
		if names = append(names, j.behind(spot.m)...); !j.Begun {
			names = append(names, j.unopened()...)
		}
	}
	return fmt.Sprintf("pull of step %d waits for %s, for %v", spot.m.Step, strings.Join(names, ", "), time.Since(spot.since).Round(time.Second))
}

// missing names the workers whose contribution to a part is not here.
func (b *inbox) missing(j *job, at partRef) []string {
	var names []string
	for _, w := range j.Workers {
		if c := b.parts[at][w.Name]; j.expects(w) && (c == nil || !c.whole) {
			names = append(names, w.Name)
		}
	}
	return names
}

// waits lists the parked pulls of a job.
func (p *parking) waits(j *job) []wire.Wait {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []wire.Wait
	for spot := range p.pulls {
		if spot.m.Job != j.Name || spot.why.what == "" {
			continue
		}
		what := fmt.Sprintf("pull of step %d", spot.m.Step)
		if spot.m.Step == wire.Infinity {
			what = "pull after the last step"
		}
		out = append(out, wire.Wait{Who: spot.m.Worker, What: what, For: append([]string{spot.why.String()}, j.behind(spot.m)...), Since: time.Since(spot.since)})
	}
	sortWaits(out)
	return out
}

// behind names the workers that a pull waits for.
func (j *job) behind(m *wire.Pull) []string {
	need := m.Step
	if j.Params.Sync == wire.SSP && m.Step != wire.Infinity {
		need -= min(need, uint64(j.Params.Staleness))
	}
	var names []string
	for _, w := range j.Workers {
		if w.Session == open && w.Done < need {
			names = append(names, w.Name)
		}
	}
	return names
}

func sortWaits(w []wire.Wait) {
	slices.SortFunc(w, func(a, b wire.Wait) int {
		return strings.Compare(a.Who+" "+a.What, b.Who+" "+b.What)
	})
}
