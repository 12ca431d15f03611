package backend_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/backend"
	"hcclps/p2p/hccl"
	"hcclps/p2p/link"
	"hcclps/p2p/p2ptest"
)

// A pair of devices is kept where it is faster than what was measured of the pair before, and that is the same on both sides.
func TestMeasuredUpgradeNeedsGcc(t *testing.T) {
	if !needSimulator(t) {
		t.Skip("no simulator without a C compiler")
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	var bulks [2]*backend.Bulk
	for rank, device := range []string{"0", "1"} {
		b, err := backend.NewBulk(backend.Config{Transport: backend.Measure, Device: device})
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() {
			if err := b.Run(ctx); err != nil {
				t.Errorf("run device %s: %v", device, err)
			}
		})
		bulks[rank] = b
	}
	for name, c := range map[string]struct {
		before time.Duration // of a message over what there is
		keep   bool
	}{
		"slower before":    {time.Hour, true},
		"faster before":    {time.Nanosecond, false},
		"nothing measured": {0, true},
	} {
		t.Run(name, func(t *testing.T) {
			ends := p2ptest.Connect(t, "127.0.0.1:0", 1)
			if c.before > 0 {
				bulks[0].Remember(ends[0][0].RemoteAddr().String(), c.before)
			}
			var comms [2]link.Comm
			var errs [2]error
			var both sync.WaitGroup
			both.Go(func() { comms[0], errs[0] = bulks[0].Upgrade()(t.Context(), ends[0][0], 0) })
			both.Go(func() { comms[1], errs[1] = bulks[1].Upgrade()(t.Context(), ends[1][0], 1) })
			both.Wait()
			for rank, err := range errs {
				if (err == nil) != c.keep || err != nil && (!errors.Is(err, link.ErrNoUpgrade) || !strings.Contains(err.Error(), "measured at 1 and 16 MiB: shm ")) {
					t.Fatalf("rank %d: %v", rank, err)
				}
			}
			if !c.keep {
				return
			}
			for rank, b := range bulks {
				if picks := b.Picks(); picks[len(picks)-1].By != backend.HCCL || !strings.Contains(picks[len(picks)-1].Reason, "hccl ") {
					t.Errorf("rank %d: %+v", rank, picks)
				}
				if _, ok := backend.Unwrapped(comms[rank]).(*hccl.Comm); !ok {
					t.Errorf("rank %d has a %T", rank, comms[rank])
				}
				if _, ok := comms[rank].(p2p.Piecewise); !ok {
					t.Errorf("the codec cannot work in the memory of a %T", comms[rank])
				}
			}
			talk(t, comms)
		})
	}
}
