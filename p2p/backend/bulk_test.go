package backend_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"hcclps/p2p"
	"hcclps/p2p/backend"
	"hcclps/p2p/link"
	"hcclps/p2p/p2ptest"
	"hcclps/p2p/shm"
	"hcclps/p2p/tcp"
)

var (
	_ link.PairFunc = backend.Pair
	_ link.PairFunc = (*backend.Bulk)(nil).Pair
)

// pair makes both ends at once.
func pair(t *testing.T, a, b link.PairFunc, stripes int) (comms [2]link.Comm, errs [2]error) {
	t.Helper()
	ends := p2ptest.Connect(t, "127.0.0.1:0", stripes)
	var both errgroup.Group
	both.Go(func() error { comms[0], errs[0] = a(t.Context(), ends[0], 0); return nil })
	both.Go(func() error { comms[1], errs[1] = b(t.Context(), ends[1], 1); return nil })
	_ = both.Wait() // errs has them
	return comms, errs
}

// talk sends a message over a pair and ends it.
func talk(t *testing.T, comms [2]link.Comm) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var run errgroup.Group
	for _, c := range comms {
		run.Go(func() error { return c.Run(ctx) })
	}
	got := make([]byte, 3)
	recv := comms[1].Irecv(0, p2p.Bytes(got))
	if err := p2p.Send(ctx, comms[0], 1, p2p.Bytes([]byte("abc"))); err != nil {
		t.Error(err)
	}
	if err := recv.Wait(ctx); err != nil || string(got) != "abc" {
		t.Errorf("received %q: %v", got, err)
	}
	for _, c := range comms {
		_ = c.Close()
	}
	if err := run.Wait(); err != nil && !errors.Is(err, p2p.ErrPeer) { // the other side may have closed first
		t.Errorf("run: %v", err)
	}
}

func bulk(t *testing.T, cfg backend.Config) link.PairFunc {
	t.Helper()
	b, err := backend.NewBulk(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if b.Upgrade() != nil {
		t.Error("a process without a device makes a better comm")
	}
	return b.Pair
}

func TestOneHostSharesMemory(t *testing.T) {
	comms, errs := pair(t, bulk(t, backend.Config{}), bulk(t, backend.Config{Transport: backend.SHM, NoFallback: true}), 2)
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	if _, ok := comms[0].(*shm.Comm); !ok {
		t.Errorf("the pair is a %T", comms[0])
	}
	talk(t, comms)
}

func TestOneSideWantsTCP(t *testing.T) {
	for name, other := range map[string]link.PairFunc{"Pair": backend.Pair, "tcp by name": bulk(t, backend.Config{Transport: backend.TCP})} {
		t.Run(name, func(t *testing.T) {
			comms, errs := pair(t, bulk(t, backend.Config{}), other, 3)
			if err := errors.Join(errs[:]...); err != nil {
				t.Fatal(err)
			}
			if _, ok := comms[0].(*tcp.Comm); !ok {
				t.Errorf("the pair is a %T", comms[0])
			}
			talk(t, comms)
		})
	}
}

func TestNothingInCommon(t *testing.T) {
	_, errs := pair(t, bulk(t, backend.Config{Transport: backend.SHM, NoFallback: true}), bulk(t, backend.Config{Transport: backend.TCP, NoFallback: true}), 1)
	for i, err := range errs {
		if !errors.Is(err, link.ErrUnusable) || !strings.Contains(err.Error(), "--no-fallback") {
			t.Errorf("rank %d: %v", i, err)
		}
	}
}

func TestPeerThatSaysNothing(t *testing.T) {
	ends := p2ptest.Connect(t, "127.0.0.1:0", 1)
	defer ends[1][0].Close()
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer stop()
	if _, err := backend.Pair(ctx, ends[0], 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a silent peer: %v", err)
	}
}

func TestBulkIsChecked(t *testing.T) {
	for want, cfg := range map[string]backend.Config{
		"pigeon":      {Transport: "pigeon"},
		"--device N":  {Transport: backend.HCCL},
		`device "-7"`: {Device: "-7"},
	} {
		if _, err := backend.NewBulk(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

// What one side insists on and the pair cannot have is final; what it only asked for is a word in the log.
func TestHCCLThatCannotBeHad(t *testing.T) {
	if !needSimulator(t) {
		t.Skip("no simulator without a C compiler")
	}
	for _, insist := range []bool{true, false} {
		var log bytes.Buffer
		b, err := backend.NewBulk(backend.Config{
			Transport: backend.HCCL, NoFallback: insist, Device: "0", Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})),
		})
		if err != nil {
			t.Fatal(err)
		}
		comms, errs := pair(t, b.Pair, bulk(t, backend.Config{Transport: backend.TCP}), 2)
		if errors.Is(errs[0], link.ErrUnusable) != insist || errs[1] != nil || strings.Count(log.String(), "hccl was asked for") != map[bool]int{false: 1}[insist] {
			t.Errorf("insist %v: %v; logged %s", insist, errors.Join(errs[:]...), log.String())
		}
		for _, c := range comms {
			if c != nil {
				_ = c.Close()
			}
		}
	}
}
