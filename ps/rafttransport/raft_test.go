package rafttransport_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"hcclps/p2p/inproc"
	"hcclps/p2p/link"
	"hcclps/p2p/p2ptest"
	"hcclps/p2p/sockets"
)

// bubble runs a test of a cluster of three on fake time and a network that can be cut.
func bubble(t *testing.T, groups int, test func(c *cluster, net *p2ptest.Net), options ...func(*cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		network := p2ptest.NewNet(1)
		c := newCluster(t, groups, func(id string) link.Network { return network.Host(id) })
		for _, option := range options {
			option(c)
		}
		t.Cleanup(func() {
			c.stopAll()
			if err := network.Close(); err != nil {
				t.Error(err)
			}
		})
		for _, id := range []string{"a", "b", "c"} {
			c.start(id)
		}
		c.bootstrap("a", "b", "c")
		test(c, network)
	})
}

func TestReplicate(t *testing.T) {
	bubble(t, 1, func(c *cluster, _ *p2ptest.Net) {
		t := c.t
		sizes := []int{0, 1, 1 << 10, 4 << 10, 64 << 10, 1 << 20, 4 << 20}
		for i, n := range sizes {
			c.apply(0, bytes.Repeat([]byte{byte(i + 1)}, n))
		}
		_, leader := c.leader(0)
		var futures []raft.ApplyFuture
		for i := range 200 {
			futures = append(futures, leader.Apply(bytes.Repeat([]byte{byte(i)}, 1<<10+i*500), 0))
		}
		for _, f := range futures {
			if err := f.Error(); err != nil {
				t.Fatal(err)
			}
		}
		if n := c.agree(0); n != uint64(len(sizes)+200) {
			t.Fatalf("%d entries were applied", n)
		}
	})
}

// TestLeaderLoss kills leaders; each comes back under its id at another address.
func TestLeaderLoss(t *testing.T) {
	bubble(t, 1, func(c *cluster, _ *p2ptest.Net) {
		t := c.t
		count := uint64(0)
		for range 5 {
			c.apply(0, make([]byte, 100<<10))
			count++
			id, _ := c.leader(0)
			was := c.nodes[id].addr
			begun := time.Now()
			c.stop(id)
			c.apply(0, []byte("without it"))
			count++
			if took := time.Since(begun); took > 2*time.Second {
				t.Errorf("no leader for %v", took)
			}
			if now := c.start(id).addr; now == was {
				t.Fatalf("%s is back at %s", id, now)
			}
			if n := c.agree(0); n < count {
				t.Fatalf("%d entries of %d are left", n, count)
			}
		}
	})
}

// TestPreVote cuts a follower off for so long that it would come back with a high term.
func TestPreVote(t *testing.T) {
	bubble(t, 1, func(c *cluster, network *p2ptest.Net) {
		t := c.t
		c.apply(0, []byte("x"))
		id, leader := c.leader(0)
		term := leader.CurrentTerm()
		lonely := c.others(id)[0]
		network.Partition([]string{lonely}, c.others(lonely))
		<-time.After(30 * time.Second)
		if s := c.nodes[lonely].rafts[0].State(); s == raft.Leader {
			t.Fatal("the lonely one leads")
		}
		c.apply(0, []byte("y"))
		network.Heal()
		c.agree(0)
		<-time.After(5 * time.Second)
		if now, _ := c.leader(0); now != id || leader.CurrentTerm() != term {
			t.Fatalf("leader %s in term %d, it was %s in term %d", now, leader.CurrentTerm(), id, term)
		}
	})
}

// TestPartitionedLeader cuts the leader off; the others go on, and it follows after.
func TestPartitionedLeader(t *testing.T) {
	bubble(t, 1, func(c *cluster, network *p2ptest.Net) {
		t := c.t
		c.apply(0, []byte("x"))
		id, old := c.leader(0)
		network.Partition([]string{id}, c.others(id))
		c.eventually("it steps down", func() bool { return old.State() != raft.Leader })
		c.apply(0, make([]byte, 1<<20))
		network.Heal()
		if n := c.agree(0); n < 2 {
			t.Fatalf("%d entries", n)
		}
	})
}

func TestInstallSnapshot(t *testing.T) {
	bubble(t, 1, func(c *cluster, network *p2ptest.Net) {
		t := c.t
		c.apply(0, []byte("x"))
		id, _ := c.leader(0)
		lonely := c.others(id)[0]
		network.Partition([]string{lonely}, c.others(lonely))
		<-time.After(10 * time.Second) // its connections are lost: nothing is held back on them that comes through later
		for i := range 50 {
			c.apply(0, bytes.Repeat([]byte{byte(i)}, 40<<10))
		}
		_, leader := c.leader(0)
		conf := leader.ReloadableConfig()
		conf.TrailingLogs = 1
		c.must(leader.ReloadConfig(conf))
		c.must(leader.Snapshot().Error())
		network.Heal()
		if n := c.agree(0); n != 51 {
			t.Fatalf("%d entries", n)
		}
		if list, err := c.disks[lonely][0].snaps.List(); err != nil || len(list) != 1 {
			t.Fatalf("the follower has snapshots %v, %v", list, err)
		}
		c.stop(lonely)
		c.start(lonely)
		c.apply(0, []byte("more"))
		if n := c.agree(0); n != 52 {
			t.Fatalf("%d entries after a restart from the snapshot", n)
		}
	})
}

