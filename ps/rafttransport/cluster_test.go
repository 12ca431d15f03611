package rafttransport_test

import (
	"context"
	"fmt"
	"hash/crc32"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"hcclps/p2p/link"
	"hcclps/ps/rafttransport"
	"hcclps/ps/snapshot"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// replica is what a server keeps of one group while it is down.
type replica struct {
	log interface {
		raft.LogStore
		rafttransport.Log
		held() (allocs, pins int64)
	}
	stable raft.StableStore
	snaps  *snapshot.Store
	close  func() // nil: it stays open while the server is down
}

func openHeap(*cluster, string) *replica {
	return &replica{log: newHeapLog(), stable: raft.NewInmemStore()}
}

// node is a server that is up.
type node struct {
	mux    *rafttransport.Mux
	rafts  []*raft.Raft
	trans  []*rafttransport.Transport
	fsms   []*chain
	cancel context.CancelFunc
	done   sync.WaitGroup
	addr   string
}

// cluster is some servers with the same groups, on any network.
type cluster struct {
	t        testing.TB
	network  func(id string) link.Network
	listen   string // address to listen at
	groups   int
	adapt    func(*raft.Config)
	open     func(c *cluster, dir string) *replica
	lookedUp func() // called at each Resolve

	mu    sync.Mutex
	addrs map[raft.ServerAddress]string
	base  string
	disks map[string][]*replica
	nodes map[string]*node
}

func newCluster(t testing.TB, groups int, network func(id string) link.Network) *cluster {
	t.Helper()
	c := &cluster{
		t: t, network: network, listen: "%s:0", groups: groups, addrs: map[raft.ServerAddress]string{},
		base: t.TempDir(), disks: map[string][]*replica{}, nodes: map[string]*node{}, open: openHeap,
	}
	t.Cleanup(c.stopAll)
	return c
}

func (c *cluster) resolve(id raft.ServerAddress) (string, error) {
	if c.lookedUp != nil {
		c.lookedUp()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if addr, ok := c.addrs[id]; ok {
		return addr, nil
	}
	return "", fmt.Errorf("server %s is unknown", id)
}

func (c *cluster) place(id raft.ServerAddress, addr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addrs[id] = addr
}

// start brings a server up, with the replicas it has, at a new address.
func (c *cluster) start(id string) *node {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	n := &node{cancel: cancel}
	var err error
	n.mux, err = rafttransport.New(rafttransport.Config{Network: c.network(id), Cluster: "test", Self: id, Resolve: c.resolve})
	c.must(err)
	addr := c.listen
	if strings.Contains(addr, "%s") {
		addr = fmt.Sprintf(addr, id)
	}
	ln, err := c.network(id).Listen(ctx, addr)
	c.must(err)
	n.addr = ln.Addr().String()
	c.place(raft.ServerAddress(id), n.addr)
	n.done.Go(func() {
		if err := n.mux.Run(ctx); err != nil {
			c.t.Error(err)
		}
	})
	gate := &link.Gate{Identity: link.Identity{Cluster: "test", ID: id}, Handle: n.mux.Accept}
	n.done.Go(func() { _ = gate.Serve(ctx, ln) })
	for g := range c.groups {
		c.startGroup(n, id, g)
	}
	c.nodes[id] = n
	return n
}

func (c *cluster) startGroup(n *node, id string, g int) {
	c.t.Helper()
	if len(c.disks[id]) <= g {
		c.disks[id] = append(c.disks[id], nil)
	}
	if c.disks[id][g] == nil {
		dir := filepath.Join(c.base, id, fmt.Sprint(g))
		disk := c.open(c, dir)
		var err error
		disk.snaps, err = snapshot.Open(snapshot.Config{Dir: filepath.Join(dir, "snapshots")})
		c.must(err)
		c.disks[id][g] = disk
	}
	disk := c.disks[id][g]
	conf := raft.DefaultConfig()
	conf.LocalID = raft.ServerID(id)
	conf.HeartbeatTimeout, conf.ElectionTimeout, conf.LeaderLeaseTimeout = 300*time.Millisecond, 300*time.Millisecond, 200*time.Millisecond
	conf.Logger = hclog.NewNullLogger()
	if c.adapt != nil {
		c.adapt(conf)
	}
	fsm, trans := &chain{}, n.mux.Group(uint32(g), disk.log)
	r, err := raft.NewRaft(conf, fsm, disk.log, disk.stable, disk.snaps, trans)
	c.must(err)
	n.rafts, n.fsms, n.trans = append(n.rafts, r), append(n.fsms, fsm), append(n.trans, trans)
}

// bootstrap makes the servers the voters of every group. They are up.
func (c *cluster) bootstrap(ids ...string) {
	c.t.Helper()
	var conf raft.Configuration
	for _, id := range ids {
		conf.Servers = append(conf.Servers, raft.Server{Suffrage: raft.Voter, ID: raft.ServerID(id), Address: raft.ServerAddress(id)})
	}
	for _, id := range ids {
		for _, r := range c.nodes[id].rafts {
			c.must(r.BootstrapCluster(conf).Error())
		}
	}
}

// stop takes a server down. Nothing of it may be held afterwards.
func (c *cluster) stop(id string) {
	n := c.nodes[id]
	if n == nil {
		return
	}
	delete(c.nodes, id)
	for g, r := range n.rafts {
		if err := n.trans[g].Close(); err != nil {
			c.t.Error(err)
		}
		if err := r.Shutdown().Error(); err != nil {
			c.t.Error(err)
		}
	}
	n.cancel()
	n.done.Wait()
	for g, d := range c.disks[id] {
		if a, p := d.log.held(); a != 0 || p != 0 {
			c.t.Errorf("group %d of %s still holds %d allocations and %d pins", g, id, a, p)
		}
		if d.close != nil {
			d.close()
			c.disks[id][g] = nil
		}
	}
}

func (c *cluster) stopAll() {
	for id := range c.nodes {
		c.stop(id)
	}
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// eventually polls for at most a minute (of fake time in a bubble).
func (c *cluster) eventually(what string, ok func() bool) {
	c.t.Helper()
	for range 6000 {
		if ok() {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	c.t.Fatalf("it never happened that %s", what)
}

// leader waits for the leader of a group among the servers that are up.
func (c *cluster) leader(g int) (id string, r *raft.Raft) {
	c.t.Helper()
	c.eventually("there is a leader", func() bool {
		for i, n := range c.nodes {
			if n.rafts[g].State() == raft.Leader && n.rafts[g].VerifyLeader().Error() == nil {
				id, r = i, n.rafts[g]
				return true
			}
		}
		return false
	})
	return id, r
}

// apply appends data through the leader, whoever it is.
func (c *cluster) apply(g int, data []byte) {
	c.t.Helper()
	c.eventually("an entry is applied", func() bool {
		_, r := c.leader(g)
		return r.Apply(data, 0).Error() == nil
	})
}

// agree waits until all servers that are up have the leader's state, and returns its count.
func (c *cluster) agree(g int) (count uint64) {
	c.t.Helper()
	c.eventually("all servers agree", func() bool {
		id, _ := c.leader(g)
		var sum uint32
		count, sum = c.nodes[id].fsms[g].state()
		for _, n := range c.nodes {
			if k, s := n.fsms[g].state(); k != count || s != sum {
				return false
			}
		}
		return true
	})
	return count
}

// others are the servers that are up, without one.
func (c *cluster) others(id string) (list []string) {
	for other := range c.nodes {
		if other != id {
			list = append(list, other)
		}
	}
	return list
}

// goroutines counts those whose stack has text.
func goroutines(text string) int {
	buf := make([]byte, 4<<20)
	buf = buf[:runtime.Stack(buf, true)]
	count := 0
	for g := range strings.SplitSeq(string(buf), "\n\n") {
		if strings.Contains(g, text) {
			count++
		}
	}
	return count
}

// countingNetwork counts connections that are open at the dialling end.
type countingNetwork struct {
	link.Network
	open *atomic.Int64
}

func (n countingNetwork) Dial(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := n.Network.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	n.open.Add(1)
	return &countedConn{Conn: conn, open: n.open}, nil
}

type countedConn struct {
	net.Conn
	open *atomic.Int64
	once sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}
