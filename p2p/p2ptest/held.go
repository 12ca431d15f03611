package p2ptest

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"testing"
	"time"

	"hcclps/p2p"
)

// held is what a Comm may hold and must let go of.
type held struct{ goroutines, descriptors, shared int }

// warm makes a world and ends it, so that what is made once and for all is there.
func warm(t *testing.T, open func(t *testing.T, n int) []p2p.Comm) {
	t.Helper()
	t.Run("Warm", func(t *testing.T) { start(t, open, 2) })
}

// hold counts what this process holds: shared is mappings of memory that has a descriptor.
func hold(t *testing.T) held {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	maps, mapsErr := os.ReadFile("/proc/self/maps")
	if err := errors.Join(err, mapsErr); err != nil {
		t.Fatal(err)
	}
	return held{runtime.NumGoroutine(), len(files), bytes.Count(maps, []byte("/memfd:"))}
}

// wantLeft checks that nothing more is held now, or some seconds from now: a backend may let go in the background.
func (h held) wantLeft(t *testing.T) {
	t.Helper()
	late := time.After(patience / 2)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		now := hold(t)
		if now.goroutines <= h.goroutines && now.descriptors <= h.descriptors && now.shared <= h.shared {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			stacks := make([]byte, 1<<20)
			t.Errorf("before %+v, now %+v is held; goroutines:\n%s", h, now, stacks[:runtime.Stack(stacks, true)])
			return
		}
	}
}
