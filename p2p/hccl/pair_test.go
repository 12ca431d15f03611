package hccl_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"hcclps/p2p"
	"hcclps/p2p/hccl"
)

// Four devices make all their pairs at once: neither creations nor first operators may wait for each other in a circle.
func TestAllPairsAtOnce(t *testing.T) {
	const n = 4
	var devices [n]*hccl.Device
	for i := range devices {
		devices[i] = device(t, hccl.Config{Device: i})
	}
	ctx := bound(t)
	var wg sync.WaitGroup
	for round := range 3 {
		for i := range n {
			for j := range i {
				conns := pipe(t)
				for rank, d := range []*hccl.Device{devices[i], devices[j]} {
					wg.Go(func() { transferOnce(ctx, t, d, conns[rank], rank, fmt.Sprint(round, i, j)) })
				}
			}
		}
	}
	wg.Wait()
}

// transferOnce makes a pair, moves a message each way and closes.
func transferOnce(ctx context.Context, t *testing.T, d *hccl.Device, conn net.Conn, rank int, what string) {
	t.Helper()
	c, err := d.Pair(ctx, conn, rank)
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = c.Run(ctx) })
	got := make([]byte, len(what))
	recv, send := c.Irecv(1-rank, p2p.Bytes(got)), c.Isend(1-rank, p2p.Bytes([]byte(what)))
	if err := errors.Join(recv.Wait(ctx), send.Wait(ctx)); err != nil || string(got) != what {
		t.Errorf("%s: got %q, %v", what, got, err)
	}
	_ = c.Close()
	wg.Wait()
}

// Two processes, all lengths, both directions at once.
func TestTwoProcesses(t *testing.T) {
	d := device(t, quiet(0))
	ctx := bound(t)
	conns := pipe(t)
	start(t, role{Kind: "mirror", Addr: relay(t, conns[0]), Device: 1})
	c, err := d.Pair(ctx, conns[1], survivorRank)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = c.Run(ctx) })
	var got [mirrorCount][]byte
	var all []*p2p.Request
	for i := range mirrorCount {
		got[i] = make([]byte, mirrored(i))
		all = append(all, c.Isend(1-survivorRank, p2p.Bytes(random(uint64(i), mirrored(i)))), c.Irecv(1-survivorRank, p2p.Bytes(got[i])))
	}
	for i, r := range all {
		if err := r.Wait(ctx); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	for i := range got {
		if !bytes.Equal(got[i], random(uint64(i), mirrored(i))) {
			t.Errorf("message %d of %d bytes came back changed", i, mirrored(i))
		}
	}
	_ = c.Close()
	wg.Wait()
}

func TestBudget(t *testing.T) {
	small := hccl.Config{Device: 0, BufferMiB: 1, Piece: 4096, Depth: 1, Logger: discard}
	large := small
	large.Device, large.MaxPairs = 1, 1000
	devices := [2]*hccl.Device{device(t, small), device(t, large)}
	var last [2]*hccl.Comm
	for range 64 {
		last = mustPair(t, devices)
		run(t, last)
	}
	if s := devices[0].Status(); s.Pairs != 64 || s.MaxPairs != 64 || s.PairBytes < 3<<20 {
		t.Errorf("status %+v", s)
	}
	_, errs := pair(t, devices)
	if !errors.Is(errs[0], hccl.ErrBudget) || !strings.Contains(errs[0].Error(), "add pair 65") || !strings.Contains(errs[0].Error(), "MiB") {
		t.Errorf("the device that is full: %v", errs[0])
	}
	if !errors.Is(errs[1], hccl.ErrRefused) || !strings.Contains(errs[1].Error(), "add pair 65") {
		t.Errorf("its peer: %v", errs[1])
	}
	ctx := bound(t)
	for _, c := range last {
		_ = c.Close()
	}
	for devices[0].Status().Pairs == 64 && ctx.Err() == nil {
		_ = devices[0].Trim(ctx) // passes the time
	}
	run(t, mustPair(t, devices))
}

