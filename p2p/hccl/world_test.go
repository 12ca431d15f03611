package hccl_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/hccl"
	"hcclps/p2p/hccl/acl"
)

// world runs body at every rank of a world of n devices of this process.
func world(t *testing.T, n int, body func(ctx context.Context, d *hccl.Device, w *hccl.World)) {
	t.Helper()
	ctx := bound(t)
	devices := make([]*hccl.Device, n)
	reserved := make([]*hccl.Reservation, n)
	for i := range n {
		devices[i] = device(t, hccl.Config{Device: i})
		var err error
		if reserved[i], err = devices[i].Reserve(ctx); err != nil {
			t.Fatal(err)
		}
	}
	info, err := reserved[0].Root(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			defer reserved[i].Release()
			w, err := reserved[i].World(ctx, info, i, n, t.Name())
			if err != nil {
				t.Error(err)
				return
			}
			body(ctx, devices[i], w)
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func floats(x ...float32) []byte {
	var b []byte
	for _, f := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	return b
}

func TestWorld(t *testing.T) {
	const n = 3
	world(t, n, func(ctx context.Context, d *hccl.Device, w *hccl.World) {
		r := float32(w.Rank())
		in := func(x ...float32) p2p.Buffer { return onDevice(t, d, floats(x...)) }
		one, all := in(0), in(0, 0, 0)
		check := func(what string, err error, got p2p.Buffer, want ...float32) {
			t.Helper()
			b := make([]byte, got.Len())
			if err := errors.Join(err, d.Read(ctx, b, got)); err != nil || !bytes.Equal(b, floats(want...)) {
				t.Errorf("%s at rank %v: %x, want %v: %v", what, r, b, want, err)
			}
		}
		check("allreduce", w.AllReduce(ctx, in(r, 1, -r), all, p2p.Float32, acl.Sum), all, 3, 3, -3)
		check("max", w.AllReduce(ctx, in(r, 1, 3-r), all, p2p.Float32, acl.Max), all, 2, 1, 3)
		check("allgather", w.AllGather(ctx, in(r*10), all, p2p.Float32), all, 0, 10, 20)
		check("reduce-scatter", w.ReduceScatter(ctx, in(1, 2, 3), one, p2p.Float32, acl.Sum), one, 3*(r+1))
		check("all-to-all", w.AlltoAll(ctx, in(r*10, r*10+1, r*10+2), all, p2p.Float32), all, r, 10+r, 20+r)
		shared := in(r + 5)
		check("broadcast", w.Broadcast(ctx, shared, p2p.Float32, 2), shared, 7)
		if err := w.Reduce(ctx, in(r), one, p2p.Float32, acl.Sum, 1); w.Rank() == 1 {
			check("reduce", err, one, 3)
		} else if err != nil {
			t.Error(err)
		}
		next, last := (w.Rank()+1)%n, (w.Rank()+n-1)%n
		check("ring", w.BatchSendRecv(ctx, []hccl.Exchange{{true, next, in(r)}, {false, last, one}}), one, float32(last))
		if err := w.Barrier(ctx); err != nil {
			t.Error(err)
		}
		for _, err := range []error{
			w.AllReduce(ctx, one, all, p2p.Float32, acl.Sum),
			w.AllGather(ctx, all, all, p2p.Float32),
			w.AllReduce(ctx, p2p.Bytes(nil), one, p2p.Float32, acl.Sum),
			w.BatchSendRecv(ctx, []hccl.Exchange{{true, next, one}, {true, next, one}}),
			w.BatchSendRecv(ctx, []hccl.Exchange{{true, n, one}}),
		} {
			if err == nil {
				t.Error("a call with wrong arguments went through")
			}
		}
	})
}

// A rank that waits for the others is freed by Close, also inside its first operator.
func TestWorldCloses(t *testing.T) {
	first := make(chan struct{})
	world(t, 2, func(ctx context.Context, d *hccl.Device, w *hccl.World) {
		if w.Rank() == 1 {
			<-first
			return
		}
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		if err := w.Barrier(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("barrier without the others: %v", err)
		}
		_ = w.Close()
		if err := w.Barrier(ctx); !errors.Is(err, p2p.ErrClosed) {
			t.Errorf("barrier of a closed world: %v", err)
		}
		close(first)
	})
}
