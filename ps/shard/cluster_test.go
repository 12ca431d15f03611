package shard

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"hcclps/p2p"
	"hcclps/p2p/inproc"
	"hcclps/p2p/link"
	"hcclps/ps/layout"
	"hcclps/ps/raftlog"
	"hcclps/ps/rafttransport"
	"hcclps/ps/snapshot"
	"hcclps/ps/wire"
)

// cluster is one shard group on a few servers in this process.
type cluster struct {
	t      testing.TB
	net    *inproc.Network
	layout layout.Layout
	budget int64 // of each log
	admit  int64 // bytes of pushes
	bugs   Bugs
	change func(id string, cfg *Config) // nil: nothing
	nodes  map[string]*node             // those that are up
	dirs   map[string]string
}

type node struct {
	id     string
	group  *Group
	log    *raftlog.Log
	store  *raftlog.Store
	cancel context.CancelFunc
	done   sync.WaitGroup
	err    error // of Run
}

func newCluster(t testing.TB, ids ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, net: inproc.NewNetwork(), budget: 4 << 20, nodes: map[string]*node{}, dirs: map[string]string{}}
	var members []layout.Member
	for _, id := range ids {
		members = append(members, layout.Member{ID: id, Name: id, Addr: id + ":1"})
		c.dirs[id] = t.TempDir()
	}
	var err error
	c.layout, err = layout.New(layout.Config{Cluster: "test", Members: members, Replicas: len(ids), Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	c.layout.HashSeed = 11
	return c
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) startAll() {
	for _, m := range c.layout.Members {
		c.start(m.ID)
	}
}

// start brings a server up from its directory.
func (c *cluster) start(id string) *node {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	n := &node{id: id, cancel: cancel}
	dir := c.dirs[id]
	var err error
	n.store, err = raftlog.OpenStore(filepath.Join(dir, "store"), raftlog.Options{})
	c.must(err)
	n.log, err = raftlog.Open(raftlog.Config{Dir: filepath.Join(dir, "log"), Group: 1, Store: n.store, Budget: c.budget})
	c.must(err)
	snaps, err := snapshot.Open(snapshot.Config{Dir: filepath.Join(dir, "snap")})
	c.must(err)
	mux, err := rafttransport.New(rafttransport.Config{Network: c.net, Cluster: "test", Self: id, Resolve: func(id raft.ServerAddress) (string, error) {
		m, ok := c.layout.Member(string(id))
		if !ok {
			return "", fmt.Errorf("no server %s", id)
		}
		return m.Addr, nil
	}})
	c.must(err)
	ln, err := c.net.Listen(ctx, id+":1")
	c.must(err)
	cfg := Config{
		Group: 1, Self: id, Layout: func() layout.Layout { return c.layout }, Log: n.log, Stable: n.store.Group(1),
		Snapshots: snaps, Transport: mux.Group(1, n.log), Budget: NewBudget(c.admit), Bugs: c.bugs,
	}
	if ids := c.layout.Replicas(1); ids[0] == id {
		cfg.Bootstrap = ids
	}
	if c.change != nil {
		c.change(id, &cfg)
	}
	n.group, err = New(cfg)
	c.must(err)
	muxCtx, stopMux := context.WithCancel(context.Background())
	gate := &link.Gate{Identity: link.Identity{Cluster: "test", ID: id}, Handle: func(conn net.Conn, h link.Hello) { mux.Accept(conn, h) }}
	var below sync.WaitGroup
	below.Go(func() { _ = gate.Serve(muxCtx, ln) })
	below.Go(func() { _ = mux.Run(muxCtx) })
	n.done.Go(func() {
		n.err = n.group.Run(ctx)
		stopMux()
		below.Wait()
	})
	c.nodes[id] = n
	return n
}

// stop takes a server down; crash leaves its files as a kill -9 would.
func (c *cluster) stop(id string, crash bool) {
	c.t.Helper()
	n := c.nodes[id]
	delete(c.nodes, id)
	if crash {
		n.log.Freeze()
		n.store.Freeze()
	}
	n.cancel()
	n.done.Wait()
	if n.err != nil && !crash {
		c.t.Errorf("run %s: %v", id, n.err)
	}
	if err := n.log.Close(); err != nil && !crash {
		c.t.Errorf("close log of %s: %v", id, err)
	}
	if err := n.store.Close(); err != nil && !crash {
		c.t.Errorf("close store of %s: %v", id, err)
	}
}

func (c *cluster) stopAll() {
	for _, m := range c.layout.Members {
		if c.nodes[m.ID] != nil {
			c.stop(m.ID, false)
		}
	}
}

// leader waits for one.
func (c *cluster) leader() *node {
	c.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		for _, m := range c.layout.Members {
			if n := c.nodes[m.ID]; n != nil && n.group.IsLeader() {
				return n
			}
		}
		pause(10 * time.Millisecond)
	}
	c.t.Fatal("no leader within a minute")
	return nil
}

