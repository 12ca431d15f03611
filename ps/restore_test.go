package ps_test

import (
	"context"
	"testing"
	"testing/synctest"

	"hcclps/checkpoint"
	"hcclps/ps"
	"hcclps/ps/layout"
	"hcclps/ps/restore"
	"hcclps/ps/wire"
)

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
