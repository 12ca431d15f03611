package hccl_test

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"hcclps/p2p"
	"hcclps/p2p/hccl"
	"hcclps/p2p/hccl/acl"
	"hcclps/p2p/p2ptest"
)

var (
	_ p2p.Piecewise = (*hccl.Comm)(nil)
	_ p2p.Allocator = (*hccl.Comm)(nil)
)

func TestComm(t *testing.T) { testComm(t, hccl.Config{}) }

// One thread for issuer, builder and steward, and pieces so small that every message has many.
func TestCommSingleThread(t *testing.T) {
	testComm(t, hccl.Config{SingleThread: true, Piece: 4096 * 3, Depth: 1})
}

// testComm runs the suite with all pairs on two devices.
func testComm(t *testing.T, cfg hccl.Config) {
	t.Helper()
	other := cfg
	other.Device = 1
	devices := [2]*hccl.Device{device(t, cfg), device(t, other)}
	p2ptest.TestComm(t, func(t *testing.T, n int) []p2p.Comm {
		t.Helper()
		if n != 2 {
			t.Skip("a pair has two ranks")
		}
		return run(t, mustPair(t, devices))
	})
}

// Every chip and time of CANN, with a simulator that takes operators of a device from one thread only.
func TestCommOnEveryChip(t *testing.T) {
	t.Parallel()
	needSim(t)
	for _, env := range [][]string{
		{"HCCL_SIM_CHIP=910A", "HCCL_SIM_CANN=8.1"},
		{"HCCL_SIM_CHIP=910B", "HCCL_SIM_CANN=8.5"},
		{"HCCL_SIM_CHIP=A3", "HCCL_SIM_CANN=9.0"},
	} {
		t.Run(env[0]+","+env[1], func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestComm$", "-test.timeout=5m")
			cmd.Env = append(os.Environ(), acl.EnvLib+"="+simLib, "HCCL_SIM_STRICT=1")
			cmd.Env = append(cmd.Env, env...)
			if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("PASS")) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
