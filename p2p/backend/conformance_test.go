package backend_test

import (
	"os"
	"testing"

	"hcclps/p2p/p2ptest"
)

// TestConformance runs the one suite over every backend, and moves a message of 300 MiB in each direction.
func TestConformance(t *testing.T) {
	eachRoad(t, func(t *testing.T, r *road) {
		t.Helper()
		p2ptest.TestComm(t, r.open)
		if testing.Short() {
			return
		}
		p2ptest.TestLarge(t, r.open, 300<<20)
	})
}

// TestHugeMessage moves a message whose length needs more than 32 bits.
func TestHugeMessage(t *testing.T) {
	if os.Getenv("HCCLPS_BIG") == "" {
		t.Skip("takes 8 GiB of memory: HCCLPS_BIG=1 asks for it")
	}
	eachRoad(t, func(t *testing.T, r *road) {
		t.Helper()
		p2ptest.TestLarge(t, r.open, 4<<30+3)
	}, "inproc", "unix", "tls", "hccl")
}
