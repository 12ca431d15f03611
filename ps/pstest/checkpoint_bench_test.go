package pstest_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"hcclps/p2p/backend"
	"hcclps/p2p/link"
	"hcclps/ps"
	"hcclps/ps/reach"
	"hcclps/ps/restore"
	"hcclps/ps/wire"
	"hcclps/worker"
)

var (
	keptRows   = flag.Int("kept-rows", 10_000_000, "BenchmarkCheckpoint: `ROWS` of the table")
	besideRows = flag.Int("beside-rows", 1_000_000, "BenchmarkStepsBesideCheckpoints: `ROWS` of the table")
	besideTime = flag.Duration("beside-time", 6*time.Second, "BenchmarkStepsBesideCheckpoints: `TIME` of steps with a checkpoint, and of steps without")
)

// BenchmarkCheckpoint keeps a table of 10^7 rows of dim 16, adagrad, while nobody trains: on the disk of the temporary folder and
// in memory, of four shards and of one, fsync counted. Beside the rate it prints what the same number of bytes takes that are written one
// after the other and synced, just before. The first one is full; of the deltas one in a hundred rows was touched, beside each
// other or anywhere.
func BenchmarkCheckpoint(b *testing.B) {
	if testing.Short() {
		b.Skip("10^7 rows want 4 GB and some seconds")
	}
	for _, place := range []struct {
		name, dir string
		shards    int
	}{{"disk", os.TempDir(), 4}, {"memory", "/dev/shm", 4}, {"shard", "/dev/shm", 1}} {
		b.Run(place.name, func(b *testing.B) { keepIn(b, place.dir, place.shards) })
	}
}