func TestRefusals(t *testing.T) {
	a, twin := device(t, quiet(0)), device(t, quiet(0))
	elsewhere := device(t, hccl.Config{Device: 0, Host: "elsewhere", Logger: discard})
	_, errs := pair(t, [2]*hccl.Device{a, twin})
	for r, err := range errs {
		if !errors.Is(err, hccl.ErrRefused) || !strings.Contains(err.Error(), "one rank a device") {
			t.Errorf("a device with itself, rank %d: %v", r, err)
		}
	}
	ctx := bound(t)
	conns := pipe(t)
	var wg sync.WaitGroup
	for i, d := range []*hccl.Device{a, elsewhere} {
		wg.Go(func() {
			if _, err := d.Pair(ctx, conns[i], 1); !errors.Is(err, hccl.ErrRefused) {
				t.Errorf("two ranks 1: %v", err)
			}
		})
	}
	wg.Wait()
	conns = pipe(t)
	if _, err := a.Pair(ctx, conns[0], 2); !errors.Is(err, p2p.ErrRank) {
		t.Errorf("rank 2: %v", err)
	}
	if _, err := hccl.Open(hccl.Config{Lib: simulator(t), Device: 99}); err == nil || !strings.Contains(err.Error(), "npu-smi") {
		t.Errorf("device 99: %v", err)
	}
	if _, err := hccl.Open(hccl.Config{Lib: simulator(t), Device: -1, Piece: 100, BufferMiB: 1 << 20}); err == nil ||
		strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("three wrong fields: %v", err)
	}
}

// A peer that is no such thing, silent or babbling, costs its own pair's time and nothing else.
func TestStrangers(t *testing.T) {
	d := device(t, quiet(0))
	for _, text := range []string{"", "GET / HTTP/1.1\r\nHost: here\r\nAccept: everything\r\n\r\n", "hc\x01\x01" + strings.Repeat("\x00", 28)} {
		ctx, cancel := context.WithCancel(bound(t))
		conns := pipe(t)
		if _, err := conns[0].Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if text == "" {
			cancel()
		}
		_, err := d.Pair(ctx, conns[1], 1)
		if err == nil || text == "" && !errors.Is(err, context.Canceled) {
			t.Errorf("%q: %v", text, err)
		}
		_, _ = conns[0].Read(make([]byte, 1))
		_ = conns[0].Close()
		cancel()
	}
	if s := d.Status(); s.Pairs != 0 || s.Stuck {
		t.Errorf("status %+v", s)
	}
}

// Ten thousand messages and twenty pairs leave nothing behind.
func TestNothingLeaks(t *testing.T) {
	devices := [2]*hccl.Device{device(t, hccl.Config{Device: 0}), device(t, hccl.Config{Device: 1})}
	ctx := bound(t)
	exchange := func(c [2]*hccl.Comm, count int) {
		buf := make([]byte, 1000)
		for range count {
			recv := c[1].Irecv(0, p2p.Bytes(buf))
			if err := errors.Join(c[0].Isend(1, p2p.Bytes(buf[:1000:1000])).Wait(ctx), recv.Wait(ctx)); err != nil {
				t.Fatal(err)
			}
		}
	}
	comms := mustPair(t, devices)
	run(t, comms)
	exchange(comms, 500)
	files := descriptors(t)
	// What leaks grows every time; what the heap, and the race detector for it, take from the system they take once.
	for left, before := 5, resident(t); ; left-- {
		exchange(comms, 10_000)
		after := resident(t)
		t.Logf("resident memory %d KiB, then %d KiB", before>>10, after>>10)
		if after <= before+8<<20 {
			break
		}
		if left == 0 {
			t.Fatalf("resident memory grew from %d to %d KiB, and by as much before", before>>10, after>>10)
		}
		before = after
	}
	for range 20 {
		more := mustPair(t, devices)
		var wg sync.WaitGroup
		for _, c := range more {
			wg.Go(func() { _ = c.Run(ctx) })
		}
		exchange(more, 5)
		for _, c := range more {
			_ = c.Close()
		}
		wg.Wait()
	}
	for (devices[0].Status().Pairs > 1 || devices[1].Status().Pairs > 1) && ctx.Err() == nil {
		_ = devices[0].Trim(ctx) // passes the time
	}
	if after := descriptors(t); after > files+2 {
		t.Errorf("open files grew from %d to %d", files, after)
	}
	for _, d := range devices {
		if err := d.Trim(ctx); err != nil {
			t.Fatal(err)
		}
		if s := d.Status(); s.Slots > 8 {
			t.Errorf("slots left: %+v", s)
		}
	}
}

func resident(t *testing.T) int {
	t.Helper()
	debug.FreeOSMemory()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var size, pages int
	if _, err := fmt.Sscan(string(b), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
