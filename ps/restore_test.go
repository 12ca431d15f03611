package ps_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/checkpoint"
	"hcclps/ps"
	"hcclps/ps/layout"
	"hcclps/ps/reach"
	"hcclps/ps/restore"
	"hcclps/ps/wire"
)

// slotted is a table with optimizer slots, of which a job has a few hundred rows, while some keys wait for theirs.
func slotted() wire.Table {
	return wire.Table{
		Name: "rows", Dim: 4, Init: "uniform", InitParams: map[string]float64{"low": -1, "high": 1}, Seed: 5,
		Optimizer: "adam", Params: map[string]float64{"lr": 0.1, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}, NonFinite: "reject",
		Admit: wire.Admit{Kind: wire.AdmitCount, Count: 2}, Evict: wire.Evict{Age: 3},
	}
}

// crowd is the workers of a bsp job on many rows.
type crowd struct {
	c       *cluster
	workers []*session
	params  wire.JobParams
}

// newCrowd opens them, or goes on with them.
func newCrowd(c *cluster, world int) *crowd {
	c.t.Helper()
	w := &crowd{c: c, params: wire.JobParams{World: uint32(world), Parts: 1}}
	for rank := range world {
		w.workers = append(w.workers, c.open(fmt.Sprintf("w%d", rank), uint32(rank), w.params))
	}
	for _, s := range w.workers {
		s.table = control[wire.Table](c, wire.KindTable, wire.TableRequest{
			SessionRef: wire.SessionRef{Job: "j", Worker: s.name, Incarnation: s.inc}, Table: slotted(),
		}).ID
	}
	return w
}

// step has all workers push a step, a function of its number and their ranks.
func (w *crowd) step() {
	w.c.t.Helper()
	var pushes sync.WaitGroup
	for _, s := range w.workers {
		keys := map[uint32][]uint64{}
		r := rand.New(rand.NewPCG(s.step, uint64(s.rank)))
		for k := r.Uint64N(8); k < 700; k += 1 + r.Uint64N(24) {
			keys[w.c.layout.Group(k)] = append(keys[w.c.layout.Group(k)], k)
		}
		for i := range w.c.layout.Shards {
			group := layout.GroupOf(i)
			pushes.Go(func() {
				sec := wire.Section{Table: s.table, Dim: 4, Keys: keys[group]}
				for _, k := range keys[group] {
					for j := range 4 {
						sec.Values = append(sec.Values, float32(math.Sin(float64(k*7+uint64(j)+s.step*13+uint64(s.rank)))))
					}
				}
				m := &wire.Push{Target: s.target(group), Step: s.step, Parts: 1, Rows: 5, Cursor: binary.LittleEndian.AppendUint64(nil, s.step+1)}
				w.c.message(group, m, wire.AppendSection(nil, sec))
			})
		}
	}
	pushes.Wait()
	for _, s := range w.workers {
		s.step++
	}
}

// rows are all rows with their slots, by key.
func (w *crowd) rows() map[uint64]string {
	w.c.t.Helper()
	out := map[uint64]string{}
	for i := range w.c.layout.Shards {
		g := layout.GroupOf(i)
		_, body := w.c.message(g, &wire.Scan{Target: w.workers[0].target(g), Table: w.workers[0].table, First: true, Limit: 10_000})
		rows, err := wire.DecodeRows(body)
		if err != nil {
			w.c.t.Fatal(err)
		}
		for _, r := range rows {
			out[r.Key] = fmt.Sprint(r.Step, r.Sightings, r.Values)
		}
	}
	return out
}

func (w *crowd) wantRows(what string, want map[uint64]string) {
	w.c.t.Helper()
	got := w.rows()
	if len(got) != len(want) {
		w.c.t.Errorf("%s: %d rows, want %d", what, len(got), len(want))
	}
	for key, v := range want {
		if got[key] != v {
			w.c.t.Errorf("%s: row %d is %s, want %s", what, key, got[key], v)
			return
		}
	}
}

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
				c := newCluster(t, to.servers, func(_ int, cfg *ps.Config) { to.config(cfg) })
				defer c.close()
				c.startAll()
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
		})
		defer c.close()
		c.startAll()
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
		c := newCluster(t, 1, nil)
		defer c.close()
		c.startAll()
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

