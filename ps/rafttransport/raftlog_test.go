package rafttransport_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"hcclps/p2p/p2ptest"
	"hcclps/ps/raftlog"
)

// countedLog is a raftlog.Log that counts what is held.
type countedLog struct {
	*raftlog.Log
	allocs, pins atomic.Int64
}

func counted(n *atomic.Int64, release func()) func() {
	n.Add(1)
	return func() {
		n.Add(-1)
		release()
	}
}

func (l *countedLog) Alloc(n int) ([]byte, func(), error) {
	buf, release, err := l.Log.Alloc(n)
	if err != nil {
		return nil, nil, err
	}
	return buf, counted(&l.allocs, release), nil
}

func (l *countedLog) Pin(entries []*raft.Log) (func(), bool) {
	release, ok := l.Log.Pin(entries)
	if !ok {
		return nil, false
	}
	return counted(&l.pins, release), true
}

func (l *countedLog) held() (allocs, pins int64) { return l.allocs.Load(), l.pins.Load() }

// openRaftlog gives a server logs of ps/raftlog.
func openRaftlog(c *cluster, dir string) *replica {
	store, err := raftlog.OpenStore(filepath.Join(dir, "store"), raftlog.Options{})
	c.must(err)
	log, err := raftlog.Open(raftlog.Config{Dir: filepath.Join(dir, "log"), Store: store, Budget: 16 << 20, SegmentSize: 4 << 20})
	c.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	var ran sync.WaitGroup
	ran.Go(func() {
		if err := log.Run(ctx); err != nil {
			c.t.Error(err)
		}
	})
	return &replica{log: &countedLog{Log: log}, stable: store.Group(0), close: func() {
		cancel()
		ran.Wait()
		if err := errors.Join(log.Close(), store.Close()); err != nil {
			c.t.Error(err)
		}
	}}
}

// TestRaftlog replicates between logs of ps/raftlog: entries of all sizes at once, loss and return of leaders, snapshots.
func TestRaftlog(t *testing.T) {
	bubble(t, 1, func(c *cluster, network *p2ptest.Net) {
		t := c.t
		count := uint64(0)
		for round := range 3 {
			_, leader := c.leader(0)
			var futures []raft.ApplyFuture
			for i := range 60 {
				size := []int{0, 1, 100, 3000, 5000, 70 << 10, 300 << 10}[i%7]
				futures = append(futures, leader.Apply(bytes.Repeat([]byte{byte(i), byte(round)}, size/2), 0))
			}
			for _, f := range futures {
				c.must(f.Error())
				count++
			}
			id, leader := c.leader(0)
			conf := leader.ReloadableConfig()
			conf.TrailingLogs = 10
			c.must(leader.ReloadConfig(conf))
			lonely := c.others(id)[0]
			network.Partition([]string{lonely}, c.others(lonely))
			for i := range 30 {
				c.apply(0, bytes.Repeat([]byte{byte(i)}, 64<<10))
				count++
			}
			_, leader = c.leader(0)
			c.must(leader.Snapshot().Error())
			network.Heal()
			if n := c.agree(0); n < count {
				t.Fatalf("%d entries of at least %d", n, count)
			}
			id, _ = c.leader(0)
			c.stop(id)
			c.apply(0, make([]byte, 1<<20))
			count++
			<-time.After(time.Second)
			c.start(id)
			if n := c.agree(0); n < count {
				t.Fatalf("%d entries of at least %d", n, count)
			}
		}
	}, func(c *cluster) { c.open = openRaftlog })
}
