package meta

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"hcclps/ps/layout"
	"hcclps/ps/wire"
)

// Status is this replica's view; with waiting, a leader says which shards a plan waits for.
func (g *Group) Status(waiting bool) wire.GroupStatus {
	st := g.node.Status()
	out := wire.GroupStatus{
		State: st.State, Leader: st.Leader, Term: st.Term, Applied: st.Applied, Last: st.Last,
		LogBytes: st.LogBytes, Elections: st.Elections, Durable: "quorum-disk",
	}
	g.read(func(s *state) {
		for _, name := range slices.Sorted(maps.Keys(s.Jobs)) {
			job := wire.JobStatus{Job: name}
			for _, w := range s.Jobs[name].Workers {
				job.Workers = append(job.Workers, wire.WorkerStatus{
					Worker: w.Name, Rank: w.Rank, Incarnation: w.Incarnation, State: string(w.State), Owner: w.Owner,
				})
			}
			out.Jobs = append(out.Jobs, job)
		}
	})
	if l := g.leader.Load(); l != nil && waiting {
		for i := range out.Jobs {
			out.Jobs[i].Waiting = append(l.waiting(out.Jobs[i].Job), l.saves(out.Jobs[i].Job)...)
		}
	}
	return out
}

// saves says what the checkpoint of a job waits for.
func (l *leader) saves(job string) []wire.Wait {
	s := l.getSaver()
	if s == nil || s.job != job {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := wire.Wait{Who: "meta group", What: fmt.Sprintf("checkpoint %d, before step %d", s.id, s.step), Since: time.Since(s.since)}
	for _, group := range slices.Sorted(maps.Keys(s.parts)) {
		if p := s.parts[group]; p.State != wire.PartDone {
			w.For = append(w.For, fmt.Sprintf("%s (%s)", layout.GroupName(group), p.State))
		}
	}
	if len(w.For) == 0 {
		w.For = []string{"what workers bring, and the folder"}
	}
	return []wire.Wait{w}
}

// show says what a job's plan waits for, nil for nothing.
func (l *leader) show(job string, p *progress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flying[job] = p
}

// answered takes a group off the list of those that are missing.
func (p *progress) answered(group uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.on = slices.DeleteFunc(p.on, func(g uint32) bool { return g == group })
}

func (l *leader) waiting(job string) []wire.Wait {
	l.mu.Lock()
	p := l.flying[job]
	l.mu.Unlock()
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	w := wire.Wait{Who: "meta group", What: p.what, Since: time.Since(p.since)}
	for _, group := range p.on {
		w.For = append(w.For, layout.GroupName(group))
	}
	return []wire.Wait{w}
}
