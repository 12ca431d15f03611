package ps_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/checkpoint"
	"hcclps/ps"
	"hcclps/ps/reach"
	"hcclps/ps/restore"
	"hcclps/ps/wire"
)

// bySeed runs a test with each of three seeds, or of PROOF_SEEDS, in a bubble of its own; stream keeps its draws apart from those of other tests.
func bySeed(t *testing.T, stream uint64, test func(t *testing.T, seed int, r *rand.Rand)) {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv("PROOF_SEEDS"))
	if err != nil {
		n = 3
	}
	for seed := range n {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { test(t, seed, rand.New(rand.NewPCG(uint64(seed), stream))) })
		})
	}
}

// TestCrashesWhileSaving kills a server at a moment drawn by seed, while checkpoints are made one after the other: what is
// committed stays whole, and after a restart the next one is.
func TestCrashesWhileSaving(t *testing.T) {
	t.Parallel()
	bySeed(t, 77, func(t *testing.T, _ int, r *rand.Rand) {
		t.Helper()
		c := savingCluster(t, 3, func(cfg *ps.Config) { cfg.Checkpoint.Rate = 1 << 20 }).up()
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

// breakdown is a break at one of the first calls, drawn: seeds by turns cancel, kill all three servers, and kill one. Who is killed starts again.
func (c *cluster) breakdown(seed int, r *rand.Rand, first int64, cancel context.CancelFunc) *breaking {
	die := []int{r.IntN(3)}
	if seed%3 == 1 {
		die = []int{0, 1, 2}
	}
	return &breaking{Cluster: c.reachable(), left: 1 + r.Int64N(first), end: func() {
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
	}}
}

// TestCrashesWhileRestoring kills a server or all of them, or breaks the restore off, at a message drawn by seed; the restore that is run again
// brings the same.
func TestCrashesWhileRestoring(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "checkpoints")
	var want map[uint64]string
	synctest.Test(t, func(t *testing.T) { want, _ = saveAs(t, shape{4, 1}, dir) })
	bySeed(t, 78, func(t *testing.T, seed int, r *rand.Rand) {
		t.Helper()
		c := newCluster(t, 3, nil).up()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ck, closing, err := restore.Source{Dir: dir}.Open(ctx, "")
		if err != nil {
			t.Fatal(err)
		}
		defer closing() //nolint:errcheck // only read
		b := c.breakdown(seed, r, 6, cancel)
		calls := b.left
		_, err = restore.Run(ctx, restore.Config{From: ck, Dir: dir, To: b})
		c.ready()
		t.Logf("broken at call %d: %v", calls, err)
		if err != nil {
			if _, err := c.bring(t.Context(), dir); err != nil {
				t.Fatalf("once more: %v", err)
			}
		}
		newCrowd(c, 2).wantRows(fmt.Sprintf("seed %d", seed), want)
	})
}