func keepIn(b *testing.B, in string, shards int) {
	b.Helper()
	dir, err := os.MkdirTemp(in, "hcclps-bench-") //nolint:usetesting // the place is what is measured
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	rows := *keptRows
	l := local(b, ps.LocalConfig{Scratch: true, Shards: shards, Checkpoint: ps.CheckpointConfig{Dir: filepath.Join(dir, "kept"), Rate: -1}})
	t := fill(b, l, rows)
	to := operator(b, l)
	b.Run("full", func(b *testing.B) {
		rate := written(b, dir, int64(rows)*(16+4*2*dim))
		measureKept(b, t, to, rate, func() {})
	})
	touch := func(key func(i int) uint64) func() {
		return func() {
			for at := 0; at < rows/100; at += batchKeys {
				keys := make([]uint64, batchKeys)
				for i := range keys {
					keys[i] = key(at + i)
				}
				if err := t.c.Push(b.Context(), 1, nil, worker.Gradient{Table: t.table, Keys: keys, Values: t.values}); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	b.Run("delta/clustered", func(b *testing.B) { measureKept(b, t, to, 0, touch(func(i int) uint64 { return uint64(i) })) })
	b.Run("delta/random", func(b *testing.B) {
		measureKept(b, t, to, 0, touch(func(i int) uint64 { return uint64(i)*100 + uint64(i)*7919%97 }))
	})
}

// BenchmarkStepsBesideCheckpoints pulls and pushes 20,000 random rows a step, for -beside-time with one checkpoint at the default rate and for as
// long without, in turn, and compares: what part of the samples a second is lost, how much more CPU a step takes, how much longer the slowest
// hundredth of steps takes, and the memory of its own that the process has beside that before the first checkpoint. 10^6
// rows in 6 s are in the proportion of 10^7 rows with one checkpoint a minute.
func BenchmarkStepsBesideCheckpoints(b *testing.B) {
	if testing.Short() {
		b.Skip("pairs of runs of some seconds want half a minute")
	}
	l := local(b, ps.LocalConfig{Servers: 1, Shards: 4, Durability: ps.QuorumMemory, LogBudget: 1 << 30, Checkpoint: ps.CheckpointConfig{Dir: b.TempDir()}})
	t := fill(b, l, *besideRows)
	to := operator(b, l)
	out := make([]float32, batchKeys*dim)
	steps := func() (r stretch) {
		began, used := time.Now(), processTime(b)
		for time.Since(began) < *besideTime {
			at, keys := time.Now(), t.batches[len(r.each)%len(t.batches)]
			if err := t.c.Pull(b.Context(), worker.Read{Table: t.table, Keys: keys, Out: out}); err != nil {
				b.Fatal(err)
			}
			if err := t.c.Push(b.Context(), batchRows, nil, worker.Gradient{Table: t.table, Keys: keys, Values: t.values}); err != nil {
				b.Fatal(err)
			}
			r.each, r.memory = append(r.each, time.Since(at)), max(r.memory, ownMemory(b))
		}
		n := float64(len(r.each))
		r.rate, r.cpu = n/time.Since(began).Seconds(), (processTime(b)-used).Seconds()/n
		slices.Sort(r.each)
		return r
	}
	before := steps().memory
	var lost, more, slower []float64
	var beside int64
	for b.Loop() {
		for range 5 {
			calm := steps()
			var plan wire.Plan
			ask(b, to, wire.KindPlan, wire.PlanRequest{SessionRef: wire.SessionRef{Job: "job"}, Plan: wire.Plan{Kind: wire.PlanCheckpoint}}, &plan)
			busy := steps()
			ended(b, to, plan.Checkpoint)
			lost, more = append(lost, 1-busy.rate/calm.rate), append(more, busy.cpu/calm.cpu-1)
			slower = append(slower, busy.slowest().Seconds()/calm.slowest().Seconds())
			beside = max(beside, busy.memory)
		}
	}
	b.ReportMetric(100*middle(lost), "%-lost")
	b.ReportMetric(100*middle(more), "%-more-cpu")
	b.ReportMetric(middle(slower), "p99-ratio")
	b.ReportMetric(float64(max(0, beside-before))/(1<<20), "MiB-extra")
	b.ReportMetric(float64(before)/(1<<20), "MiB-before")
}

// BenchmarkRestore brings 10^6 rows of dim 16, adagrad, 144 MB, into clusters of one and of three copies.
func BenchmarkRestore(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "kept")
	from := local(b, ps.LocalConfig{Scratch: true, Shards: 4, Checkpoint: ps.CheckpointConfig{Dir: dir, Rate: -1}})
	t := fill(b, from, 1_000_000)
	to := operator(b, from)
	var plan wire.Plan
	ask(b, to, wire.KindPlan, wire.PlanRequest{SessionRef: wire.SessionRef{Job: "job"}, Plan: wire.Plan{Kind: wire.PlanCheckpoint}}, &plan)
	for range 2 {
		if err := t.c.Push(b.Context(), 1, nil); err != nil {
			b.Fatal(err)
		}
	}
	ended(b, to, plan.Checkpoint)
	for _, r := range []replication{
		{"scratch", ps.LocalConfig{Scratch: true}}, {"disk", ps.LocalConfig{Servers: 1}}, {"3-quorum-memory", ps.LocalConfig{}}, {"3-quorum-disk", ps.LocalConfig{Durability: ps.QuorumDisk}},
	} {
		b.Run(r.name, func(b *testing.B) {
			r.cfg.LogBudget, r.cfg.Shards = 64<<20, 8
			to := operator(b, local(b, r.cfg))
			c, closing, err := restore.Source{Dir: dir}.Open(b.Context(), "")
			if err != nil {
				b.Fatal(err)
			}
			defer closing() //nolint:errcheck // only read
			for n := 0; b.Loop(); n++ {
				used := processTime(b)
				report, err := restore.Run(b.Context(), restore.Config{From: c, Dir: dir, Job: fmt.Sprint("job", n), To: to})
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(report.Bytes)
				b.ReportMetric((processTime(b) - used).Seconds(), "cpu-s")
			}
		})
	}
}

// stretch is what some seconds of steps came to.
type stretch struct {
	each      []time.Duration // ascending
	rate, cpu float64         // steps a second; seconds of CPU a step
	memory    int64           // of the process, its own, at most
}

// slowest is the time that a hundredth of the steps takes longer than.
func (r stretch) slowest() time.Duration { return r.each[len(r.each)*99/100] }

func middle(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// ownMemory is the bytes in memory of this process that are of no file.
func ownMemory(b *testing.B) int64 {
	b.Helper()
	said, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Fatal(err)
	}
	var size, resident, shared int64
	if _, err := fmt.Sscan(string(said), &size, &resident, &shared); err != nil {
		b.Fatal(err)
	}
	return (resident - shared) * int64(os.Getpagesize())
}

// written is the rate in bytes a second at which so many bytes are written and synced.
func written(b *testing.B, dir string, bytes int64) float64 {
	b.Helper()
	buf := make([]byte, 1<<20)
	for i := range buf {
		buf[i] = byte(i * 31)
	}
	f, err := os.Create(filepath.Join(dir, "plain"))
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	for n := int64(0); n < bytes; n += int64(len(buf)) {
		if _, err := f.Write(buf); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	rate := float64(bytes) / time.Since(began).Seconds()
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	if err := os.Remove(f.Name()); err != nil {
		b.Fatal(err)
	}
	return rate
}

// measureKept makes one checkpoint. The time counts from its cut.
func measureKept(b *testing.B, t *filled, to *reach.Cluster, plain float64, before func()) {
	b.Helper()
	for b.Loop() {
		b.StopTimer()
		before()
		used := processTime(b)
		var plan wire.Plan
		ask(b, to, wire.KindPlan, wire.PlanRequest{SessionRef: wire.SessionRef{Job: "job"}, Plan: wire.Plan{Kind: wire.PlanCheckpoint}}, &plan)
		for range 2 { // of the steps before the cut; the plan is two ahead
			if err := t.c.Push(b.Context(), 1, nil); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
		s := ended(b, to, plan.Checkpoint)
		b.StopTimer()
		rate := float64(s.Bytes) / b.Elapsed().Seconds()
		b.ReportMetric(float64(s.Bytes)/1e6, "MB-written")
		b.ReportMetric(rate/(1<<20), "MiB/s")
		b.ReportMetric((processTime(b) - used).Seconds(), "cpu-s")
		if plain > 0 {
			b.ReportMetric(plain/(1<<20), "plain-MiB/s")
			b.ReportMetric(rate/plain, "of-plain")
		}
		b.StartTimer()
	}
}

// operator reaches the leaders of a cluster.
func operator(b *testing.B, l *ps.Local) *reach.Cluster {
	b.Helper()
	client, err := link.NewClient(link.Config{Network: l.Network(), Pair: backend.Pair, Cluster: l.Cluster(), ID: "operator"})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- client.Run(ctx) }()
	b.Cleanup(func() {
		stop()
		if err := <-ran; err != nil {
			b.Error(err)
		}
	})
	to, err := reach.Discover(b.Context(), client, l.Addrs())
	if err != nil {
		b.Fatal(err)
	}
	return to
}

func ask(b *testing.B, to *reach.Cluster, kind wire.Kind, fields, reply any) {
	b.Helper()
	if err := to.Ask(b.Context(), kind, fields, reply); err != nil {
		b.Fatal(err)
	}
}

// ended waits until a checkpoint is committed.
func ended(b *testing.B, to *reach.Cluster, id uint64) wire.CheckpointStatus {
	b.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		var all wire.CheckpointsReply
		ask(b, to, wire.KindCheckpoints, wire.CheckpointsRequest{}, &all)
		for _, s := range all.Last {
			if s.ID == id && s.State != "committed" {
				b.Fatalf("checkpoint %d is %s: %s", id, s.State, s.Why)
			}
			if s.ID == id {
				return s
			}
		}
	}
	return wire.CheckpointStatus{}
}
