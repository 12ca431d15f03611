package worker_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"hcclps/internal/trace"
	"hcclps/p2p/inproc"
	"hcclps/worker"
	"hcclps/worker/model"
)

// TestFlightOfALostWorker loses a worker in mid-training: the one that is left says so, and leaves its last operations in a file.
func TestFlightOfALostWorker(t *testing.T) {
	t.Parallel()
	dir, network := t.TempDir(), inproc.NewNetwork()
	errs, flown := make([]error, 2), make([]trace.Flight, 2)
	var wg sync.WaitGroup
	for rank := range errs {
		wg.Go(func() {
			cfg := worker.Config{Job: "a/b", World: 2, Rank: rank, Mode: worker.AllReduce, MaxRebuilds: worker.NoRebuilds, Flights: dir, Network: network}
			cfg.Meet.Master = "rank0:1"
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			opt := worker.TrainOptions{Epochs: 2}
			if rank == 1 {
				cfg.Meet.Listen = "rank1:0"
				opt.OnStep = func(p worker.Progress) {
					if p.Step == 5 {
						cancel()
					}
				}
			}
			c, err := worker.Connect(t.Context(), cfg)
			if err != nil {
				errs[rank] = err
				return
			}
			defer c.Abandon()
			fit := fitted(model.Options{Model: model.NameLR, Optimizer: worker.Optimizer{Name: "sgd"}}, stream{rows: 7000, batch: 64}, opt)
			errs[rank] = fit(ctx, c)
			flown[rank], _ = c.Flight()
		})
	}
	wg.Wait()
	if errs[0] == nil || errs[1] == nil {
		t.Fatalf("workers ended with %v, want two errors", errs)
	}
	for rank, f := range flown {
		if f.Rank != rank || f.World != 2 || len(f.Operations) == 0 || f.Process != fmt.Sprintf("worker-%d", rank) {
			t.Errorf("rank %d: flight of %s, rank %d of %d, with %d operations", rank, f.Process, f.Rank, f.World, len(f.Operations))
		}
	}
	_, f, err := trace.Open(filepath.Join(dir, "hcclps-flight-a_b-worker-0-1.json"))
	if err != nil || f == nil {
		left, _ := os.ReadDir(dir)
		t.Fatalf("flight of rank 0: %v; there is %v", err, left)
	}
	if !strings.Contains(f.Why, "rank 1") || len(f.Operations) == 0 {
		t.Errorf("why %q, %d operations", f.Why, len(f.Operations))
	}
}