// pause is a wait in a bubble's time.
func pause(d time.Duration) { <-time.After(d) }

// call is a request as Serve sees it.
type call struct {
	body   []byte
	answer wire.Answer
	reply  []byte
	err    error
}

func (r *call) Body(context.Context) ([]byte, error) { return slices.Clone(r.body), nil }

// BodyTo gives the body in pieces, as they arrive.
func (r *call) BodyTo(_ context.Context, sink p2p.Sink) error {
	if sink.Len() != len(r.body) {
		return fmt.Errorf("a sink of %d bytes for a body of %d", sink.Len(), len(r.body))
	}
	const piece = 20 << 10
	for off := 0; off < len(r.body); off += piece {
		if err := sink.Take(off, r.body[off:min(off+piece, len(r.body))]); err != nil {
			return err
		}
	}
	return nil
}

// ReplyFrom asks for the body in pieces, as they are sent.
func (r *call) ReplyFrom(head []byte, src p2p.Source) error {
	body := make([]byte, src.Len())
	const piece = 1000 * 64
	for off := 0; off < len(body); off += piece {
		if err := src.Fill(off, body[off:min(off+piece, len(body))]); err != nil {
			return err
		}
	}
	return r.Reply(head, body)
}

func (r *call) Reply(head []byte, body ...[]byte) error {
	r.answer, r.err = wire.DecodeAnswer(head)
	for _, b := range body {
		r.reply = append(r.reply, b...)
	}
	return nil
}

// ask sends one request to one server.
func ask(ctx context.Context, n *node, m wire.Message, body []byte) (wire.Answer, []byte) {
	r := &call{body: body, answer: wire.Answer{Status: 255}}
	n.group.Serve(ctx, m, len(body), r)
	return r.answer, r.reply
}

// do asks until the answer is final.
func (c *cluster) do(m wire.Message, body []byte) (wire.Answer, []byte) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var last wire.Answer
	for ctx.Err() == nil {
		for _, l := range c.layout.Members {
			n := c.nodes[l.ID]
			if n == nil {
				continue
			}
			a, reply := ask(ctx, n, m, body)
			last = a
			switch a.Status {
			case wire.NotLeader, wire.Busy, wire.Pending:
				pause(5 * time.Millisecond)
			default:
				return a, reply
			}
		}
		pause(20 * time.Millisecond)
	}
	c.t.Fatalf("%T: no answer: %+v", m, last)
	return last, nil
}

// ok is do for what must succeed.
func (c *cluster) ok(m wire.Message, body []byte) (wire.Answer, []byte) {
	c.t.Helper()
	a, reply := c.do(m, body)
	if a.Status != wire.OK {
		c.t.Fatalf("%T %+v: %v: %s", m, m, a.Status, a.Detail)
	}
	return a, reply
}

// open fences world workers w0, w1, ... and creates table 1 (dim 2, sgd).
func (c *cluster) open(p wire.JobParams) {
	c.t.Helper()
	for r := range p.World {
		c.ok(&wire.Fence{Target: target(r), Params: p, Rank: r, Owner: "test"}, nil)
	}
	c.table(1, testTable(1, 2))
}

// table creates a table by plan id.
func (c *cluster) table(id uint64, t wire.Table) {
	c.t.Helper()
	c.ok(&wire.Hold{Group: 1, Job: "j", Plan: wire.Plan{ID: id, Kind: wire.PlanTable, Table: t}}, nil)
	c.ok(&wire.Release{Group: 1, Job: "j", Plan: id}, nil)
}

func target(rank uint32) wire.Target {
	return wire.Target{Group: 1, Job: "j", Worker: fmt.Sprintf("w%d", rank), Incarnation: 1}
}

// grad is a body with one row of table 1.
func grad(key uint64, v ...float32) []byte {
	return wire.AppendSection(nil, wire.Section{Table: 1, Dim: len(v), Keys: []uint64{key}, Values: v})
}

// keys is the body of a pull from table 1.
func keys(k ...uint64) []byte {
	return wire.AppendSection(nil, wire.Section{Table: 1, Keys: k})
}

// digests waits until every server has applied the same entries, and returns
// the digest of each.
func (c *cluster) digests() map[string]uint64 {
	c.t.Helper()
	out := map[string]uint64{}
	for range 2000 {
		var index []uint64
		for id, n := range c.nodes {
			n.group.mu.RLock()
			index = append(index, n.group.state.index)
			out[id] = n.group.state.Digest()
			n.group.mu.RUnlock()
		}
		if slices.Min(index) == slices.Max(index) {
			return out
		}
		pause(10 * time.Millisecond)
	}
	c.t.Fatal("servers do not reach the same index")
	return nil
}

// same demands that all servers that are up have one digest.
func (c *cluster) same() uint64 {
	c.t.Helper()
	var first uint64
	for id, d := range c.digests() {
		if first == 0 {
			first = d
		}
		if d != first {
			c.t.Fatalf("server %s has digest %x, another %x", id, d, first)
		}
	}
	return first
}
