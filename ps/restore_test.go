package ps_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"hcclps/ps"
	"hcclps/ps/layout"
	"hcclps/ps/reach"
	"hcclps/ps/restore"
	"hcclps/ps/wire"
)

// reachable is the cluster as an operator finds it.
func (c *cluster) reachable() *reach.Cluster { return reach.New(c.client, c.layout) }

// bring restores the newest checkpoint of a folder.
func (c *cluster) bring(ctx context.Context, dir string) (restore.Report, error) {
	c.t.Helper()
	ck, closing, err := restore.Source{Dir: dir}.Open(ctx, "")
	if err != nil {
		return restore.Report{}, err
	}
	report, err := restore.Run(ctx, restore.Config{From: ck, Dir: dir, To: c.reachable()})
	return report, errors.Join(err, closing())
}

// shape is a number of shards and of servers.
type shape struct{ shards, servers int }

func (s shape) config(cfg *ps.Config) { cfg.Shards, cfg.LogBudget = s.shards, 4<<20 }

// saveAs trains a few steps on a cluster, keeps it before the last, and tells what was there, and after one step more.
func saveAs(t *testing.T, s shape, dir string) (want, next map[uint64]string) {
	t.Helper()
	c := newCluster(t, s.servers, func(_ int, cfg *ps.Config) {
		s.config(cfg)
		cfg.Checkpoint = ps.CheckpointConfig{Dir: dir, Rate: -1}
	})
	defer c.close()
	c.startAll()
	w := newCrowd(c, 2)
	w.step()
	p := c.save()
	for w.workers[0].step < p.T {
		w.step()
	}
	want = w.rows()
	w.step()
	c.committed(p.Checkpoint)
	return want, w.rows()
}

// TestRestoreOnAnyShape saves on N shards and M servers and restores on others: rows, slots, clocks, records and cursors are the
// same, and one more step has the same result. PROOF=full takes every pair of a save and a restore, else a few.
func TestRestoreOnAnyShape(t *testing.T) {
	t.Parallel()
	var shapes []shape
	for _, shards := range []int{1, 2, 4, 8} {
		for _, servers := range []int{1, 2, 3, 5, 8} {
			shapes = append(shapes, shape{shards, servers})
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	pairs := 4
	if os.Getenv("PROOF") == "full" {
		pairs = len(shapes)
	}
	r.Shuffle(len(shapes), func(i, j int) { shapes[i], shapes[j] = shapes[j], shapes[i] })
	for i := range pairs {
		from, to := shapes[i], shapes[(i+1)%len(shapes)]
		t.Run(fmt.Sprintf("%d shards on %d to %d on %d", from.shards, from.servers, to.shards, to.servers), func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "checkpoints")
			synctest.Test(t, func(t *testing.T) {
				want, next := saveAs(t, from, dir)
				c := newCluster(t, to.servers, func(_ int, cfg *ps.Config) { to.config(cfg) }).up()
				report, err := c.bring(t.Context(), dir)
				if err != nil {
					t.Fatal(err)
				}
				w := newCrowd(c, 2)
				if report.Rows != uint64(len(want)) || w.workers[1].step != report.Step {
					t.Errorf("restored %+v, want %d rows; a worker goes on at step %d", report, len(want), w.workers[1].step)
				}
				w.wantRows("restored", want)
				for _, s := range w.workers {
					s.wantDuplicate()
				}
				w.step()
				if _, err := c.bring(t.Context(), dir); err != nil {
					t.Errorf("the same restore once more: %v", err)
				}
				w.wantRows("a step later", next)
			})
		})
	}
}

