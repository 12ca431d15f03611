package hccl_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"hcclps/p2p"
	"hcclps/p2p/hccl"
	"hcclps/p2p/hccl/acl"
)

func random(seed uint64, n int) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func bound(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// onDevice allocates device memory with contents.
func onDevice(t testing.TB, d *hccl.Device, contents []byte) p2p.Buffer {
	t.Helper()
	ctx := bound(t)
	b, err := d.Alloc(ctx, len(contents))
	if err == nil {
		err = d.Write(ctx, b, contents)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Free(bound(t), b); err != nil {
			t.Error(err)
		}
	})
	return b
}

// side is one end of a pair, with memory of every kind.
type side struct {
	t      *testing.T
	device *hccl.Device
	comm   *hccl.Comm
	pinned []byte
}

func newSide(t *testing.T, d *hccl.Device, c *hccl.Comm) side {
	t.Helper()
	b, err := c.Alloc(200_000)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Host(), make([]byte, 200_000)) {
		t.Error("pinned memory is not zero at first")
	}
	return side{t, d, c, b.Host()}
}

var kinds = []string{"host", "device", "pieces", "pinned"}

// send begins to send data out of memory of a kind.
func (s side) send(kind string, data []byte) *p2p.Request {
	switch kind {
	case "host":
		return s.comm.Isend(1, p2p.Bytes(data))
	case "device":
		return s.comm.Isend(1, onDevice(s.t, s.device, data))
	case "pinned":
		own := s.pinned[64 : 64+len(data)]
		copy(own, data)
		return s.comm.Isend(1, p2p.Bytes(own))
	default:
		return s.comm.IsendFunc(1, len(data), func(piece []byte) error {
			data = data[copy(piece, data):]
			return nil
		})
	}
}

// recv begins to receive n bytes into memory of a kind; the function returns them afterwards.
func (s side) recv(kind string, n int) (*p2p.Request, func() []byte) {
	got := make([]byte, n)
	all := func() []byte { return got }
	switch kind {
	case "host":
		return s.comm.Irecv(0, p2p.Bytes(got)), all
	case "device":
		there := onDevice(s.t, s.device, got)
		return s.comm.Irecv(0, there), func() []byte {
			if err := s.device.Read(bound(s.t), got, there); err != nil {
				s.t.Error(err)
			}
			return got
		}
	case "pinned":
		got = s.pinned[128 : 128+n]
		clear(got)
		return s.comm.Irecv(0, p2p.Bytes(got)), all
	default:
		rest := got
		return s.comm.IrecvFunc(0, n, func(piece []byte) error {
			rest = rest[copy(rest, piece):]
			return nil
		}), all
	}
}

// The two sides need not use the same kind of memory, nor the same way to name it, nor pieces of the same size.
func TestKindsOfMemory(t *testing.T) {
	devices := [2]*hccl.Device{device(t, hccl.Config{Device: 0, Piece: 8192}), device(t, hccl.Config{Device: 1, Piece: 16384})}
	comms := mustPair(t, devices)
	run(t, comms)
	ctx := bound(t)
	sender, receiver := newSide(t, devices[0], comms[0]), newSide(t, devices[1], comms[1])
	for i, from := range kinds {
		for j, to := range kinds {
			for _, n := range []int{1, 8191, 8192, 8193, 100_001} {
				want := random(uint64(n+i*10+j), n)
				recv, got := receiver.recv(to, n)
				if err := errors.Join(sender.send(from, want).Wait(ctx), recv.Wait(ctx)); err != nil {
					t.Fatalf("%d bytes from %s to %s: %v", n, from, to, err)
				}
				if !bytes.Equal(got(), want) {
					t.Errorf("%d bytes from %s to %s arrived changed", n, from, to)
				}
			}
		}
	}
	if s := comms[0].Stats(); s.Sends == 0 || s.Recvs != 0 || s.SentBytes == 0 || s.SendTime <= 0 {
		t.Errorf("stats of the sender: %+v", s)
	}
}