// What a worker brings to a checkpoint it finds again.
func TestUploads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := savingCluster(t, 1, nil)
		c.startAll()
		dir := c.config(0).Checkpoint.Dir
		s := c.open("a", 0, bsp1)
		s.inc = control[wire.OpenReply](c, wire.KindOpen, wire.OpenRequest{Job: "j", Worker: "a", Params: bsp1, Owner: "test", State: true}).Incarnation
		for g := range s.keys() {
			c.message(g, &wire.Fence{Target: s.target(g), Params: bsp1, Owner: "test"})
		}
		s.push()
		p := c.save()
		s.push()
		told := s.pushed()
		if told.Checkpoint != p.Checkpoint || told.Cut != p.T || told.Done != p.T {
			t.Errorf("the answer to the last push before the cut is %+v, the plan %+v", told, p)
		}
		state := bytes.Repeat([]byte("residual"), 100_000)
		ref := wire.SessionRef{Job: "j", Worker: "a", Incarnation: s.inc}
		half := len(state) / 2
		piece := func(i, of uint32) wire.Answer {
			head, err := wire.Control(wire.KindUpload, wire.UploadRequest{SessionRef: ref, Checkpoint: p.Checkpoint, Piece: i, Pieces: of})
			if err != nil {
				t.Fatal(err)
			}
			a, _ := c.call(layout.MetaGroup, head, state[int(i%2)*half:][:half])
			return a
		}
		for _, s := range []struct {
			piece, of uint32
			takes     bool
		}{{1, 2, false}, {2, 2, false}, {0, 1 << 17, false}, {0, 2, true}, {0, 2, true}, {0, 3, false}, {1, 3, false}, {1, 2, true}} {
			<-time.After(20 * time.Second) // the checkpoint waits as long as there comes something
			if a := piece(s.piece, s.of); (a.Status == wire.OK) != s.takes {
				t.Fatalf("piece %d of %d: %+v", s.piece, s.of, a)
			}
		}
		c.committed(p.Checkpoint)
		id := p.Checkpoint
		if p.Checkpoint++; piece(0, 2).Detail != wire.UploadUnwanted {
			t.Error("an upload into a checkpoint whose plan was late is wanted")
		}
		p.Checkpoint = id
		if a := piece(0, 2); a.Status != wire.Refused {
			t.Errorf("an upload into a checkpoint that is over: %+v", a)
		}
		c.close()

		to := newCluster(t, 1, nil)
		defer to.close()
		to.startAll()
		if _, err := to.bring(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		s = to.open("a", 0, bsp1)
		ref.Incarnation = s.inc
		for skip, want := range [][]byte{state, state[half:], nil} {
			head, err := wire.Control(wire.KindResume, wire.ResumeRequest{SessionRef: ref, Skip: uint32(skip)})
			if err != nil {
				t.Fatal(err)
			}
			_, body := to.call(layout.MetaGroup, head)
			blobs, err := wire.DecodeBlobs(body)
			var got []byte
			for _, b := range blobs {
				got = append(got, b.Data...)
			}
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("from piece %d on %d bytes in %d blobs, want %d: %v", skip, len(got), len(blobs), len(want), err)
			}
		}
	})
}

// pushed is push of a step, and the answer of group 1.
func (s *session) pushed() (a wire.Answer) {
	s.c.t.Helper()
	for g, key := range s.keys() {
		body := wire.AppendSection(nil, wire.Section{Table: s.table, Dim: 2, Keys: []uint64{key}, Values: []float32{-1, -1}})
		got, _ := s.c.message(g, &wire.Push{Target: s.target(g), Step: s.step, Parts: 1, Rows: 1}, body)
		if g == 1 {
			a = got
		}
	}
	s.step++
	return a
}

