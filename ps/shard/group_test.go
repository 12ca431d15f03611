package shard

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/internal/vec"
	"hcclps/ps/layout"
	"hcclps/ps/wire"
)

var ids = []string{"a", "b", "c"}

// train pushes steps [from, to) of one worker, pulling before each; the gradient
// of worker r is r+1 on key r and 1 on key 100.
func (c *cluster) train(rank uint32, p wire.JobParams, from, to uint64) {
	me := target(rank)
	var own wire.Answer
	for step := from; step < to; step++ {
		a, _ := c.ok(&wire.Pull{Target: me, Step: step, Own: step, Term: own.Term, Index: own.Index}, keys(0, 1, 2, 100))
		if a.Index < own.Index {
			c.t.Errorf("pull went back from entry %d to %d", own.Index, a.Index)
		}
		for part := range p.Parts {
			var body []byte
			if part == 0 {
				body = wire.AppendSection(nil, wire.Section{Table: 1, Dim: 2, Keys: []uint64{uint64(rank), 100}, Values: []float32{float32(rank + 1), 0, 1, 1}})
			}
			own, _ = c.ok(&wire.Push{Target: me, Step: step, Part: part, Parts: p.Parts, Rows: 1, Cursor: fmt.Appendf(nil, "c%d", step)}, body)
		}
	}
}

// rows reads weights of table 1 at the end of a step.
func (c *cluster) rows(p *wire.Pull, k ...uint64) []float32 {
	_, b := c.ok(p, keys(k...))
	return slices.Clone(vec.Floats(b))
}

func TestGroupTrainsInEveryMode(t *testing.T) {
	for _, mode := range []wire.Sync{wire.BSP, wire.SSP, wire.ASP} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, ids...)
				c.startAll()
				defer c.stopAll()
				p := wire.JobParams{World: 3, Sync: mode, Staleness: 1, Parts: 1}
				c.open(p)
				const steps = 8
				var wg sync.WaitGroup
				for r := range p.World {
					wg.Go(func() {
						c.train(r, p, 0, steps)
						c.ok(&wire.Finish{Target: target(r), Step: steps}, nil)
					})
				}
				wg.Wait()
				got := c.rows(&wire.Pull{Target: target(0), Step: wire.Infinity}, 0, 1, 2, 100)
				want := []float32{-8, 0, -16, 0, -24, 0, -24, -24}
				if mode == wire.BSP { // the mean over three rows
					want = []float32{-8. / 3, 0, -16. / 3, 0, -8, 0, -8, -8}
				}
				for i := range want {
					if d := got[i] - want[i]; d > 1e-5 || d < -1e-5 {
						t.Errorf("weights %v, want %v", got, want)
						break
					}
				}
				c.same()
				st := c.leader().group.Status(false)
				if j := st.Jobs[0]; j.Applied != steps*3 || j.Clock != steps {
					t.Errorf("status: %+v", j)
				}
			})
		})
	}
}

func TestLeaderLossLosesAndDoublesNothing(t *testing.T) {
	for _, mode := range []wire.Sync{wire.BSP, wire.ASP} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, ids...)
				c.startAll()
				defer c.stopAll()
				p := wire.JobParams{World: 2, Sync: mode, Parts: 2}
				// Keys of table 1 must lie in part 0 of 2.
				c.layout.HashSeed = seedFor(t, 0, 1, 2, 100)
				c.open(p)
				c.crashWhile(p, 12)
				got := c.rows(&wire.Pull{Target: target(0), Step: 12, Own: 12}, 100)
				want := float32(-12)
				if mode == wire.ASP {
					want = -24
				}
				if got[0] != want {
					t.Errorf("weight %v, want %v", got[0], want)
				}
				c.same()
			})
		})
	}
}

// crashWhile trains while leaders crash and come back.
func (c *cluster) crashWhile(p wire.JobParams, steps uint64) {
	for at := uint64(0); at < steps; at += 4 {
		var wg sync.WaitGroup
		for r := range p.World {
			wg.Go(func() { c.trainThrough(r, p, at, at+4) })
		}
		wg.Wait()
		dead := c.leader().id
		c.stop(dead, true)
		c.leader()
		c.start(dead)
	}
}

