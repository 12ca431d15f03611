package ps_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"hcclps/p2p/backend"
	"hcclps/p2p/inproc"
	"hcclps/p2p/link"
	"hcclps/ps"
	"hcclps/ps/layout"
	"hcclps/ps/wire"
)

// cluster is some servers on one network, and a client.
type cluster struct {
	t      *testing.T
	net    *inproc.Network
	dir    string
	addrs  []string
	change func(i int, cfg *ps.Config)
	nodes  []*node
	client *link.Client
	layout layout.Layout
	stop   context.CancelFunc
	ended  chan error
}

// node is one server, through its lives.
type node struct {
	server *ps.Server
	cancel context.CancelFunc
	ended  chan error
}

func newCluster(t *testing.T, n int, change func(i int, cfg *ps.Config)) *cluster {
	t.Helper()
	c := &cluster{t: t, net: inproc.NewNetwork(), dir: t.TempDir(), change: change, nodes: make([]*node, n), ended: make(chan error, 1)}
	for i := range n {
		c.addrs = append(c.addrs, fmt.Sprintf("h%d:7000", i+1))
	}
	var err error
	c.client, err = link.NewClient(link.Config{Network: c.net.Host("worker"), Pair: backend.Pair, Cluster: "test", ID: "w"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.stop = cancel
	go func() { c.ended <- c.client.Run(ctx) }()
	return c
}

func (c *cluster) config(i int) ps.Config {
	name := fmt.Sprintf("s%d", i+1)
	cfg := ps.Config{
		Cluster: "test", Name: name, Dir: filepath.Join(c.dir, name), Listen: c.addrs[i], Peers: c.addrs,
		Network: c.net.Host(fmt.Sprintf("h%d", i+1)), Shards: 2, LogBudget: 4 << 20, Durability: ps.QuorumMemory,
		LogDir: filepath.Join(c.dir, "logs", name), Memory: 1 << 30,
	}
	if c.change != nil {
		c.change(i, &cfg)
	}
	return cfg
}

func (c *cluster) start(i int) *node {
	c.t.Helper()
	s, err := ps.New(c.config(i))
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n := &node{server: s, cancel: cancel, ended: make(chan error, 1)}
	go func() { n.ended <- s.Run(ctx) }()
	c.nodes[i] = n
	return n
}

func (c *cluster) startAll() {
	c.t.Helper()
	for i := range c.nodes {
		c.start(i)
	}
	c.ready()
}

// up starts all servers; they halt when the test ends.
func (c *cluster) up() *cluster {
	c.t.Helper()
	c.t.Cleanup(c.close)
	c.startAll()
	return c
}

func (c *cluster) ready() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, n := range c.nodes {
		if n == nil {
			continue
		}
		if err := n.server.Ready(ctx); err != nil {
			select {
			case end := <-n.ended:
				c.t.Fatalf("%v; it ended: %v", err, end)
			default:
				c.t.Fatal(err)
			}
		}
		if c.layout.Epoch == 0 { // members never change; calls may be under way
			c.layout = n.server.Layout()
		}
	}
}

// halt ends a server in good order.
func (c *cluster) halt(i int) {
	c.t.Helper()
	n := c.nodes[i]
	c.nodes[i] = nil
	n.cancel()
	if err := <-n.ended; err != nil {
		c.t.Errorf("server %d: %v", i+1, err)
	}
}

func (c *cluster) crash(i int) {
	c.t.Helper()
	n := c.nodes[i]
	c.nodes[i] = nil
	n.server.Crash()
	if err := <-n.ended; !errors.Is(err, ps.ErrCrashed) {
		c.t.Errorf("server %d: %v, want a crash", i+1, err)
	}
	n.cancel()
}

func (c *cluster) close() {
	for i, n := range c.nodes {
		if n != nil {
			c.halt(i)
		}
	}
	c.stop()
	if err := <-c.ended; err != nil {
		c.t.Errorf("client: %v", err)
	}
}

// call asks a group until somebody answers for good.
func (c *cluster) call(group uint32, head []byte, body ...[]byte) (wire.Answer, []byte) {
	c.t.Helper()
	route := link.Route{Op: fmt.Sprintf("call group %d", group), Timeout: 30 * time.Second, Replicas: func() []string {
		var addrs []string
		for _, id := range c.layout.Replicas(group) {
			m, _ := c.layout.Member(id)
			addrs = append(addrs, m.Addr)
		}
		return addrs
	}}
	var a wire.Answer
	var out []byte
	_, err := route.Do(context.Background(), func(ctx context.Context, addr string) (link.Verdict, error) {
		reply, err := c.client.Call(ctx, addr, link.Call{Head: head, Body: body})
		if err != nil {
			return link.Next(), err
		}
		out = reply.Body
		if a, err = wire.DecodeAnswer(reply.Head); err != nil {
			return link.Fatal(), err
		}
		switch a.Status {
		case wire.NotLeader:
			m, _ := c.layout.Member(a.Leader)
			return link.Hint(m.Addr), errors.New("not leader")
		case wire.Busy, wire.Pending:
			return link.Busy(time.Duration(max(a.After, 5)) * time.Millisecond), errors.New(a.Detail)
		default:
			return link.Done(), nil
		}
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return a, out
}

func callOf(m wire.Message) link.Call { return link.Call{Head: wire.Append(nil, m)} }

func (c *cluster) message(group uint32, m wire.Message, body ...[]byte) (wire.Answer, []byte) {
	c.t.Helper()
	a, out := c.call(group, wire.Append(nil, m), body...)
	if a.Status != wire.OK {
		c.t.Fatalf("%T to group %d: %v: %s", m, group, a.Status, a.Detail)
	}
	return a, out
}

func control[T any](c *cluster, kind wire.Kind, fields any) T {
	c.t.Helper()
	head, err := wire.Control(kind, fields)
	if err != nil {
		c.t.Fatal(err)
	}
	a, body := c.call(layout.MetaGroup, head)
	if a.Status != wire.OK {
		c.t.Fatalf("request %d: %v: %s", kind, a.Status, a.Detail)
	}
	var reply T
	if len(body) > 0 {
		if err := json.Unmarshal(body, &reply); err != nil {
			c.t.Fatal(err)
		}
	}
	return reply
}

// session is a worker without the SDK: one table, gradients of ones.
type session struct {
	c      *cluster
	name   string
	rank   uint32
	params wire.JobParams
	inc    uint64
	table  uint32
	step   uint64
}

func (c *cluster) open(name string, rank uint32, p wire.JobParams) *session {
	c.t.Helper()
	s := &session{c: c, name: name, rank: rank, params: p}
	r := control[wire.OpenReply](c, wire.KindOpen, wire.OpenRequest{Job: "j", Worker: name, Rank: rank, Params: p, Owner: "test"})
	s.inc = r.Incarnation
	for g := uint32(1); g < c.layout.Groups(); g++ {
		a, _ := c.message(g, &wire.Fence{Target: s.target(g), Params: p, Rank: rank, Owner: r.Owner})
		s.step = a.Done
	}
	t := control[wire.Table](c, wire.KindTable, wire.TableRequest{
		SessionRef: wire.SessionRef{Job: "j", Worker: name, Incarnation: s.inc},
		Table:      wire.Table{Name: "t", Dim: 2, Init: "zeros", Optimizer: "sgd", Params: map[string]float64{"lr": 1}, NonFinite: "reject"},
	})
	s.table = t.ID
	return s
}

func (s *session) target(g uint32) wire.Target {
	return wire.Target{Group: g, Job: "j", Worker: s.name, Incarnation: s.inc}
}

// keys has one key a group, in the order of groups.
func (s *session) keys() map[uint32]uint64 {
	keys := map[uint32]uint64{}
	for k := uint64(0); len(keys) < len(s.c.layout.Shards); k++ {
		if g := s.c.layout.Group(k); keys[g] == 0 && k > 0 {
			keys[g] = k
		}
	}
	return keys
}

// push sends one step, to all shards at once: minus one for the session's row on
// each. In some order of its own two bsp workers would wait for each other.
func (s *session) push() {
	s.c.t.Helper()
	var shards sync.WaitGroup
	for g, key := range s.keys() {
		shards.Go(func() {
			body := wire.AppendSection(nil, wire.Section{Table: s.table, Dim: 2, Keys: []uint64{key}, Values: []float32{-1, -1}})
			s.c.message(g, &wire.Push{Target: s.target(g), Step: s.step, Parts: 1, Rows: 1, Cursor: binary.LittleEndian.AppendUint64(nil, s.step+1)}, body)
		})
	}
	shards.Wait()
	s.step++
}

// values are the rows' first weights, by group.
func (s *session) values() map[uint32]float32 {
	s.c.t.Helper()
	out := map[uint32]float32{}
	for g := range s.keys() {
		_, body := s.c.message(g, &wire.Scan{Target: s.target(g), Table: s.table, First: true, Limit: 10})
		rows, err := wire.DecodeRows(body)
		if err != nil || len(rows) != 1 {
			s.c.t.Fatalf("group %d: rows %v, %v", g, rows, err)
		}
		out[g] = rows[0].Values[0]
	}
	return out
}

func (s *session) want(v float32) {
	s.c.t.Helper()
	for g, got := range s.values() {
		if got != v {
			s.c.t.Errorf("group %d: weight %v, want %v", g, got, v)
		}
	}
}

var asp1 = wire.JobParams{World: 1, Parts: 1, Sync: wire.ASP}