// seeds is how many times a test by seed is run: PROOF_SEEDS, or a few.
func seeds(t *testing.T, few int) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv("PROOF_SEEDS"))
	if err != nil {
		return few
	}
	return n
}

// TestCrashesWhileSaving kills a server at a moment drawn by seed, while checkpoints are made one after the other: what is
// committed stays whole, and after a restart the next one is.
func TestCrashesWhileSaving(t *testing.T) {
	t.Parallel()
	for seed := range seeds(t, 3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(uint64(seed), 77))
				c := savingCluster(t, 3, func(cfg *ps.Config) { cfg.Checkpoint.Rate = 1 << 20 })
				defer c.close()
				c.startAll()
				w := newCrowd(c, 2)
				stop := make(chan struct{})
				var training sync.WaitGroup
				training.Go(func() {
					for {
						select {
						case <-stop:
							return
						case <-time.After(2 * time.Millisecond):
							w.step()
						}
					}
				})
				first := c.save()
				c.committed(first.Checkpoint)
				crashed := c.save()
				<-time.After(time.Duration(r.Int64N(int64(40 * time.Millisecond))))
				i := r.IntN(3)
				c.crash(i)
				end := c.saved(crashed.Checkpoint)
				t.Logf("the checkpoint in whose time server %d was killed: %s %s", i+1, end.State, end.Why)
				c.start(i)
				c.ready()
				last := c.save()
				c.committed(last.Checkpoint)
				close(stop)
				training.Wait()
				for id, there := range map[uint64]bool{first.Checkpoint: true, crashed.Checkpoint: end.State == "committed", last.Checkpoint: true} {
					if !there {
						if _, err := c.folder().Load(t.Context(), id); !errors.Is(err, checkpoint.ErrNotFound) {
							t.Errorf("checkpoint %d was %s and is there: %v", id, end.State, err)
						}
						continue
					}
					wantModel(t, c, id)
				}
			})
		})
	}
}

// wantModel compares a checkpoint with a cluster that was fed the same steps.
func wantModel(t *testing.T, c *cluster, id uint64) {
	t.Helper()
	m, rows := keptWhole(t, c.folder(), id)
	plain := newCluster(t, 1, func(_ int, cfg *ps.Config) { cfg.Scratch, cfg.Shards = true, 1 })
	defer plain.close()
	plain.startAll()
	w := newCrowd(plain, 2)
	for range m.Step {
		w.step()
	}
	_, body := plain.message(1, &wire.Scan{Target: w.workers[0].target(1), Table: w.workers[0].table, First: true, Limit: 10_000})
	want, err := wire.DecodeRows(body)
	if err != nil || len(want) != len(rows) {
		t.Fatalf("checkpoint %d of step %d has %d rows, want %d: %v", id, m.Step, len(rows), len(want), err)
	}
	for _, row := range want {
		if got := rows[row.Key]; got != fmt.Sprint(row.Step, row.Sightings, row.Values) {
			t.Errorf("checkpoint %d of step %d: row %d is %v, want %v", id, m.Step, row.Key, got, row)
			return
		}
	}
}

// keptWhole reads a checkpoint, every byte of it: rows with their slots, steps and sightings.
func keptWhole(t *testing.T, store *checkpoint.Store, id uint64) (*checkpoint.Manifest, map[uint64]string) {
	t.Helper()
	m, _ := kept(t, store, id)
	ck, err := store.Load(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	rows := map[uint64]string{}
	for r, err := range ck.Rows(t.Context(), checkpoint.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		if wire.IsSeen(r.Table) {
			continue
		}
		var values []float32
		for _, b := range [][]byte{r.Weights(), r.Slots()} {
			for ; len(b) >= 4; b = b[4:] {
				values = append(values, math.Float32frombits(binary.LittleEndian.Uint32(b)))
			}
		}
		rows[r.Key()] = fmt.Sprint(r.Step(), r.Sightings(), values)
	}
	return m, rows
}

// breaking is a cluster to which something happens while a restore talks to it.
type breaking struct {
	*reach.Cluster
	mu   sync.Mutex
	left int64 // calls before
	end  func()
}

// now counts a call, and says whether it is the one.
func (b *breaking) now() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left--
	return b.left == 0
}

