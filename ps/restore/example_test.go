package restore_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"hcclps/p2p/backend"
	"hcclps/p2p/link"
	"hcclps/ps"
	"hcclps/ps/reach"
	"hcclps/ps/restore"
	"hcclps/ps/wire"
	"hcclps/worker"
)

// A job is kept by one cluster and goes on in another one.
func Example() {
	dir, err := os.MkdirTemp("", "hcclps-example-")
	if err == nil {
		err = errors.Join(moved(filepath.Join(dir, "checkpoints")), os.RemoveAll(dir))
	}
	if err != nil {
		log.Fatal(err)
	}
	// Output: job clicks is back at step 3: 1 table, 3 rows
}

func moved(kept string) error {
	first, err := ps.NewLocal(ps.LocalConfig{Servers: 1, Shards: 2, Checkpoint: ps.CheckpointConfig{Dir: kept}})
	if err != nil {
		return err
	}
	err = first.With(context.Background(), func(ctx context.Context) error { return train(ctx, first) })
	if err != nil {
		return err
	}
	second, err := ps.NewLocal(ps.LocalConfig{Servers: 3, Shards: 8})
	if err != nil {
		return err
	}
	return second.With(context.Background(), func(ctx context.Context) error {
		return withCluster(ctx, second, func(ctx context.Context, to *reach.Cluster) error {
			c, closing, err := restore.Source{Dir: kept}.Open(ctx, "")
			if err != nil {
				return err
			}
			defer closing() //nolint:errcheck // only read
			report, err := restore.Run(ctx, restore.Config{From: c, Dir: kept, To: to})
			fmt.Printf("job %s is back at step %d: %d table, %d rows\n", report.Job, report.Step, report.Tables, report.Rows)
			return err
		})
	})
}

// A table of a checkpoint begins another job, beside the one it comes from.
func ExampleFork() {
	dir, err := os.MkdirTemp("", "hcclps-example-")
	if err == nil {
		err = errors.Join(forked(filepath.Join(dir, "checkpoints")), os.RemoveAll(dir))
	}
	if err != nil {
		log.Fatal(err)
	}
	// Output: table items is sandbox of job experiment: 3 rows
}

func forked(kept string) error {
	l, err := ps.NewLocal(ps.LocalConfig{Servers: 1, Shards: 2, Checkpoint: ps.CheckpointConfig{Dir: kept}})
	if err != nil {
		return err
	}
	return l.With(context.Background(), func(ctx context.Context) error {
		if err := train(ctx, l); err != nil {
			return err
		}
		return withCluster(ctx, l, func(ctx context.Context, to *reach.Cluster) error {
			c, closing, err := restore.Source{Dir: kept}.Open(ctx, "")
			if err != nil {
				return err
			}
			defer closing() //nolint:errcheck // only read
			report, err := restore.Fork(ctx, restore.ForkConfig{From: c, Job: "experiment", Tables: []restore.Copy{{Table: "items", As: "sandbox"}}, To: to})
			for _, t := range report.Tables {
				fmt.Printf("table %s is %s of job %s: %d rows\n", t.Table, t.As, report.Job, t.Rows)
			}
			return err
		})
	})
}

// train makes three steps, and has the state after them kept.
func train(ctx context.Context, l *ps.Local) error {
	c, err := worker.Connect(ctx, worker.Config{Job: "clicks", Servers: l.Addrs(), Cluster: l.Cluster(), Network: l.Network()})
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	items, err := c.Embedding(ctx, "items", worker.EmbeddingSpec{Dim: 2})
	if err != nil {
		return err
	}
	push := func(key uint64) error {
		return c.Push(ctx, 1, nil, worker.Gradient{Table: items, Keys: []uint64{key}, Values: []float32{1, 2}})
	}
	if err := push(7); err != nil {
		return err
	}
	if _, err := c.Checkpoint(ctx); err != nil { // of the state before step 3: two are still to come
		return err
	}
	for _, key := range []uint64{8, 9} {
		if err := push(key); err != nil {
			return err
		}
	}
	return withCluster(ctx, l, written)
}

// written waits until the checkpoint under way is there.
func written(ctx context.Context, to *reach.Cluster) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		var all wire.CheckpointsReply
		if err := to.Ask(ctx, wire.KindCheckpoints, wire.CheckpointsRequest{}, &all); err != nil {
			return err
		}
		if all.Now == nil && len(all.Last) > 0 {
			return nil
		}
	}
	return nil
}

// withCluster reaches the leaders of a local cluster.
func withCluster(ctx context.Context, l *ps.Local, do func(ctx context.Context, to *reach.Cluster) error) error {
	client, err := link.NewClient(link.Config{Network: l.Network(), Pair: backend.Pair, Cluster: l.Cluster(), ID: "operator"})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- client.Run(ctx) }()
	to, err := reach.Discover(ctx, client, l.Addrs())
	if err == nil {
		err = do(ctx, to)
	}
	stop()
	return errors.Join(err, <-ended)
}
