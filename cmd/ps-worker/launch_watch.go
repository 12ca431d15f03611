package main

import (
	"context"
	"fmt"
	"time"

	"hcclps/cmd/internal/program"
	"hcclps/p2p/backend"
	"hcclps/p2p/link"
	"hcclps/ps/layout"
)

// pollEvery is how often the cluster is looked at while something is awaited.
const pollEvery = 20 * time.Millisecond

// watcher looks at the cluster from outside.
type watcher struct {
	client *link.Client
	addrs  []string
	job    string
	seen   map[uint32]leadership // by group
	terms  uint64                // leaderships seen after the first of each group
}

type leadership struct {
	term   uint64
	server string
}

// view is the cluster at one moment.
type view struct {
	up      int               // servers that answered
	lead    map[uint32]string // group -> name of its leader
	applied map[uint32]uint64 // shard group -> pushes its leader has applied
	clock   uint64            // lowest clock of the shards that have a leader
	replica map[uint32]int    // group -> replicas that answered
	groups  int
}

func newWatcher(addrs []string, cluster, job string, sockets backend.Sockets) (*watcher, error) {
	network, err := backend.OpenSockets(sockets)
	if err != nil {
		return nil, err
	}
	client, err := link.NewClient(link.Config{Network: network, Pair: backend.Pair, Cluster: cluster, ID: "launch"})
	return &watcher{client: client, addrs: addrs, job: job, seen: map[uint32]leadership{}}, err
}

func (w *watcher) run(ctx context.Context) error { return w.client.Run(ctx) }

// look asks every server, at most a second.
func (w *watcher) look(ctx context.Context) view {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	v := view{lead: map[uint32]string{}, applied: map[uint32]uint64{}, replica: map[uint32]int{}}
	terms := map[uint32]uint64{}
	first := true
	for _, sv := range program.Statuses(ctx, w.client, w.addrs, false) {
		if sv.Status == nil {
			continue
		}
		v.up++
		for _, g := range sv.Status.Groups {
			v.replica[g.Group]++
			if g.State != "leader" || g.Term < terms[g.Group] {
				continue
			}
			terms[g.Group] = g.Term
			v.lead[g.Group] = sv.Status.Name
			w.note(g.Group, leadership{g.Term, sv.Status.Name})
			for _, j := range g.Jobs {
				if j.Job == w.job && g.Group != layout.MetaGroup {
					v.applied[g.Group] = j.Applied
					if first || j.Clock < v.clock {
						v.clock, first = j.Clock, false
					}
				}
			}
		}
	}
	v.groups = len(v.replica)
	return v
}

func (w *watcher) note(group uint32, l leadership) {
	old, ok := w.seen[group]
	if ok && l.term > old.term {
		w.terms++
	}
	if !ok || l.term > old.term {
		w.seen[group] = l
	}
}

// whole says that every server is up and every group has a leader.
func (v view) whole(servers int) bool {
	return v.up == servers && v.groups > 0 && len(v.lead) == v.groups
}

func (w *watcher) untilReady(ctx context.Context) error {
	return w.until(ctx, func(v view) bool { return v.whole(len(w.addrs)) })
}

func (w *watcher) until(ctx context.Context, ok func(view) bool) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		v := w.look(ctx)
		if ctx.Err() == nil && ok(v) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("watch the cluster: %d of %d servers up, %d of %d groups led: %w", v.up, len(w.addrs), len(v.lead), v.groups, context.Cause(ctx))
		}
	}
}