func (b *breaking) Shard(ctx context.Context, group uint32, m wire.Message, body []byte) (wire.Answer, []byte, error) {
	if b.now() {
		b.end()
	}
	return b.Cluster.Shard(ctx, group, m, body)
}

// TestCrashesWhileRestoring kills a server or all of them, or breaks the restore off, at a message drawn by seed; the restore that is run again
// brings the same.
func TestCrashesWhileRestoring(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "checkpoints")
	var want map[uint64]string
	synctest.Test(t, func(t *testing.T) { want, _ = saveAs(t, shape{4, 1}, dir) })
	for seed := range seeds(t, 3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(uint64(seed), 78))
				c := newCluster(t, 3, nil)
				defer c.close()
				c.startAll()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				die, calls := []int{r.IntN(3)}, 1+r.Int64N(6)
				if seed%3 == 1 {
					die = []int{0, 1, 2}
				}
				ck, closing, err := restore.Source{Dir: dir}.Open(ctx, "")
				if err != nil {
					t.Fatal(err)
				}
				defer closing() //nolint:errcheck // only read
				_, err = restore.Run(ctx, restore.Config{From: ck, Dir: dir, To: &breaking{Cluster: c.reachable(), left: calls, end: func() {
					if seed%3 == 0 {
						cancel()
						return
					}
					for _, i := range die {
						c.crash(i)
					}
					for _, i := range die {
						c.start(i)
					}
				}}})
				c.ready()
				t.Logf("broken at call %d: %v", calls, err)
				if err != nil {
					if _, err := c.bring(t.Context(), dir); err != nil {
						t.Fatalf("once more: %v", err)
					}
				}
				newCrowd(c, 2).wantRows(fmt.Sprintf("seed %d", seed), want)
			})
		})
	}
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

// What workers said they bring is part of a bsp checkpoint; that of a hybrid job has the dense tensors, also of a worker that has finished.
func TestCheckpointWithoutAnUploadIsAbandoned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := savingCluster(t, 1, nil)
		defer c.close()
		c.startAll()
		s := c.open("a", 0, bsp1)
		open := wire.OpenRequest{Job: "j", Worker: "a", Params: bsp1, Owner: "test", State: true, Mode: wire.ModeHybrid}
		s.inc = control[wire.OpenReply](c, wire.KindOpen, open).Incarnation
		for g := range s.keys() {
			c.message(g, &wire.Fence{Target: s.target(g), Params: bsp1, Owner: "test"})
		}
		p := c.save()
		for range 4 {
			s.push()
		}
		began := time.Now()
		c.abandoned(p.Checkpoint, "these workers were to bring: a;")
		if took := time.Since(began); took < 30*time.Second {
			t.Errorf("abandoned after %v", took)
		}
		p = c.save()
		for range 4 {
			s.push()
		}
		head, err := wire.Control(wire.KindUpload, wire.UploadRequest{SessionRef: wire.SessionRef{Job: "j", Worker: "a", Incarnation: s.inc}, Checkpoint: p.Checkpoint})
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(20 * time.Second)
		if a, _ := c.call(layout.MetaGroup, head, []byte("dense")); a.Status != wire.OK {
			t.Fatalf("upload: %+v", a)
		}
		c.committed(p.Checkpoint)
		m, _ := kept(t, c.folder(), p.Checkpoint)
		var job wire.JobState
		if err := json.Unmarshal(m.Params, &job); err != nil || job.Mode != wire.ModeHybrid {
			t.Errorf("job %+v, %v", job, err)
		}
	})
}
