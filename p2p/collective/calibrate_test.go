package collective_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/collective"
	"hcclps/p2p/inproc"
)

// calibrated measures the links of all ranks.
func calibrated(t *testing.T, comms []p2p.Comm) []*collective.Calibration {
	t.Helper()
	all, errs := make([]*collective.Calibration, len(comms)), make([]error, len(comms))
	var wg sync.WaitGroup
	for r, c := range comms {
		wg.Go(func() { all[r], errs[r] = collective.Calibrate(t.Context(), c) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestCalibrationOfAKnownFabric(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := inproc.Fabric{
			Overhead: 2 * time.Microsecond, Port: 5e9, Link: inproc.Link{Latency: 10 * time.Microsecond, Bandwidth: 2.5e9},
			Hosts: []int{0, 0, 0, 1, 1, 1}, Across: inproc.Link{Latency: 100 * time.Microsecond, Bandwidth: 1e9}, Uplink: 1e9,
		}
		all := calibrated(t, f.World(6))
		inside, across := all[0].Links(f.Hosts)
		for r, c := range all[1:] {
			if fmt.Sprint(c) != fmt.Sprint(all[0]) {
				t.Errorf("rank %d has other figures than rank 0", r+1)
			}
		}
		near := func(what string, got, want float64) {
			t.Helper()
			if got < 0.95*want || got > 1.05*want {
				t.Errorf("%s is %.4g, want %.4g", what, got, want)
			}
		}
		near("alpha inside", inside.Alpha.Seconds(), 12e-6)
		near("alpha across", across.Alpha.Seconds(), 102e-6)
		near("bandwidth inside", inside.Bandwidth, 2.5e9)
		near("bandwidth across", across.Bandwidth, 1e9)
	})
}

func TestCalibrationCountsPorts(t *testing.T) {
	for ports, port := range map[int]float64{1: 1e9, 2: 2e9, 3: 0} {
		synctest.Test(t, func(t *testing.T) {
			f := inproc.Fabric{Port: port, Link: inproc.Link{Latency: 10 * time.Microsecond, Bandwidth: 1e9}, Overhead: 5 * time.Microsecond}
			c := calibrated(t, f.World(4))[0]
			if c.Ports != ports || c.Post < 4*time.Microsecond || c.Post > 6*time.Microsecond {
				t.Errorf("%d ports and %v for each message, want %d and 5us", c.Ports, c.Post, ports)
			}
		})
	}
}

func TestCalibrationOfFewRanks(t *testing.T) {
	for _, n := range []int{1, 2, 3} {
		c := calibrated(t, inproc.World(n))[0]
		inside, _ := c.Links(nil)
		if c.Ranks != n || c.Reduce <= 0 || n > 1 && (inside.Alpha <= 0 || inside.Bandwidth <= 0) {
			t.Errorf("%d ranks: %+v", n, c)
		}
	}
}
