package p2ptest_test

import (
	"bytes"
	"context"
	"errors"
	"math/bits"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/inproc"
	"hcclps/p2p/p2ptest"
)

// faulty wraps rank 0 of a pair.
func faulty(t *testing.T, seed uint64, f p2ptest.Faults) (bad, good p2p.Comm) {
	t.Helper()
	comms := inproc.World(2)
	bad, good = p2ptest.Faulty(comms[0], seed, f), comms[1]
	t.Cleanup(func() {
		_ = bad.Close()
		_ = good.Close()
	})
	return bad, good
}

// A Comm with nothing but delays is a Comm.
func TestDelaysKeepThePromises(t *testing.T) {
	p2ptest.TestComm(t, func(_ *testing.T, n int) []p2p.Comm {
		comms := inproc.World(n)
		for r, c := range comms {
			comms[r] = p2ptest.Faulty(c, 7, p2ptest.Faults{Delay: time.Microsecond})
		}
		return comms
	})
}

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad, good := faulty(t, 1, p2ptest.Faults{Delay: time.Second})
		begin := time.Now()
		for range 100 {
			recv := good.Irecv(0, p2p.Bytes(make([]byte, 1)))
			if err := p2p.Send(t.Context(), bad, 1, p2p.Bytes(make([]byte, 1))); err != nil {
				t.Fatal(err)
			}
			if err := recv.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begin); took < 25*time.Second || took > 75*time.Second {
			t.Errorf("100 delays of 0 to 1 s took %v", took)
		}
	})
}

func TestCorrupt(t *testing.T) {
	bad, good := faulty(t, 1, p2ptest.Faults{Corrupt: 1})
	sent, got := make([]byte, 100), make([]byte, 100)
	recv := good.Irecv(0, p2p.Bytes(got))
	if err := p2p.Send(t.Context(), bad, 1, p2p.Bytes(sent)); err != nil {
		t.Fatal(err)
	}
	if err := recv.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	flipped := 0
	for _, x := range got {
		flipped += bits.OnesCount8(x)
	}
	if flipped != 1 || !bytes.Equal(sent, make([]byte, 100)) {
		t.Errorf("%d bits flipped on the way, sender's buffer kept: %v", flipped, bytes.Equal(sent, make([]byte, 100)))
	}
}

func TestDrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad, good := faulty(t, 1, p2ptest.Faults{Drop: 1})
		recv := good.Irecv(0, p2p.Bytes(make([]byte, 1)))
		send := bad.Isend(1, p2p.Bytes(make([]byte, 1)))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := recv.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("receive of a lost message: %v", err)
		}
		_ = bad.Close()
		if err := send.Wait(t.Context()); !errors.Is(err, p2p.ErrClosed) {
			t.Errorf("lost send after close: %v", err)
		}
	})
}

func TestCutBySeed(t *testing.T) {
	sends := func(seed uint64) int {
		bad, good := faulty(t, seed, p2ptest.Faults{Cut: 0.05})
		for n := 0; ; n++ {
			recv := good.Irecv(0, p2p.Bytes(make([]byte, 1)))
			err := p2p.Send(t.Context(), bad, 1, p2p.Bytes(make([]byte, 1)))
			if err == nil {
				continue
			}
			if !errors.Is(err, p2p.ErrPeer) {
				t.Errorf("send that was cut: %v", err)
			}
			if err := recv.Wait(t.Context()); !errors.Is(err, p2p.ErrPeer) {
				t.Errorf("receive from a comm that was cut: %v", err)
			}
			return n
		}
	}
	different := false
	for seed := range uint64(5) {
		first := sends(seed)
		if again := sends(seed); again != first {
			t.Errorf("seed %d: cut after %d sends, then after %d", seed, first, again)
		}
		different = different || first != sends(seed+100)
	}
	if !different {
		t.Error("the seed makes no difference")
	}
}
