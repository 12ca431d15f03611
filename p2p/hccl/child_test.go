package hccl_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/hccl"
	"hcclps/p2p/hccl/acl"
)

// childVar marks a process that runs one test under other settings of the simulator, which it reads once.
const childVar = "HCCL_TEST_CHILD"

// child runs the calling test in a process with variables for the simulator, and says whether this is that process.
func child(t *testing.T, env ...string) bool {
	t.Helper()
	needSim(t)
	if os.Getenv(childVar) != "" {
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=5m", "-test.v")
	cmd.Env = append(os.Environ(), childVar+"=1", acl.EnvLib+"="+simLib)
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Errorf("%v: %v\n%s", env, err, out)
	}
	return false
}

// quiet is a Device whose warnings are expected.
func quiet(id int) hccl.Config { return hccl.Config{Device: id, Logger: discard} }

// An operator that fails on the device is not taken for done, although the event behind it happens.
func TestFailedOperator(t *testing.T) {
	if !child(t, "HCCL_SIM_TASK_FAIL=15:507048") {
		return
	}
	devices := [2]*hccl.Device{device(t, quiet(0)), device(t, quiet(1))}
	comms := mustPair(t, devices)
	run(t, comms)
	ctx := bound(t)
	want := random(1, 100_000)
	for i := range 50 {
		got := make([]byte, len(want))
		recv, send := comms[1].Irecv(0, p2p.Bytes(got)), comms[0].Isend(1, p2p.Bytes(want))
		err := recv.Wait(ctx)
		if err == nil && !bytes.Equal(got, want) {
			t.Fatalf("message %d completed with other bytes", i)
		}
		if err := errors.Join(err, send.Wait(ctx)); err != nil {
			e := (*acl.Error)(nil)
			if !errors.As(err, &e) || e.Code != 507048 || e.Action() != acl.Rebuild || !errors.Is(err, p2p.ErrPeer) {
				t.Errorf("message %d: %v", i, err)
			}
			return
		}
	}
	t.Error("no operator failed")
}

// A link that HCCL finds broken by itself ends the pair, though nothing is under way.
func TestAsyncError(t *testing.T) {
	if !child(t, "HCCL_SIM_FAIL=HcclGetCommAsyncError:2:21") {
		return
	}
	comms := mustPair(t, [2]*hccl.Device{device(t, quiet(0)), device(t, quiet(1))})
	run(t, comms)
	ctx := bound(t)
	for r := range comms {
		if err := comms[r].Irecv(1-r, p2p.Bytes(make([]byte, 1))).Wait(ctx); err == nil {
			t.Errorf("receive of rank %d came through", r)
		}
	}
}

func TestDeviceMemoryRunsOut(t *testing.T) {
	if !child(t, "HCCL_SIM_HBM=200M") {
		return
	}
	devices := [2]*hccl.Device{device(t, quiet(0)), device(t, quiet(1))}
	made := 0
	for ; made < 10; made++ {
		comms, errs := pair(t, devices)
		if errs[0] == nil && errs[1] == nil {
			run(t, comms)
			continue
		}
		for _, err := range errs {
			if !errors.Is(err, hccl.ErrBudget) && !errors.Is(err, hccl.ErrRefused) || !strings.Contains(err.Error(), "MiB free of 200") {
				t.Errorf("pair %d: %v", made, err)
			}
		}
		break
	}
	if made < 2 || made == 10 {
		t.Errorf("%d pairs on 200 MiB", made)
	}
}

func TestRootPortTaken(t *testing.T) {
	if !child(t, "HCCL_SIM_FAIL=HcclGetRootInfo:1:7") {
		return
	}
	devices := [2]*hccl.Device{device(t, quiet(0)), device(t, quiet(1))}
	_, errs := pair(t, devices)
	for r, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "HCCL_IF_BASE_PORT") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	run(t, mustPair(t, devices))
}

func TestChipWithoutSend(t *testing.T) {
	if !child(t, "HCCL_SIM_CHIP=310P") {
		return
	}
	if _, err := hccl.Open(hccl.Config{Lib: simulator(t)}); !errors.Is(err, hccl.ErrChip) || !strings.Contains(err.Error(), "310P") {
		t.Error(err)
	}
}

func TestRingsOf910A(t *testing.T) {
	if !child(t, "HCCL_SIM_CHIP=910A") {
		return
	}
	first, near, far := device(t, quiet(0)), device(t, quiet(3)), device(t, quiet(4))
	_, errs := pair(t, [2]*hccl.Device{first, far})
	for r, err := range errs {
		if !errors.Is(err, hccl.ErrChip) || !strings.Contains(err.Error(), "devices 0 and 4") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	run(t, mustPair(t, [2]*hccl.Device{first, near}))
}

// Where streams cannot be aborted the Comm still ends at once; only what it holds comes back with the exec time-out.
func TestPeerDiesWithoutAbort(t *testing.T) {
	if !child(t, "HCCL_SIM_CHIP=910A", "HCCL_SIM_SECOND_MS=20") {
		return
	}
	d := device(t, quiet(0))
	ctx := bound(t)
	for _, phase := range []string{"later:3", ""} {
		conns := pipe(t)
		start(t, role{Kind: "source", Addr: relay(t, conns[0]), Device: 2}, "HCCL_SIM_CHIP=910A", "HCCL_SIM_DIE="+phase)
		c, err := d.Pair(ctx, conns[1], survivorRank)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() { _ = c.Run(ctx) })
		for i := 0; err == nil && i < 20; i++ {
			err = p2p.Recv(ctx, c, 1-survivorRank, p2p.Bytes(make([]byte, roleBytes)))
		}
		if phase != "" && !errors.Is(err, p2p.ErrPeer) || phase == "" && err != nil {
			t.Errorf("%q: %v", phase, err)
		}
		_ = c.Close()
		wg.Wait()
	}
	for d.Status().Pairs > 0 {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("still %+v", d.Status())
		}
	}
}
