package ps_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/ps"
	"hcclps/ps/layout"
	"hcclps/ps/wire"
)

// leader is the index of the server that leads a group.
func (c *cluster) leader(group uint32) int {
	c.t.Helper()
	for range 1000 {
		for i, n := range c.nodes {
			if n == nil {
				continue
			}
			for _, g := range n.server.Status(false).Groups {
				if g.Group == group && g.State == "leader" {
					return i
				}
			}
		}
		<-time.After(50 * time.Millisecond)
	}
	c.t.Fatalf("group %d has no leader", group)
	return -1
}

// caughtUp waits until a server has applied what any has: a push is
// acknowledged when some have it.
func (c *cluster) caughtUp(i int) {
	c.t.Helper()
	want := map[uint32]uint64{}
	for _, n := range c.nodes {
		for _, g := range n.server.Status(false).Groups {
			want[g.Group] = max(want[g.Group], g.Applied)
		}
	}
	for range 1000 {
		<-time.After(50 * time.Millisecond) // Raft counts what the state machine is given
		behind := false
		for _, g := range c.nodes[i].server.Status(false).Groups {
			behind = behind || g.Applied < want[g.Group]
		}
		if !behind {
			return
		}
	}
	c.t.Fatalf("server %d is behind: %v", i+1, want)
}

func TestLeadersDieBetweenPushes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, nil).up()
		s := c.open("a", 0, asp1)
		for group := range uint32(3) { // the meta group too
			dead := c.leader(group)
			c.crash(dead)
			begin := time.Now()
			s.push()
			if d := time.Since(begin); d > 3*time.Second {
				t.Errorf("push after the death of the leader of group %d took %v", group, d)
			}
			c.start(dead)
			c.ready()
		}
		s.push()
		s.want(4)
	})
}

func TestPlanWhileAShardHasNoQuorum(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5, func(_ int, cfg *ps.Config) { cfg.Replicas = 3 }).up()
		s := c.open("a", 0, wire.JobParams{World: 1, Parts: 1})
		s.push()
		// Group 2 loses two of three replicas that the meta group can spare.
		var dead []int
		for i, m := range c.layout.Members {
			if slices.Contains(c.layout.Replicas(2), m.ID) && (!slices.Contains(c.layout.Meta, m.ID) || len(dead) == 1) && len(dead) < 2 {
				dead = append(dead, i)
			}
		}
		for _, i := range dead {
			c.crash(i)
		}
		asked := make(chan wire.Plan, 1)
		go func() {
			asked <- control[wire.Plan](c, wire.KindPlan, wire.PlanRequest{
				SessionRef: wire.SessionRef{Job: "j", Worker: "a", Incarnation: 1}, Plan: wire.Plan{Kind: wire.PlanRate, Rate: 2},
			})
		}()
		<-time.After(5 * time.Second)
		select {
		case p := <-asked:
			t.Fatalf("plan %+v is in force though a shard cannot hold it", p)
		default:
		}
		c.crash(c.leader(layout.MetaGroup)) // the next meta leader goes on with the plan, if it had begun
		for i, n := range c.nodes {
			if n == nil {
				c.start(i)
			}
		}
		c.ready()
		p := <-asked
		for s.step < p.T {
			s.push()
		}
		s.want(float32(p.T)) // rate 1 before T
		s.push()
		s.want(float32(p.T) + 2)
	})
}

func TestExpelledByLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, func(_ int, cfg *ps.Config) { cfg.Lease = 3 * time.Second }).up()
		bsp := wire.JobParams{World: 2, Parts: 1}
		a, b := c.open("a", 0, bsp), c.open("b", 1, bsp)
		done := make(chan struct{})
		go func() { // b takes part in step 0 and dies
			b.push()
			close(done)
		}()
		a.push()
		<-done
		pushed := make(chan struct{})
		go func() {
			a.push() // waits for b until its lease ends
			close(pushed)
		}()
		begin := time.Now()
		for waiting := true; waiting; {
			control[struct{}](c, wire.KindRenew, wire.RenewRequest{SessionRef: wire.SessionRef{Job: "j", Worker: "a", Incarnation: a.inc}})
			select {
			case <-pushed:
				waiting = false
			case <-time.After(time.Second):
			}
			if time.Since(begin) > time.Minute {
				t.Fatal("the step still waits for a worker that is gone")
			}
		}
		if d := time.Since(begin); d < time.Second {
			t.Errorf("the step waited %v for a worker with a lease of 3s", d)
		}
		a.want(2)
		st := c.nodes[c.leader(0)].server.Status(true).Groups[0].Jobs[0]
		if got := st.Workers[1].State; got != "expelled" {
			t.Errorf("state of b: %s, want expelled", got)
		}
		b = c.open("b", 1, bsp)
		if b.inc != 2 {
			t.Errorf("b: incarnation %d, want 2", b.inc)
		}
	})
}

func TestGroupsOnSomeServersOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5, func(_ int, cfg *ps.Config) { cfg.Replicas, cfg.Shards = 3, 4 }).up()
		s := c.open("a", 0, asp1)
		s.push()
		s.want(1)
		// A server that has no replica of a group says who has.
		group := uint32(1)
		for _, m := range c.layout.Members {
			if slices.Contains(c.layout.Replicas(group), m.ID) {
				continue
			}
			reply, err := c.client.Call(t.Context(), m.Addr, callOf(&wire.Probe{Group: group, Job: "j"}))
			if err != nil {
				t.Fatal(err)
			}
			a, err := wire.DecodeAnswer(reply.Head)
			if err != nil || a.Status != wire.NotLeader || !slices.Contains(c.layout.Replicas(group), a.Leader) {
				t.Errorf("server %s: %v, hint %q, %v", m.Name, a.Status, a.Leader, err)
			}
		}
	})
}

func TestDamagedFilesAreNamedAndTheOthersGoOn(t *testing.T) {
	t.Parallel()
	for name, pattern := range map[string]string{
		"log":       "logs/s2/group-1/*.seg*",
		"meta log":  "s2/log/group-0/*.seg*",
		"snapshots": "s2/snapshots/group-2/manifest-*",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 3, nil).up()
				s := c.open("a", 0, asp1)
				s.push()
				c.caughtUp(1)
				if err := c.nodes[1].server.Snapshot(t.Context()); err != nil {
					t.Fatal(err)
				}
				c.halt(1)
				file := damage(t, filepath.Join(c.dir, pattern))
				n := c.start(1)
				err := <-n.ended
				n.cancel()
				c.nodes[1] = nil
				if err == nil || !strings.Contains(err.Error(), filepath.Base(file)) || !strings.Contains(err.Error(), "refused") {
					t.Errorf("a server with %s damaged: %v", filepath.Base(file), err)
				}
				s.push()
				s.want(2)
			})
		})
	}
}

// damage flips bytes all over the first half of a file.
func damage(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		all, _ := filepath.Glob(filepath.Join(filepath.Dir(pattern), "*"))
		t.Fatalf("no file %s: %v (%v)", pattern, all, err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for i := 8; i < len(b)/2; i += 16 {
		b[i] ^= 0x55
	}
	if err := os.WriteFile(files[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	return files[0]
}

func TestScratch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, func(_ int, cfg *ps.Config) { cfg.Scratch = true }).up()
		s := c.open("a", 0, asp1)
		s.push()
		s.want(1)
		for _, g := range c.nodes[0].server.Status(false).Groups {
			if g.Group > 0 && !strings.Contains(g.Durable, "nothing survives") {
				t.Errorf("group %d: durability %q", g.Group, g.Durable)
			}
		}
	})
}

func TestUnreplicatedServerKeepsItsDataOnDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, func(_ int, cfg *ps.Config) { cfg.LogDir = "" }).up()
		s := c.open("a", 0, asp1)
		s.push()
		if got := c.nodes[0].server.Status(false).Groups[1].Durable; got != ps.QuorumDisk {
			t.Errorf("durability %q, want %q", got, ps.QuorumDisk)
		}
		if _, err := os.Stat(filepath.Join(c.dir, "s1", "log", "group-1")); err != nil {
			t.Errorf("log of a shard: %v", err)
		}
		c.crash(0)
		c.start(0)
		c.ready()
		s.push()
		s.want(2)
	})
}

func TestDataDirectoryMoves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		moved := ""
		c := newCluster(t, 1, func(_ int, cfg *ps.Config) { cfg.LogDir, cfg.Dir = "", cfg.Dir+moved }).up()
		s := c.open("a", 0, asp1)
		s.push()
		c.halt(0)
		moved = "-moved"
		if err := os.Rename(filepath.Join(c.dir, "s1"), filepath.Join(c.dir, "s1-moved")); err != nil {
			t.Fatal(err)
		}
		c.start(0)
		c.ready()
		s.push()
		s.want(2)
	})
}

func TestLogDirectoryCannotChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		where := "logs"
		c := newCluster(t, 3, func(i int, cfg *ps.Config) {
			if i == 1 {
				cfg.LogDir = filepath.Join(filepath.Dir(cfg.Dir), where, cfg.Name)
			}
		}).up()
		c.halt(1)
		where = "elsewhere"
		n := c.start(1)
		err := <-n.ended
		n.cancel()
		c.nodes[1] = nil
		if err == nil || !strings.Contains(err.Error(), "elsewhere") || !strings.Contains(err.Error(), "logs/s2") {
			t.Errorf("logs looked for in another folder: %v", err)
		}
	})
}
