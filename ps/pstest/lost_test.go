package pstest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/ps"
	"hcclps/ps/pstest"
	"hcclps/ps/raftlog"
	"hcclps/worker"
)

// bench is a cluster with one worker that pushes, while a server loses its log.
type bench struct {
	t   *testing.T
	ctx context.Context //nolint:containedctx // the time of the test
	c   *pstest.Cluster
	w   *worker.Client
	e   worker.Embedding
}

// victim is the server that loses its log; it leads nothing it must lead.
const victim = 2

func newBench(t *testing.T, durability string) *bench {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	b := &bench{t: t, ctx: ctx, c: pstest.NewCluster(ctx, pstest.ClusterConfig{Dir: tempDir(t), Durability: durability})}
	t.Cleanup(func() {
		if err := b.c.Close(); err != nil {
			t.Error(err)
		}
	})
	b.must(b.c.StartAll())
	b.must(b.c.Ready(ctx))
	var err error
	b.w, err = worker.Connect(ctx, worker.Config{Servers: b.c.Addrs(), Cluster: "verify", Network: b.c.Net().Host("c"), Deadline: 20 * time.Second})
	b.must(err)
	t.Cleanup(b.w.Abandon)
	b.e, err = b.w.Embedding(ctx, "e", worker.EmbeddingSpec{Dim: 1})
	b.must(err)
	b.push(20)
	return b
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// push takes steps that touch every shard.
func (b *bench) push(steps int) {
	b.t.Helper()
	keys, values := make([]uint64, 64), make([]float32, 64)
	for i := range keys {
		keys[i], values[i] = uint64(i), 1
	}
	for range steps {
		b.must(b.w.Push(b.ctx, 1, nil, worker.Gradient{Table: b.e, Keys: keys, Values: values}))
	}
}

// caughtUp waits until the victim has every entry of the shards: the steps were
// acknowledged by the others.
func (b *bench) caughtUp() {
	b.t.Helper()
	want := map[uint32]uint64{}
	for i := range b.c.Addrs() {
		for _, g := range b.c.Server(i).Status(false).Groups {
			want[g.Group] = max(want[g.Group], g.Last)
		}
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		behind := false
		for _, g := range b.c.Server(victim).Status(false).Groups {
			behind = behind || g.Last < want[g.Group]
		}
		if !behind {
			return
		}
		select {
		case <-tick.C:
		case <-b.ctx.Done():
			b.t.Fatal("the victim gets no entries")
		}
	}
}

// refused waits until the victim has ended with the named refusal.
func (b *bench) refused() {
	b.t.Helper()
	err := b.c.Wait(b.ctx, victim)
	var lost *raftlog.LostError
	if !errors.Is(err, raftlog.ErrLost) || !errors.As(err, &lost) {
		b.t.Fatalf("server ended with %v, want %v", err, raftlog.ErrLost)
	}
	if b.c.Server(victim) != nil {
		b.t.Fatal("the server is still up")
	}
}

// leaderless watches the groups: until none has a leader, or for as long as
// none must have one.
func (b *bench) leaderless(always bool) {
	b.t.Helper()
	end := time.After(2 * time.Minute)
	if always {
		end = time.After(20 * time.Second)
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		led := -1
		for group := range uint32(3) {
			if b.c.Leader(group) >= 0 {
				led = int(group)
			}
		}
		switch {
		case always && led >= 0:
			b.t.Fatalf("group %d has elected server %d: the victim has voted", led, b.c.Leader(uint32(led)))
		case !always && led < 0:
			return
		}
		select {
		case <-tick.C:
		case <-end:
			if !always {
				b.t.Fatalf("group %d still has a leader without a majority", led)
			}
			return
		}
	}
}

// In every way of losing a log the server refuses by name, never votes, and the
// group goes on.
func TestLostLog(t *testing.T) {
	firstSegment := func(b *bench) string {
		files, err := filepath.Glob(filepath.Join(b.c.LogDir(victim), "group-1", "*.seg"))
		b.must(err)
		if len(files) == 0 {
			b.t.Fatal("no segments")
		}
		return files[0]
	}
	for _, tc := range []struct {
		name string
		lose func(b *bench) // the victim is down before and after
	}{
		{"directory deleted", func(b *bench) { b.must(b.c.Forget(victim)) }},
		{"one group's directory deleted", func(b *bench) { b.must(os.RemoveAll(filepath.Join(b.c.LogDir(victim), "group-2"))) }},
		{"one segment deleted", func(b *bench) { b.must(os.Remove(firstSegment(b))) }},
		{"older copy put back", func(b *bench) {
			saved := filepath.Join(b.t.TempDir(), "saved")
			b.must(os.CopyFS(saved, os.DirFS(b.c.LogDir(victim))))
			b.must(b.c.Start(victim))
			b.must(b.c.Ready(b.ctx))
			b.push(20)
			b.caughtUp() // or else nothing is missing in the copy
			b.must(b.c.Stop(victim))
			b.must(b.c.Forget(victim))
			b.must(os.CopyFS(b.c.LogDir(victim), os.DirFS(saved)))
		}},
		{"log of another server", func(b *bench) {
			b.must(b.c.Forget(victim))
			b.must(os.CopyFS(b.c.LogDir(victim), os.DirFS(b.c.LogDir(0))))
		}},
	} {
		for _, durability := range []string{ps.QuorumMemory, ps.QuorumDisk} {
			t.Run(fmt.Sprintf("%s, %s", tc.name, durability), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBench(t, durability)
					b.must(b.c.Stop(victim))
					tc.lose(b)
					// With one of the others down, the third can be elected by the victim alone.
					b.must(b.c.Crash(0))
					b.leaderless(false)
					b.must(b.c.Start(victim))
					b.refused()
					b.leaderless(true)
					b.must(b.c.Start(0))
					b.must(b.c.Ready(b.ctx))
					b.push(5)
				})
			})
		}
	}
}

// The directory is deleted under a running server: it ends by itself with the
// same refusal, and refuses from then on.
func TestLogDeletedWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, ps.QuorumMemory)
		b.must(b.c.Forget(victim))
		b.refused()
		b.push(5)
	})
}