// wantDuplicate sends the last step again: it counts once.
func (s *session) wantDuplicate() {
	s.c.t.Helper()
	for i := range s.c.layout.Shards {
		g := layout.GroupOf(i)
		a, _ := s.c.message(g, &wire.Push{Target: s.target(g), Step: s.step - 1, Parts: 1, Rows: 5})
		if !a.Duplicate || a.Done != s.step {
			s.c.t.Errorf("group %d: the last step sent again: %+v", g, a)
		}
		f, _ := s.c.message(g, &wire.Fence{Target: s.target(g), Params: s.params, Rank: s.rank, Owner: "again"})
		if len(f.Cursor) != 8 || binary.LittleEndian.Uint64(f.Cursor) != s.step {
			s.c.t.Errorf("group %d: cursor %x of a worker at step %d", g, f.Cursor, s.step)
		}
	}
}

// A cluster that is started with a checkpoint begins with it; who opens the job before
// it is there waits.
func TestClusterBeginsWithACheckpoint(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "checkpoints")
	synctest.Test(t, func(t *testing.T) {
		want, _ := saveAs(t, shape{4, 3}, dir)
		c := newCluster(t, 2, func(_ int, cfg *ps.Config) {
			cfg.Restore, cfg.Checkpoint.Dir = dir, dir
		}).up()
		w := newCrowd(c, 2)
		w.wantRows("begun with", want)
		w.step()
		c.halt(0)
		c.start(0)
		c.ready()
		p := c.save() // beside the old ones
		for w.workers[0].step <= p.T {
			w.step()
		}
		c.committed(p.Checkpoint)
		if a, err := c.bring(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "has begun here") {
			t.Errorf("a restore onto a job that has begun: %+v, %v", a, err)
		}
	})
}

// Under another name a job may stand beside itself.
func TestRestoreUnderAnotherName(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "checkpoints")
	synctest.Test(t, func(t *testing.T) {
		saveAs(t, shape{2, 1}, dir)
		c := newCluster(t, 1, nil).up()
		w := newCrowd(c, 2)
		w.step()
		ck, closing, err := restore.Source{Dir: dir}.Open(t.Context(), "j")
		if err != nil {
			t.Fatal(err)
		}
		defer closing() //nolint:errcheck // only read
		if _, err := restore.Run(t.Context(), restore.Config{From: ck, Dir: dir, Job: "k", To: c.reachable()}); err != nil {
			t.Fatal(err)
		}
		r := control[wire.OpenReply](c, wire.KindOpen, wire.OpenRequest{Job: "k", Worker: "w0", Params: w.params, Owner: "test"})
		if r.Restored == nil || r.Restored.Dir != dir || r.Restored.Step != 3 || len(r.Tables) != 2 {
			t.Errorf("the job under its new name: %+v", r)
		}
		_, body := c.message(1, &wire.Scan{Target: wire.Target{Group: 1, Job: "k"}, Table: 2, First: true, Limit: 10_000})
		rows, err := wire.DecodeRows(body)
		if err != nil || len(rows) == 0 {
			t.Fatalf("%d rows: %v", len(rows), err)
		}
		for _, row := range rows {
			if row.Writer > 4 {
				t.Errorf("row %d was written by number %d, of 4 workers", row.Key, row.Writer)
			}
		}
	})
}

// A bsp job goes on with more workers, or fewer: all of them at its clock, and with the position in the data of all.
func TestRestoreWithOtherWorkers(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "checkpoints")
	synctest.Test(t, func(t *testing.T) {
		want, _ := saveAs(t, shape{2, 1}, dir)
		for _, world := range []int{1, 5} {
			c := newCluster(t, 1, func(_ int, cfg *ps.Config) { cfg.Restore, cfg.RestoreWorld = dir, world })
			c.startAll()
			w := newCrowd(c, world)
			w.wantRows(fmt.Sprint(world, " workers"), want)
			for _, s := range w.workers {
				s.wantDuplicate()
			}
			w.step()
			for _, g := range c.nodes[0].server.Status(false).Groups[1:] {
				if j := g.Jobs[0]; j.Clock != 4 || j.Applied != 4*uint64(world) {
					t.Errorf("group %d: clock %d, %d pushes applied, want 4 and 4 of each worker", g.Group, j.Clock, j.Applied)
				}
			}
			c.close()
		}
	})
}
