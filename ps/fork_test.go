package ps_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"hcclps/ps"
	"hcclps/ps/layout"
	"hcclps/ps/restore"
	"hcclps/ps/wire"
)

// fork brings tables of the newest checkpoint of a folder into a job.
func (c *cluster) fork(ctx context.Context, dir, job string, to restore.Cluster, tables ...restore.Copy) (restore.ForkReport, error) {
	c.t.Helper()
	ck, closing, err := restore.Source{Dir: dir}.Open(ctx, "")
	if err != nil {
		return restore.ForkReport{}, err
	}
	report, err := restore.Fork(ctx, restore.ForkConfig{From: ck, Job: job, Tables: tables, To: to})
	return report, errors.Join(err, closing())
}

// table finds or makes one, as this worker.
func (s *session) tableOf(spec wire.Table) uint32 {
	s.c.t.Helper()
	ref := wire.SessionRef{Job: s.target(1).Job, Worker: s.name, Incarnation: s.inc}
	return control[wire.Table](s.c, wire.KindTable, wire.TableRequest{SessionRef: ref, Table: spec}).ID
}

// scanned are all rows of a table with their slots and sightings, by key, without their steps.
func (c *cluster) scanned(job string, table uint32) map[uint64]string {
	c.t.Helper()
	out := map[uint64]string{}
	for i := range c.layout.Shards {
		g := layout.GroupOf(i)
		_, body := c.message(g, &wire.Scan{Target: wire.Target{Group: g, Job: job}, Table: table, First: true, Limit: 10_000})
		rows, err := wire.DecodeRows(body)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, r := range rows {
			out[r.Key] = fmt.Sprint(r.Sightings, r.Values)
		}
	}
	return out
}

// withoutStep is what rows() tells of each row, without its step.
func withoutStep(rows map[uint64]string) map[uint64]string {
	out := map[uint64]string{}
	for key, row := range rows {
		_, out[key], _ = strings.Cut(row, " ")
	}
	return out
}

func (c *cluster) wantScanned(job string, table uint32, want map[uint64]string) {
	c.t.Helper()
	if got := c.scanned(job, table); !maps.Equal(got, want) {
		c.t.Errorf("table %d of job %s: %d rows, want %d, or others", table, job, len(got), len(want))
	}
}

// copied is slotted under another name.
func copied() wire.Table {
	t := slotted()
	t.Name = "copy"
	return t
}

var aCopy = restore.Copy{Table: "rows", As: "copy"}

// A table of a checkpoint comes into a cluster of another shape, into a job that nobody has opened: its workers find it, as it was.
func TestForkBeginsAJob(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "checkpoints")
	synctest.Test(t, func(t *testing.T) {
		want, _ := saveAs(t, shape{4, 1}, dir)
		c := newCluster(t, 3, func(_ int, cfg *ps.Config) { shape{2, 3}.config(cfg) }).up()
		for _, there := range []bool{false, true} { // run again it changes nothing
			report, err := c.fork(t.Context(), dir, "", c.reachable(), aCopy)
			if err != nil || report.Job != "j" || len(report.Tables) != 1 || report.Tables[0].Rows != uint64(len(want)) || report.Tables[0].There != there {
				t.Fatalf("fork: %+v, %v", report, err)
			}
		}
		for i := range 3 { // snapshots and logs hold it
			c.halt(i)
			c.start(i)
		}
		c.ready()
		w := &crowd{c: c, params: wire.JobParams{World: 2, Parts: 1}}
		for rank := range 2 {
			s := c.open(fmt.Sprintf("w%d", rank), uint32(rank), w.params)
			s.table = s.tableOf(copied())
			w.workers = append(w.workers, s)
		}
		c.wantScanned("j", w.workers[0].table, withoutStep(want))
		a, body := c.message(1, &wire.Rule{Target: w.workers[0].target(1), Table: w.workers[0].table})
		rule, err := wire.DecodeRule(body)
		if err != nil || a.Clock != 0 || rule.Steps != 3 {
			t.Errorf("clock %d, rule %+v, %v; want a job that begins, with 3 steps behind its optimizer", a.Clock, rule, err)
		}
		w.step()
		w.step()
		if again, err := c.fork(t.Context(), dir, "", c.reachable(), aCopy); err != nil || maps.Equal(c.scanned("j", w.workers[0].table), withoutStep(want)) {
			t.Errorf("once more, after steps on it: %+v, %v", again, err)
		}
	})
}

