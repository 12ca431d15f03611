package ps_test

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/checkpoint"
	"hcclps/ps"
	"hcclps/ps/layout"
	"hcclps/ps/restore"
	"hcclps/ps/wire"
)

var bsp1 = wire.JobParams{World: 1, Parts: 1, Sync: wire.BSP}

// saving is a cluster that keeps checkpoints in one folder.
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

// ended waits until a checkpoint has ended.
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

func TestCheckpointBetweenTwoSteps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := savingCluster(t, 3, nil)
		defer c.close()
		c.startAll()
		s := c.open("a", 0, bsp1)
		s.push()
		p := c.save()
		if p.T != 3 || p.Checkpoint == 0 {
			t.Errorf("plan %+v, want a checkpoint before step 3", p)
		}
		for range 4 {
			s.push()
		}
		if got := c.saved(p.Checkpoint); got.State != "committed" || got.Step != 3 {
			t.Errorf("the checkpoint ended like this: %+v", got)
		}
		store, err := checkpoint.Open(checkpoint.Config{Dir: c.config(0).Checkpoint.Dir, Owner: "test"})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		if _, err := store.Verify(t.Context(), nil); err != nil {
			t.Error(err)
		}
		ck, err := store.Load(t.Context(), p.Checkpoint)
		if err != nil {
			t.Fatal(err)
		}
		defer ck.Close()
		rows := 0
		for r, err := range ck.Rows(t.Context(), checkpoint.Query{}) {
			if err != nil {
				t.Fatal(err)
			}
			if rows++; r.Weight(0) != 3 {
				t.Errorf("row %d is %v, want 3", r.Key(), r.Weight(0))
			}
		}
		if rows != 2 {
			t.Errorf("%d rows, want 2", rows)
		}
	})
}

// target is a cluster as restore.Run sees it.
type target struct{ c *cluster }

func (t target) Layout() layout.Layout { return t.c.layout }

func (t target) Meta(_ context.Context, kind wire.Kind, fields any, body []byte) (wire.Answer, []byte, error) {
	head, err := wire.Control(kind, fields)
	if err != nil {
		return wire.Answer{}, nil, err
	}
	a, out := t.c.call(layout.MetaGroup, head, body)
	return a, out, nil
}

func (t target) Shard(_ context.Context, group uint32, m wire.Message, body []byte) (wire.Answer, []byte, error) {
	a, out := t.c.call(group, wire.Append(nil, m), body)
	return a, out, nil
}

func TestRestoreIntoAnotherCluster(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := savingCluster(t, 3, nil)
		c.startAll()
		s := c.open("a", 0, bsp1)
		for range 3 {
			s.push()
		}
		p := c.save()
		for range 3 {
			s.push()
		}
		c.saved(p.Checkpoint)
		dir := c.config(0).Checkpoint.Dir
		c.close()

		store, err := checkpoint.Open(checkpoint.Config{Dir: dir, Owner: "test"})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		ck, err := store.Load(t.Context(), p.Checkpoint)
		if err != nil {
			t.Fatal(err)
		}
		defer ck.Close()
		to := newCluster(t, 1, func(_ int, cfg *ps.Config) { cfg.Shards = 8 })
		defer to.close()
		to.startAll()
		report, err := restore.Run(t.Context(), restore.Config{From: ck, Dir: dir, To: target{to}})
		if err != nil {
			t.Fatal(err)
		}
		if report.Rows != 2 || report.Step != 5 {
			t.Errorf("restored %+v, want 2 rows of step 5", report)
		}
		again := to.open("a", 0, bsp1)
		if again.step != 5 || again.inc != 3 {
			t.Errorf("the worker goes on at step %d as incarnation %d, want 5 and 3", again.step, again.inc)
		}
		again.push()
		if a, _, err := (target{to}).Meta(t.Context(), wire.KindRestoreJob, wire.RestoreRequest{Job: "j", Load: 7}, nil); err != nil || a.Status != wire.Refused {
			t.Errorf("a restore onto a job that has begun: %+v, %v", a, err)
		}
	})
}