func TestMemoryOfAnotherDevice(t *testing.T) {
	devices := [2]*hccl.Device{device(t, hccl.Config{Device: 0}), device(t, hccl.Config{Device: 1})}
	comms := mustPair(t, devices)
	run(t, comms)
	ctx := bound(t)
	other := onDevice(t, devices[1], make([]byte, 10))
	if err := comms[0].Isend(1, other).Wait(ctx); !errors.Is(err, hccl.ErrMemory) {
		t.Errorf("send from memory of another device: %v", err)
	}
	if err := devices[0].Free(ctx, other); !errors.Is(err, hccl.ErrMemory) {
		t.Errorf("free memory of another device: %v", err)
	}
	recv := comms[1].Irecv(0, other)
	if err := errors.Join(comms[0].Isend(1, p2p.Bytes(make([]byte, 10))).Wait(ctx), recv.Wait(ctx)); err != nil {
		t.Errorf("the pair after that: %v", err)
	}
	if _, err := devices[0].Alloc(ctx, 1<<50); !acl.IsNoMemory(err) {
		t.Errorf("allocate a petabyte: %v", err)
	}
	if _, err := devices[0].Alloc(ctx, 0); err == nil {
		t.Error("no bytes were allocated")
	}
}

// The last piece is filled while the first is taken: neither can go on before the other has begun.
func TestPiecesOverlap(t *testing.T) {
	const piece, count = 4096, 4
	devices := [2]*hccl.Device{
		device(t, hccl.Config{Device: 0, Piece: piece, Depth: count}), device(t, hccl.Config{Device: 1, Piece: piece, Depth: count}),
	}
	comms := mustPair(t, devices)
	run(t, comms)
	ctx := bound(t)
	filling, taking := make(chan struct{}), make(chan struct{})
	meet := func(mine, other chan struct{}) error {
		close(mine)
		select {
		case <-other:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	filled, taken := 0, 0
	send := comms[0].IsendFunc(1, piece*count, func([]byte) error {
		if filled++; filled == count {
			return meet(filling, taking)
		}
		return nil
	})
	recv := comms[1].IrecvFunc(0, piece*count, func([]byte) error {
		if taken++; taken == 1 {
			return meet(taking, filling)
		}
		return nil
	})
	if err := errors.Join(send.Wait(ctx), recv.Wait(ctx)); err != nil || filled != count || taken != count {
		t.Errorf("%d pieces filled, %d taken: %v", filled, taken, err)
	}
}

// A function's error is the end of the pair, and the peer hears why.
func TestPiecewiseErrors(t *testing.T) {
	devices := [2]*hccl.Device{device(t, hccl.Config{Device: 0}), device(t, hccl.Config{Device: 1})}
	spoilt := errors.New("codec spoilt")
	for _, sending := range []bool{true, false} {
		comms := mustPair(t, devices)
		run(t, comms)
		ctx := bound(t)
		var bad, good *p2p.Request
		if sending {
			bad = comms[0].IsendFunc(1, 5000, func([]byte) error { return spoilt })
			good = comms[1].Irecv(0, p2p.Bytes(make([]byte, 5000)))
		} else {
			bad = comms[0].IrecvFunc(1, 5000, func([]byte) error { return spoilt })
			good = comms[1].Isend(0, p2p.Bytes(make([]byte, 5000)))
		}
		if err := bad.Wait(ctx); !errors.Is(err, spoilt) {
			t.Errorf("sending %v: %v", sending, err)
		}
		if err := good.Wait(ctx); err != nil && !errors.Is(err, p2p.ErrPeer) || sending && err == nil {
			t.Errorf("sending %v, the peer: %v", sending, err)
		}
		if err := comms[0].Isend(1, p2p.Bytes(nil)).Wait(ctx); !errors.Is(err, p2p.ErrClosed) {
			t.Errorf("sending %v, later: %v", sending, err)
		}
	}
}
