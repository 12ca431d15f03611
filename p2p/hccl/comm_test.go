package hccl_test

import (
	"testing"

	"hcclps/p2p"
	"hcclps/p2p/hccl"
	"hcclps/p2p/p2ptest"
)

func TestComm(t *testing.T) {
	p2ptest.TestComm(t, func(t *testing.T, n int) []p2p.Comm {
		if n != 2 {
			t.Skip("a pair has two ranks")
		}
		devices := [2]*hccl.Device{device(t, hccl.Config{Device: 0}), device(t, hccl.Config{Device: 1})}
		comms, errs := pair(t, devices)
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
		return run(t, comms)
	})
}
