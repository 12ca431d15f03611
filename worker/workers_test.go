package worker_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"hcclps/worker"
	"hcclps/worker/model"
)

func TestWorkersCountEveryBatchOnceInEveryMode(t *testing.T) {
	t.Parallel()
	l := cluster(t)
	for _, mode := range []struct {
		name      string
		sync      worker.Sync
		staleness int
	}{{"bsp", worker.BSP, 0}, {"ssp", worker.SSP, 2}, {"asp", worker.ASP, 0}} {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel()
			const world, batches, epochs = 3, 32, 2
			var wg sync.WaitGroup
			var rows [world]uint64
			for rank := range world {
				wg.Go(func() {
					c, err := dial(t.Context(), l, worker.Config{Job: mode.name, Rank: rank, World: world, Sync: mode.sync, Staleness: mode.staleness})
					if err != nil {
						t.Error(err)
						return
					}
					defer func() {
						if err := c.Close(t.Context()); err != nil {
							t.Error(err)
						}
					}()
					m, err := model.NewLR(t.Context(), c, worker.Optimizer{})
					if err != nil {
						t.Error(err)
						return
					}
					rep, err := c.Train(t.Context(), m, &memory{batches: batches, rows: 4}, worker.TrainOptions{Epochs: epochs})
					if err != nil {
						t.Error(err)
						return
					}
					rows[rank] = rep.Rows
					if rank != 0 {
						return
					}
					if err := c.PullFinal(t.Context()); err != nil {
						t.Error(err)
					}
					a, err := c.Audit(t.Context())
					if err != nil || a.Batches != a.Applied || a.Batches < batches*epochs {
						t.Errorf("audit %+v, %v", a, err)
					}
				})
			}
			wg.Wait()
			if total := rows[0] + rows[1] + rows[2]; total != batches*epochs*4 {
				t.Errorf("%d rows trained on (%v), want %d", total, rows, batches*epochs*4)
			}
		})
	}
}

func TestDataOfAWorkerThatIsGoneIsHandedOnOnce(t *testing.T) {
	t.Parallel()
	l := leasing(t, 10*time.Second)
	const batches, epochs = 64, 2
	train := func(rank int, dieAt uint64, ready chan<- struct{}, begin <-chan struct{}) {
		c, err := dial(t.Context(), l, worker.Config{Job: "gone", Rank: rank, World: 2, Sync: worker.ASP})
		if err != nil {
			t.Error(err)
			return
		}
		m, err := model.NewLR(t.Context(), c, worker.Optimizer{})
		if err != nil {
			t.Error(err)
			return
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, err = c.Train(ctx, m, &memory{batches: batches, rows: 2}, worker.TrainOptions{Epochs: epochs, OnStep: func(p worker.Progress) {
			if p.Step == 1 && ready != nil {
				close(ready)
			}
			if p.Step == 1 && begin != nil {
				<-begin
			}
			if p.Step == dieAt {
				cancel()
			}
		}})
		if dieAt > 0 {
			c.Abandon()
			return
		}
		if err != nil {
			t.Error(err)
			return
		}
		if err := c.PullFinal(t.Context()); err != nil {
			t.Error(err)
		}
		// Every batch is one step: applied once, by either worker.
		if a, err := c.Audit(t.Context()); err != nil || a.Applied != batches*epochs || a.Batches != a.Applied {
			t.Errorf("audit %+v, %v: want %d applied", a, err, batches*epochs)
		}
		end(t, c)
	}
	gone := make(chan struct{})
	begun := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { train(1, 21, begun, nil); close(gone) })
	wg.Go(func() {
		wait := make(chan struct{})
		go func() { <-gone; close(wait) }() // the other dies in the middle of a range
		train(0, 0, nil, wait)
	})
	wg.Wait()
	<-begun
}

func TestStopEndsAllWorkersAtOneStep(t *testing.T) {
	t.Parallel()
	l := cluster(t)
	var stops [2]uint64
	var at uint64
	var wg sync.WaitGroup
	for rank := range 2 {
		wg.Go(func() {
			c, err := dial(t.Context(), l, worker.Config{Job: "stop", Rank: rank, World: 2})
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Abandon()
			m, err := model.NewLR(t.Context(), c, worker.Optimizer{})
			if err != nil {
				t.Error(err)
				return
			}
			var once sync.Once
			rep, err := c.Train(t.Context(), m, &memory{batches: 100000, rows: 4}, worker.TrainOptions{OnStep: func(p worker.Progress) {
				if rank == 0 && p.Step == 10 {
					once.Do(func() {
						if at, err = c.Stop(t.Context()); err != nil {
							t.Error(err)
						}
					})
				}
			}})
			if err != nil || !rep.Stopped {
				t.Errorf("rank %d: %+v, %v, want stopped", rank, rep, err)
			}
			stops[rank] = rep.Steps
		})
	}
	wg.Wait()
	if stops[0] != stops[1] || stops[0] != at {
		t.Errorf("stopped at %v, want both at %d", stops, at)
	}
}