// While a job trains it gets a copy of its own table; it is another one from then on.
func TestForkIntoAJobThatRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := savingCluster(t, 1, func(cfg *ps.Config) { cfg.Shards = 2 }).up()
		w := newCrowd(c, 2)
		w.step()
		p := c.save()
		for w.workers[0].step < p.T {
			w.step()
		}
		kept := w.rows()
		w.step()
		c.committed(p.Checkpoint)
		dir := c.config(0).Checkpoint.Dir
		forked := make(chan error)
		go func() {
			_, err := c.fork(t.Context(), dir, "j", c.reachable(), aCopy)
			forked <- err
		}()
		for over := false; !over; {
			w.step()
			synctest.Wait()
			select {
			case err := <-forked:
				if err != nil {
					t.Fatal(err)
				}
				over = true
			default:
			}
		}
		now, id := w.rows(), w.workers[0].tableOf(copied())
		c.wantScanned("j", id, withoutStep(kept))
		w.step()
		c.wantScanned("j", id, withoutStep(kept))
		if maps.Equal(now, w.rows()) {
			t.Error("a step changes nothing")
		}
		p = c.save() // of both
		for w.workers[0].step <= p.T {
			w.step()
		}
		c.committed(p.Checkpoint)
		for table, why := range map[restore.Copy]string{
			{Table: "rows"}:             `a table "rows" already`,
			aCopy:                       `a table "copy" already`,
			{Table: "row", As: "x"}:     `did you mean "rows"`,
			{Table: "rows", As: "\xff"}: "want UTF-8",
		} {
			if _, err := c.fork(t.Context(), dir, "j", c.reachable(), table); err == nil || !strings.Contains(err.Error(), why) {
				t.Errorf("fork of %+v: %v, want %q", table, err, why)
			}
		}
		if _, err := c.fork(t.Context(), dir, "j", c.reachable(), restore.Copy{Table: "rows", As: "x"}, restore.Copy{Table: "copy", As: "x"}); err == nil || !strings.Contains(err.Error(), `called "x"`) {
			t.Errorf("two tables of one name: %v", err)
		}
	})
}

// Rows are in partitions of the hash seed: a cluster of another one takes no fork.
func TestForkIntoAnotherHashSeed(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "checkpoints")
	synctest.Test(t, func(t *testing.T) {
		saveAs(t, shape{1, 1}, dir)
		c := newCluster(t, 1, nil).up()
		if _, err := c.fork(t.Context(), dir, "k", seeded{c.reachable()}, aCopy); err == nil || !strings.Contains(err.Error(), "--load") {
			t.Errorf("another hash seed: %v", err)
		}
	})
}

// seeded is a cluster with another hash seed.
type seeded struct{ restore.Cluster }

func (s seeded) Layout() layout.Layout {
	l := s.Cluster.Layout()
	l.HashSeed++
	return l
}

// breakingPlans counts what is asked of the meta group too: a fork asks for its plan. The answer is lost.
type breakingPlans struct{ *breaking }

func (b breakingPlans) Meta(ctx context.Context, kind wire.Kind, fields any, body []byte) (wire.Answer, []byte, error) {
	if b.now() {
		_, _, _ = b.Cluster.Meta(ctx, kind, fields, body)
		b.end()
	}
	return b.Cluster.Meta(ctx, kind, fields, body)
}

// TestCrashesWhileForking kills a server or all of them, or breaks the fork off, at a message drawn by seed: nobody sees a half of it, and run
// again it brings the whole.
func TestCrashesWhileForking(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "checkpoints")
	var want map[uint64]string
	synctest.Test(t, func(t *testing.T) { want, _ = saveAs(t, shape{4, 1}, dir) })
	bySeed(t, 80, func(t *testing.T, seed int, r *rand.Rand) {
		t.Helper()
		c := newCluster(t, 3, nil).up()
		w := newCrowd(c, 2)
		w.step()
		before := w.rows()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		b := c.breakdown(seed, r, 7, cancel) // table, rows and end to each of two shards, and the plan
		calls := b.left
		_, err := c.fork(ctx, dir, "j", breakingPlans{b}, aCopy)
		c.ready()
		if b.left > 0 {
			t.Fatalf("nothing was broken: a fork has fewer than %d calls", calls)
		}
		t.Logf("broken at call %d: %v", calls, err)
		if _, err := c.fork(t.Context(), dir, "j", c.reachable(), aCopy); err != nil {
			t.Fatalf("once more: %v", err)
		}
		w.wantRows("beside it", before)
		c.wantScanned("j", w.workers[0].tableOf(copied()), withoutStep(want))
		w.step()
	})
}