// TestBrokenConnections replicates while connections break and bytes wait.
func TestBrokenConnections(t *testing.T) {
	bubble(t, 1, func(c *cluster, network *p2ptest.Net) {
		t := c.t
		c.apply(0, []byte("x"))
		network.Delay(3 * time.Millisecond)
		network.Break(0.02)
		for i := range 150 {
			c.apply(0, bytes.Repeat([]byte{byte(i)}, 200*i))
		}
		network.Break(0)
		if n := c.agree(0); n < 151 {
			t.Fatalf("%d entries", n)
		}
	})
}

// TestWrongRecipient lets a fresh server listen where an old one did.
func TestWrongRecipient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := inproc.NewNetwork()
		c := newCluster(t, 0, func(id string) link.Network { return network.Host(id) })
		t.Cleanup(c.stopAll)
		c.listen = "host:7000"
		a, b := c.start("fresh"), "old"
		c.listen = "other:7000"
		caller := c.start("caller")
		c.place(raft.ServerAddress(b), a.addr)
		fresh := a.mux.Group(3, newHeapLog())
		trans := caller.mux.Group(3, newHeapLog())
		var resp raft.RequestVoteResponse
		ask := func() error {
			return trans.RequestVote("old", "old", &raft.RequestVoteRequest{Term: 5}, &resp)
		}
		for range 3 {
			if err := ask(); !errors.Is(err, link.ErrWrongRecipient) || resp.Granted {
				t.Fatalf("%v, %v", err, resp)
			}
			<-time.After(time.Second)
		}
		select {
		case rpc := <-fresh.Consumer():
			t.Fatalf("raft got %v", rpc)
		default:
		}
	})
}

// TestIdleCost pins what 17 groups on 3 servers cost while nothing happens.
func TestIdleCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network, open := inproc.NewNetwork(), new(atomic.Int64)
		const groups = 17
		c := newCluster(t, groups, func(id string) link.Network { return countingNetwork{network.Host(id), open} })
		t.Cleanup(c.stopAll)
		ids := []string{"a", "b", "c"}
		for _, id := range ids {
			c.start(id)
		}
		c.bootstrap(ids...)
		for g := range groups {
			c.apply(g, []byte("x"))
			c.agree(g)
		}
		<-time.After(10 * time.Second)
		synctest.Wait()
		ours, all := goroutines("hcclps/ps/rafttransport.("), goroutines("")
		t.Logf("%d goroutines of the transport and %d connections on 3 servers with %d groups; %d goroutines in all", ours, open.Load(), groups, all)
		if ours > 100 || open.Load() > 12 {
			t.Errorf("%d goroutines, %d connections", ours, open.Load())
		}
	})
}

// TestSockets runs the cluster on real sockets and real time.
func TestSockets(t *testing.T) {
	for _, listen := range []string{"127.0.0.1:0", "unix:" + t.TempDir() + "/%s"} {
		t.Run(listen[:4], func(t *testing.T) {
			c := newCluster(t, 2, func(string) link.Network { return sockets.Network{} })
			c.listen = listen
			for _, id := range []string{"a", "b", "c"} {
				c.start(id)
			}
			c.bootstrap("a", "b", "c")
			for i, n := range []int{0, 1 << 10, 64 << 10, 1 << 20, 5 << 20} {
				for g := range 2 {
					c.apply(g, bytes.Repeat([]byte{byte(i)}, n))
				}
			}
			id, _ := c.leader(0)
			c.stop(id)
			c.apply(0, []byte("without it"))
			c.start(id)
			if n := c.agree(0); n < 6 { // more: an answer was lost
				t.Fatalf("%d entries", n)
			}
		})
	}
}

// TestLeadershipTransfer sends TimeoutNow.
func TestLeadershipTransfer(t *testing.T) {
	bubble(t, 2, func(c *cluster, _ *p2ptest.Net) {
		t := c.t
		c.apply(1, []byte("x"))
		c.agree(1)
		id, leader := c.leader(1)
		to := c.others(id)[0]
		c.must(leader.LeadershipTransferToServer(raft.ServerID(to), raft.ServerAddress(to)).Error())
		c.eventually("it leads", func() bool { now, _ := c.leader(1); return now == to })
		if !slices.Contains([]string{"a", "b", "c"}, fmt.Sprint(c.nodes[to].trans[1].LocalAddr())) {
			t.Fatal("not a server id")
		}
	})
}
