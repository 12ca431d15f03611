package ps_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/checkpoint"
	"hcclps/ps"
	"hcclps/ps/layout"
	"hcclps/ps/wire"
)

var bsp1 = wire.JobParams{World: 1, Parts: 1, Sync: wire.BSP}

// savingCluster is a cluster that keeps checkpoints in one folder.
func savingCluster(t *testing.T, n int, change func(cfg *ps.Config)) *cluster {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "checkpoints")
	return newCluster(t, n, func(_ int, cfg *ps.Config) {
		cfg.Checkpoint = ps.CheckpointConfig{Dir: dir, Rate: -1}
		if change != nil {
			change(cfg)
		}
	})
}

// save has a checkpoint of job j made.
func (c *cluster) save() wire.Plan {
	c.t.Helper()
	return control[wire.Plan](c, wire.KindPlan, wire.PlanRequest{SessionRef: wire.SessionRef{Job: "j"}, Plan: wire.Plan{Kind: wire.PlanCheckpoint}})
}

// saved waits until a checkpoint has ended.
func (c *cluster) saved(id uint64) wire.CheckpointStatus {
	c.t.Helper()
	for range 10_000 {
		r := control[wire.CheckpointsReply](c, wire.KindCheckpoints, wire.CheckpointsRequest{})
		for _, s := range r.Last {
			if s.ID == id {
				return s
			}
		}
		<-time.After(10 * time.Millisecond)
	}
	c.t.Fatalf("checkpoint %d does not end", id)
	return wire.CheckpointStatus{}
}

// committed waits until a checkpoint is there.
func (c *cluster) committed(id uint64) {
	c.t.Helper()
	if got := c.saved(id); got.State != "committed" {
		c.t.Fatalf("checkpoint %d is %s: %s", id, got.State, got.Why)
	}
}

// abandoned waits until a checkpoint is given up.
func (c *cluster) abandoned(id uint64, why string) {
	c.t.Helper()
	if got := c.saved(id); got.State != "abandoned" || !strings.Contains(got.Why, why) {
		c.t.Errorf("checkpoint %d ended like this: %+v, want it abandoned because %s", id, got, why)
	}
}

// folder opens the folder of checkpoints.
func (c *cluster) folder() *checkpoint.Store {
	c.t.Helper()
	store, err := ps.OpenCheckpoints(c.config(0).Checkpoint.Dir)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = store.Close() })
	return store
}

// kept are the first weights of all rows of a checkpoint, by key.
func kept(t *testing.T, store *checkpoint.Store, id uint64) (*checkpoint.Manifest, map[uint64]float32) {
	t.Helper()
	if _, err := store.Verify(t.Context(), nil, id); err != nil {
		t.Error(err)
	}
	ck, err := store.Load(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	rows := map[uint64]float32{}
	for r, err := range ck.Rows(t.Context(), checkpoint.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		if !wire.IsSeen(r.Table) {
			rows[r.Key()] = r.Weight(0)
		}
	}
	return ck.Manifest(), rows
}

// wantKept compares a checkpoint with what each of the two shards' row must be.
func (c *cluster) wantKept(id uint64, value float32) *checkpoint.Manifest {
	c.t.Helper()
	m, rows := kept(c.t, c.folder(), id)
	if len(rows) != len(c.layout.Shards) {
		c.t.Errorf("checkpoint %d has %d rows, want %d", id, len(rows), len(c.layout.Shards))
	}
	for key, v := range rows {
		if v != value {
			c.t.Errorf("checkpoint %d: row %d is %v, want %v", id, key, v, value)
		}
	}
	return m
}

func TestCheckpointBetweenTwoSteps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := savingCluster(t, 3, nil).up()
		s := c.open("a", 0, bsp1)
		s.push()
		p := c.save()
		if p.T != 3 || p.Checkpoint == 0 {
			t.Errorf("plan %+v, want a checkpoint before step 3", p)
		}
		for range 4 {
			s.push()
		}
		c.committed(p.Checkpoint)
		m := c.wantKept(p.Checkpoint, 3)
		if m.Step != 3 || m.Job != "j" || len(m.Workers) != 1 || m.Workers[0].Clock != 3 || m.Workers[0].Cursor[0] != 3 {
			t.Errorf("manifest %+v", m)
		}
		next := c.save()
		for range 3 {
			s.push()
		}
		c.committed(next.Checkpoint)
		if m := c.wantKept(next.Checkpoint, 7); m.Base == nil || m.Base.ID != p.Checkpoint {
			t.Errorf("the second checkpoint stands on %+v, want a delta to %d", m.Base, p.Checkpoint)
		}
	})
}