// A table that a worker makes meanwhile has the name: what of the fork is there is given up.
func TestForkOfANameThatIsTakenMeanwhile(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "checkpoints")
	synctest.Test(t, func(t *testing.T) {
		saveAs(t, shape{1, 1}, dir)
		c := newCluster(t, 1, nil).up()
		w := newCrowd(c, 1)
		var id uint32
		_, err := c.fork(t.Context(), dir, "j", &breaking{Cluster: c.reachable(), left: int64(len(c.layout.Shards)) + 1, end: func() { id = w.workers[0].tableOf(copied()) }}, aCopy)
		if id == 0 || err == nil {
			t.Fatalf("table %d, fork: %v", id, err)
		}
		if rows := c.scanned("j", id); len(rows) > 0 {
			t.Errorf("%d rows are in the table, of the fork that failed", len(rows))
		}
		if _, err := c.fork(t.Context(), dir, "j", c.reachable(), restore.Copy{Table: "rows", As: "other"}); err != nil {
			t.Errorf("under another name: %v", err)
		}
	})
}

// A fork that one shard refuses leaves the name of a job that nobody has opened as it was: another fork, a worker and a restore can have it.
func TestForkThatIsRefused(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "checkpoints")
	synctest.Test(t, func(t *testing.T) {
		want, _ := saveAs(t, shape{1, 1}, dir)
		c := newCluster(t, 1, func(_ int, cfg *ps.Config) { cfg.Shards = 2 }).up()
		for _, job := range []string{"j", "k", "l"} {
			c.refusedFork(job)
		}
		c.halt(0)
		c.start(0)
		c.ready()
		if report, err := c.fork(t.Context(), dir, "k", c.reachable(), aCopy); err != nil {
			t.Fatalf("fork: %+v, %v", report, err)
		}
		if _, err := c.bring(t.Context(), dir); err != nil {
			t.Errorf("restore: %v", err)
		}
		c.wantScanned("j", 2, withoutStep(want))
		for _, job := range []string{"k", "l"} {
			r := control[wire.OpenReply](c, wire.KindOpen, wire.OpenRequest{Job: job, Worker: "a", Params: bsp1, Owner: "test"})
			ref := wire.SessionRef{Job: job, Worker: "a", Incarnation: r.Incarnation}
			made := control[wire.Table](c, wire.KindTable, wire.TableRequest{SessionRef: ref, Table: copied()})
			if job == "k" {
				c.wantScanned(job, made.ID, withoutStep(want))
			}
		}
	})
}

// A fork that is broken off leaves the name of a new job to a restore, run again to its end.
func TestRestoreAfterAForkThatWasBrokenOff(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "checkpoints")
	synctest.Test(t, func(t *testing.T) {
		want, _ := saveAs(t, shape{2, 1}, dir)
		c := newCluster(t, 1, func(_ int, cfg *ps.Config) { cfg.Shards = 2 }).up()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if _, err := c.fork(ctx, dir, "j", &breaking{Cluster: c.reachable(), left: 5, end: cancel}, aCopy); err == nil {
			t.Fatal("the fork was not broken off")
		}
		if _, err := c.bring(t.Context(), dir); err != nil {
			t.Fatalf("restore: %v", err)
		}
		c.halt(0)
		c.start(0)
		c.ready()
		newCrowd(c, 2).wantRows("restored", want)
		if _, err := c.fork(t.Context(), dir, "j", c.reachable(), aCopy); err != nil {
			t.Errorf("the fork, once more: %v", err)
		}
	})
}

// refusedFork brings a table to one of two shards.
func (c *cluster) refusedFork(job string) {
	c.t.Helper()
	b, err := json.Marshal(wire.ForkedTable{Table: slotted()})
	if err != nil {
		c.t.Fatal(err)
	}
	const load = 12345
	for _, piece := range []wire.RestorePiece{wire.ForkTable, wire.ForkEnd} {
		if a, _, err := c.reachable().Shard(c.t.Context(), 1, &wire.Restore{Group: 1, Job: job, Load: load, Piece: piece}, b); err != nil || a.Status != wire.OK {
			c.t.Fatal(a, err)
		}
		b = nil
	}
	p := wire.Plan{Kind: wire.PlanFork, Table: slotted(), Fork: load}
	a, _, err := c.reachable().Meta(c.t.Context(), wire.KindPlan, wire.PlanRequest{SessionRef: wire.SessionRef{Job: job}, Plan: p}, nil)
	if err != nil || a.Status != wire.Refused || !strings.Contains(a.Detail, "shard 1: ") || strings.Contains(a.Detail, "group") {
		c.t.Fatalf("the plan of a fork that one shard has: %+v, %v", a, err)
	}
}
