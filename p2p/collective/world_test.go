package collective_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/collective"
	"hcclps/p2p/inproc"
)

// world is a group of ranks in one process whose Runs go until the test ends.
type world struct {
	groups []*collective.Group
	runs   []chan error
}

// newWorld makes n ranks; set changes the Config of each.
func newWorld(t testing.TB, n int, set func(rank int, c *collective.Config)) *world {
	t.Helper()
	return newWorldOver(t, inproc.World(n), set)
}

// newWorldOver makes a rank of each Comm.
func newWorldOver(t testing.TB, comms []p2p.Comm, set func(rank int, c *collective.Config)) *world {
	t.Helper()
	w := &world{}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(func() {
		for _, g := range w.groups {
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		}
		cancel()
		wg.Wait()
	})
	for r, comm := range comms {
		cfg := collective.Config{Comm: comm, Watchdog: 20 * time.Second}
		if set != nil {
			set(r, &cfg)
		}
		g, err := collective.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		end := make(chan error, 1)
		w.groups, w.runs = append(w.groups, g), append(w.runs, end)
		wg.Go(func() { end <- g.Run(ctx) })
	}
	return w
}

// each calls f for every rank at the same time and returns the joined errors.
func (w *world) each(f func(rank int, g *collective.Group) error) error {
	errs := make([]error, len(w.groups))
	var wg sync.WaitGroup
	for r, g := range w.groups {
		wg.Go(func() {
			if err := f(r, g); err != nil {
				errs[r] = fmt.Errorf("rank %d: %w", r, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