// trainThrough is train where each push is sent twice.
func (c *cluster) trainThrough(rank uint32, p wire.JobParams, from, to uint64) {
	for step := from; step < to; step++ {
		c.train(rank, p, step, step+1)
		a, _ := c.ok(&wire.Push{Target: target(rank), Step: step, Part: 0, Parts: p.Parts, Rows: 1, Resent: true}, grad(100, 1, 1))
		if !a.Duplicate {
			c.t.Errorf("step %d of rank %d: sent again, not a duplicate: %+v", step, rank, a)
		}
	}
}

// seedFor is a hash seed under which all keys lie in part 0 of 2.
func seedFor(t *testing.T, k ...uint64) uint64 {
	t.Helper()
	for seed := range uint64(1 << 20) {
		if !slices.ContainsFunc(k, func(k uint64) bool { return layout.PartOf(layout.Partition(k, seed), 1, 2) != 0 }) {
			return seed
		}
	}
	t.Fatal("no seed")
	return 0
}

func TestRestartFromDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, ids...)
		c.startAll()
		p := wire.JobParams{World: 1, Sync: wire.BSP, Parts: 1}
		c.open(p)
		c.train(0, p, 0, 3)
		for round, crash := range []bool{false, true} {
			for _, id := range ids {
				c.stop(id, crash)
			}
			c.startAll()
			from := uint64(3 + round)
			a, _ := c.ok(&wire.Fence{Target: target(0), Params: p, Owner: "test"}, nil)
			if want := fmt.Sprintf("c%d", from-1); a.Done != from || string(a.Cursor) != want {
				t.Fatalf("after restart: %+v, want %d steps and cursor %s", a, from, want)
			}
			c.train(0, p, from, from+1)
		}
		if got := c.rows(&wire.Pull{Target: target(0), Step: 5}, 100); got[0] != -5 {
			t.Errorf("weight %v, want -5", got[0])
		}
		c.same()
		c.stopAll()
	})
}

// big is a push body of n rows; keys begin at first.
func big(first uint64, n int) []byte {
	s := wire.Section{Table: 1, Dim: 2}
	for i := range n {
		s.Keys = append(s.Keys, first+uint64(i))
		s.Values = append(s.Values, 1, 2)
	}
	return wire.AppendSection(nil, s)
}

func TestSnapshotsCompactTheLogAndFeedAFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, ids...)
		c.startAll()
		p := wire.JobParams{World: 1, Sync: wire.ASP, Parts: 1}
		c.open(p)
		behind := ids[slices.IndexFunc(ids, func(id string) bool { return id != c.leader().id })]
		c.stop(behind, true)
		const steps = 150
		for step := range uint64(steps) {
			c.ok(&wire.Push{Target: target(0), Step: step, Parts: 1, Rows: 1}, big(step%7*1000, 5000))
		}
		first, err := c.leader().log.FirstIndex()
		c.must(err)
		if first < 10 {
			t.Fatalf("the log still begins at %d after %d entries of 80 KB", first, steps)
		}
		c.start(behind)
		c.same()
		// Everything from snapshots and logs, once more.
		for _, id := range ids {
			c.stop(id, true)
		}
		c.startAll()
		c.ok(&wire.Push{Target: target(0), Step: steps, Parts: 1, Rows: 1}, big(0, 10))
		c.same()
		if got := c.rows(&wire.Pull{Target: target(0), Own: steps + 1}, 3); got[0] != -23 {
			t.Errorf("weight %v, want -23", got)
		}
		c.stopAll()
	})
}

func TestPullsParkUntilTheClockIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, ids...)
		c.startAll()
		defer c.stopAll()
		p := wire.JobParams{World: 2, Sync: wire.BSP, Parts: 1}
		c.open(p)
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		got := make([]wire.Answer, len(ids))
		for i, id := range ids { // any replica may answer
			wg.Go(func() { got[i], _ = ask(ctx, c.nodes[id], &wire.Pull{Target: target(0), Step: 1}, keys(1)) })
		}
		synctest.Wait()
		full := make(chan wire.Answer, maxParked)
		for range maxParked { // one place is taken already
			go func() {
				a, _ := ask(ctx, c.leader(), &wire.Pull{Target: target(0), Step: 9}, keys(1))
				full <- a
			}()
		}
		if a := <-full; a.Status != wire.Busy {
			t.Errorf("pull %d of a session: %+v, want busy", maxParked+1, a)
		}
		wg.Go(func() { c.ok(&wire.Push{Target: target(0), Step: 0, Parts: 1, Rows: 1}, grad(1, 1, 1)) })
		pause(time.Second)
		waits := c.leader().group.Status(true).Jobs[0].Waiting
		for _, want := range []string{"push of step 0, part 0 [w1]", "pull of step 1 [clock 1 w0 w1]"} {
			if !slices.ContainsFunc(waits, func(w wire.Wait) bool { return fmt.Sprint(w.What, " ", w.For) == want && w.Since >= time.Second/2 }) {
				t.Errorf("waits %+v lack %q", waits, want)
			}
		}
		c.ok(&wire.Push{Target: target(1), Step: 0, Parts: 1, Rows: 1}, grad(1, 1, 1))
		wg.Wait()
		for i, a := range got {
			if a.Status != wire.OK || a.Clock != 1 {
				t.Errorf("pull at %s: %+v", ids[i], a)
			}
		}
		if a, _ := c.do(&wire.Pull{Target: target(0), Step: 0}, keys(1)); a.Status != wire.Past {
			t.Errorf("pull of the past: %+v", a)
		}
		if a, _ := c.ok(&wire.Pull{Target: target(0), Step: 1, Fresh: true}, keys(1)); a.Clock != 1 {
			t.Errorf("fresh pull: %+v", a)
		}
		cancel()
		for range maxParked - 1 {
			<-full
		}
	})
}

func TestFollowersAnswerOnlyWhatTheyHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, ids...)
		c.startAll()
		defer c.stopAll()
		p := wire.JobParams{World: 1, Sync: wire.SSP, Parts: 1}
		c.open(p)
		own, _ := c.ok(&wire.Push{Target: target(0), Step: 0, Parts: 1, Rows: 1}, grad(1, 1, 1))
		for _, n := range c.nodes {
			if n.group.IsLeader() {
				continue
			}
			a, b := ask(t.Context(), n, &wire.Pull{Target: target(0), Step: 1, Own: 1, Term: own.Term, Index: own.Index}, keys(1))
			if a.Status != wire.OK || a.Index < own.Index || vec.Floats(b)[0] != -1 {
				t.Errorf("follower: %+v %v, want own push at entry %d", a, vec.Floats(b), own.Index)
			}
			for _, m := range []wire.Message{&wire.Push{Target: target(0), Step: 1, Parts: 1}, &wire.Probe{Group: 1, Job: "j"}, &wire.Scan{Target: target(0), Table: 1}, &wire.Finish{Target: target(0), Step: 1}} {
				if a, _ := ask(t.Context(), n, m, nil); a.Status != wire.NotLeader || a.Leader != c.leader().id {
					t.Errorf("%T at a follower: %+v", m, a)
				}
			}
		}
	})
}

func TestScratchModeTrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "a")
		g, err := New(Config{Group: 1, Self: "a", Layout: func() layout.Layout { return c.layout }})
		c.must(err)
		ctx, cancel := context.WithCancel(context.Background())
		n := &node{id: "a", group: g}
		n.done.Go(func() { n.err = g.Run(ctx) })
		c.nodes["a"] = n
		p := wire.JobParams{World: 2, Sync: wire.BSP, Parts: 1}
		c.open(p)
		var wg sync.WaitGroup
		for r := range p.World {
			wg.Go(func() { c.train(r, p, 0, 5) })
		}
		wg.Wait()
		if got := c.rows(&wire.Pull{Target: target(0), Step: 5}, 100); got[0] != -5 {
			t.Errorf("weight %v, want -5", got[0])
		}
		_, b := c.ok(&wire.Scan{Target: target(0), Table: 1, First: true, Limit: 2}, nil)
		rows, err := wire.DecodeRows(b)
		if err != nil || len(rows) != 2 || rows[1].Key != 1 {
			t.Errorf("scan: %+v, %v", rows, err)
		}
		cancel()
		n.done.Wait()
		if n.err != nil {
			t.Error(n.err)
		}
		if a, _ := ask(t.Context(), n, &wire.Pull{Target: target(0), Step: 5}, keys(1)); a.Status != wire.NotLeader {
			t.Errorf("pull after the end: %+v", a)
		}
	})
}