// Under asp each worker is kept at a step of its own, the same on all shards, and
// goes on when all shards have it.
func TestCheckpointOfWorkersThatDoNotWait(t *testing.T) {
	t.Parallel()
	for _, p := range []wire.JobParams{{World: 2, Parts: 1, Sync: wire.ASP}, {World: 2, Parts: 1, Sync: wire.SSP, Staleness: 40}} {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := savingCluster(t, 3, nil).up()
				a, b := c.open("a", 0, p), c.open("b", 1, p)
				var workers sync.WaitGroup
				train := func(s *session, steps int, every time.Duration) {
					workers.Go(func() {
						for range steps {
							s.push()
							<-time.After(every)
						}
					})
				}
				train(a, 60, 3*time.Millisecond)
				train(b, 20, 10*time.Millisecond)
				<-time.After(40 * time.Millisecond)
				plan := c.save()
				c.committed(plan.Checkpoint)
				workers.Wait()
				m, rows := kept(t, c.folder(), plan.Checkpoint)
				var steps uint64
				for _, w := range m.Workers {
					steps += w.Clock
				}
				if steps < 5 || steps > 75 || len(rows) != 2 {
					t.Errorf("%d rows of workers at %+v, want two rows in mid-run", len(rows), m.Workers)
				}
				for key, v := range rows {
					if uint64(v) != steps {
						t.Errorf("row %d has %v steps, the workers %d: %+v", key, v, steps, m.Workers)
					}
				}
				a.want(80)
			})
		})
	}
}

// The leader of a shard dies before the cut: the next one captures. After the cut
// nobody can: the checkpoint is abandoned, and training goes on.
func TestCheckpointOutlivesALeaderBeforeItsCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := savingCluster(t, 3, nil).up()
		s := c.open("a", 0, bsp1)
		s.push()
		p := c.save()
		meta := c.leader(layout.MetaGroup)
		led := slices.IndexFunc([]uint32{1, 2, 3, 4}, func(group uint32) bool { return c.leader(group) != meta })
		if led < 0 {
			t.Fatal("one server leads all groups: leaders are to be spread")
		}
		c.crash(c.leader(uint32(led + 1)))
		for range 3 {
			s.push()
		}
		c.committed(p.Checkpoint)
		c.wantKept(p.Checkpoint, 3)
	})
}

func TestCheckpointIsAbandonedWithItsLeader(t *testing.T) {
	t.Parallel()
	for _, group := range []uint32{2, layout.MetaGroup} {
		t.Run(fmt.Sprint("group ", group), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				slow := int64(1)
				c := savingCluster(t, 3, func(cfg *ps.Config) { cfg.Checkpoint.Rate = slow }).up()
				s := c.open("a", 0, bsp1)
				s.push()
				p := c.save()
				for range 3 {
					s.push()
				}
				slow = -1
				i := c.leader(group)
				c.crash(i)
				s.push()
				c.abandoned(p.Checkpoint, "leader")
				c.start(i)
				c.ready()
				p = c.save()
				for range 3 {
					s.push()
				}
				c.committed(p.Checkpoint)
				c.wantKept(p.Checkpoint, 7)
				left, err := filepath.Glob(filepath.Join(c.config(0).Checkpoint.Dir, "intent-*"))
				if err != nil || len(left) != 0 {
					t.Errorf("files of the abandoned one: %v, %v", left, err)
				}
			})
		})
	}
}

// A folder that cannot be written into costs the checkpoint, not the training.
func TestCheckpointWithoutItsFolder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := savingCluster(t, 1, nil).up()
		s := c.open("a", 0, bsp1)
		s.push()
		dir := c.config(0).Checkpoint.Dir
		if err := os.Rename(dir, dir+"-away"); err != nil {
			t.Fatal(err)
		}
		p := c.save()
		for range 3 {
			s.push()
		}
		c.abandoned(p.Checkpoint, dir)
		if err := os.Rename(dir+"-away", dir); err != nil {
			t.Fatal(err)
		}
		p = c.save()
		for range 3 {
			s.push()
		}
		c.committed(p.Checkpoint)
		c.wantKept(p.Checkpoint, 6)
	})
}

func TestScheduledCheckpoints(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := savingCluster(t, 1, func(cfg *ps.Config) { cfg.Checkpoint.EverySteps, cfg.Checkpoint.Keep = 10, 2 }).up()
		s := c.open("a", 0, bsp1)
		for range 100 {
			s.push()
			<-time.After(200 * time.Millisecond)
		}
		<-time.After(5 * time.Second)
		all, err := c.folder().List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		newest := all[len(all)-1]
		if newest.Step < 80 || newest.Number < 6 {
			t.Errorf("the newest checkpoint is number %d, of step %d", newest.Number, newest.Step)
		}
		for _, m := range all {
			if m.Step%10 != 0 {
				t.Errorf("checkpoint %d is of step %d, want a multiple of 10", m.ID, m.Step)
			}
		}
		c.wantKept(newest.ID, float32(newest.Step))
	})
}

func TestNoCheckpointWithoutAFolder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, nil).up()
		s := c.open("a", 0, bsp1)
		s.push()
		head, err := wire.Control(wire.KindPlan, wire.PlanRequest{SessionRef: wire.SessionRef{Job: "j"}, Plan: wire.Plan{Kind: wire.PlanCheckpoint}})
		if err != nil {
			t.Fatal(err)
		}
		if a, _ := c.call(layout.MetaGroup, head); a.Status != wire.Refused || !strings.Contains(a.Detail, "--checkpoint-dir") {
			t.Errorf("asked for a checkpoint: %+v", a)
		}
		s.push()
		s.want(2)
	})
}
