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
			for r, h := range health(t, m.worlds[asker]) {
				if h.Rank != r || h.Info != m.worlds[0].Info(r) || h.Silent > 500*time.Millisecond || h.Silent < 0 || string(h.Position) != fmt.Sprint("call ", r) || h.Reason != "" {
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
			all := health(t, m.worlds[asker])
			if h := all[silent]; h.Silent < time.Second || h.Position != nil {
				t.Errorf("rank %d hears of a silent rank that %+v", asker, h)
			}
			if h := all[fails]; h.Reason != "disk full" || h.Silent > 500*time.Millisecond {
				t.Errorf("rank %d hears of a rank that failed that %+v", asker, h)
			}
			wait(t.Context(), 2*time.Second)
			if h := health(t, m.worlds[asker])[silent]; h.Silent >= 0 {
				t.Errorf("rank %d hears of a rank that has gone that %+v", asker, h)
			}
		})
	}
}

func health(t *testing.T, w *world.World) []world.Health {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	all, err := w.Health(ctx)
	check(t, err)
	return all
}
