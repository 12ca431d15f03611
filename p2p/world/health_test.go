package world_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p/world"
)

// Who asks learns of each rank how long it has been silent, what it did last, and why it ended.
func TestHealth(t *testing.T) {
	for asker := range 4 {
		synctest.Test(t, func(t *testing.T) {
			m := start(t, 4, nil)
			for r, w := range m.worlds {
				w.Report(fmt.Append(nil, "call ", r))
			}
			wait(t.Context(), time.Minute+100*time.Millisecond)
			for r, h := range ask(t, m.worlds[asker]) {
				if h.silent > 500*time.Millisecond || h.silent < 0 || h.position != fmt.Sprint("call ", r) || h.reason != "" {
					t.Errorf("rank %d hears of rank %d that %+v", asker, r, h)
				}
			}
			silent, fails := 1+asker%3, 1+(asker+1)%3
			m.worlds[fails].Fail("disk full")
			m.silence(fmt.Sprint("h", silent))
			wait(t.Context(), time.Second/2)
			if asker == silent {
				return
			}
			all := ask(t, m.worlds[asker])
			if h := all[silent]; h.silent < time.Second || h.position != "" {
				t.Errorf("rank %d hears of a silent rank that %+v", asker, h)
			}
			if h := all[fails]; h.reason != "disk full" || h.silent > 500*time.Millisecond {
				t.Errorf("rank %d hears of a rank that failed that %+v", asker, h)
			}
			wait(t.Context(), 2*time.Second)
			if h := ask(t, m.worlds[asker])[silent]; h.silent >= 0 {
				t.Errorf("rank %d hears of a rank that has gone that %+v", asker, h)
			}
		})
	}
}

// health is what is known of one rank.
type health struct {
	silent           time.Duration
	position, reason string
}

func ask(t *testing.T, w *world.World) []health {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	silent, positions, reasons, err := w.Health(ctx)
	check(t, err)
	all := make([]health, w.Size())
	for r := range all {
		all[r] = health{silent[r], string(positions[r]), reasons[r]}
	}
	return all
}
