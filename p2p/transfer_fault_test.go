package p2p_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/p2ptest"
)

func TestStallEndsTheEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{policy: p2p.Policy{Stall: 8 * time.Second}, wrap: func(epoch uint32, rank int, c p2p.Comm) (p2p.Comm, error) {
			if epoch < 2 && rank == 0 {
				c = &stuck{Comm: c}
			}
			return c, nil
		}})
		began := time.Now()
		r.both(1, 100_000)
		if took := time.Since(began); took < 16*time.Second || took > 21*time.Second {
			t.Errorf("two comms that stood still cost %v", took)
		}
	})
}

func TestGivesUpAndSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{policy: p2p.Policy{Chunk: p2p.ChunkPolicy{Fixed: 1 << 20}}, wrap: func(epoch uint32, rank int, c p2p.Comm) (p2p.Comm, error) {
			if rank == 1 && epoch > 0 {
				return nil, fmt.Errorf("no memory in epoch %d", epoch)
			}
			return &dying{Comm: c, left: 9}, nil
		}})
		out := r.ends[0].Send(7, make([]byte, 20<<20))
		in := r.ends[1].Receive(7, p2p.Push, make([]byte, 20<<20))
		err := <-r.done[0]
		<-out.Done()
		r.stop(err) // as the control plane does
		<-in.Done()
		for _, err := range []error{err, out.Err()} {
			if err == nil || !strings.Contains(err.Error(), "with other") || !strings.Contains(err.Error(), "4 tries") {
				t.Errorf("ended with %v", err)
			}
		}
		var fault *p2p.TransferError
		if !errors.As(out.Err(), &fault) || fault.ID != 7 || fault.Op != "send" || fault.Done == 0 || fault.Total != 20<<20 || fault.Err == nil {
			t.Errorf("the error does not say which transfer, how far and why: %+v", fault)
		}
		if s := r.ends[0].Stats(); s.Epoch != 5 {
			t.Errorf("gave up in epoch %d", s.Epoch)
		}
	})
}

func TestControlPlaneEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{policy: p2p.Policy{Chunk: p2p.ChunkPolicy{Fixed: 1000}}, wrap: func(_ uint32, _ int, c p2p.Comm) (p2p.Comm, error) {
			return &stuck{Comm: c, left: 20}, nil
		}})
		out := r.ends[0].Send(1, make([]byte, 100_000))
		in := r.ends[1].Receive(1, p2p.Push, make([]byte, 100_000))
		synctest.Wait()
		lost := errors.New("peer is silent")
		r.stop(lost)
		r.wait(out.Done())
		r.wait(in.Done())
		if !errors.Is(out.Err(), lost) || !errors.Is(in.Err(), lost) {
			t.Errorf("ended with %v and %v", out.Err(), in.Err())
		}
	})
}

func TestCutInEachPhase(t *testing.T) {
	for rank := range 2 {
		for phase, name := range []string{"idle", "announced", "under way", "over"} {
			t.Run(fmt.Sprintf("%s/%d", name, rank), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { cutIn(t, phase, rank) })
			})
		}
	}
}

func cutIn(t *testing.T, phase, rank int) {
	t.Helper()
	r := newRig(t, rigConfig{policy: p2p.Policy{Chunk: p2p.ChunkPolicy{Fixed: 1000}}})
	r.both(1, 5000)
	cut := func(now int) {
		if now == phase {
			synctest.Wait()
			r.cut(rank)
			synctest.Wait()
		}
	}
	cut(0)
	body, got := noise(1, 50_000), make([]byte, 50_000)
	out := r.ends[0].Send(2, body)
	cut(1)
	in := r.ends[1].ReceiveInto(2, p2p.Push, &tap{len(got), func(off int, p []byte) error {
		copy(got[off:], p)
		if phase == 2 && off > 20_000 && off < 21_000 {
			r.cut(rank)
		}
		return nil
	}})
	r.wait(out.Done())
	r.wait(in.Done())
	cut(3)
	if out.Err() != nil || in.Err() != nil || !bytes.Equal(body, got) {
		t.Errorf("ended with %v and %v", out.Err(), in.Err())
	}
	r.both(3, 5000)
	if s := r.ends[0].Stats(); s.Resets != 1 {
		t.Errorf("%d resets", s.Resets)
	}
}

// Where a send completes before its receive does, the sender's memory is kept until the receiver says that it has the
// bytes, and they are sent again if the Comm dies in between.
func TestSendsThatCompleteEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := 5
		policy := p2p.Policy{Chunk: p2p.ChunkPolicy{Fixed: 1000}, Window: p2p.WindowPolicy{Bytes: 4000}}
		r := newRig(t, rigConfig{policy: policy, lag: time.Millisecond, wrap: func(epoch uint32, rank int, c p2p.Comm) (p2p.Comm, error) {
			if rank == 1 && epoch < 20 {
				left += 3
				c = &dying{Comm: c, left: left}
			}
			return &eager{p2ptest.Faulty(c, uint64(epoch), p2ptest.Faults{Delay: time.Millisecond})}, nil
		}})
		body, got := noise(1, 200_000), make([]byte, 200_000)
		out, in := r.ends[0].Send(1, body), r.ends[1].Receive(1, p2p.Push, got)
		r.wait(out.Done())
		select {
		case <-in.Done():
		default:
			t.Error("the memory was let go of before the receiver had it all")
		}
		if in.Err() != nil || out.Err() != nil || !bytes.Equal(got, noise(1, len(got))) {
			t.Errorf("ended with %v and %v", out.Err(), in.Err())
		}
		if s := r.ends[0].Stats(); s.Resets < 5 || s.Again == 0 {
			t.Errorf("%+v", s)
		}
	})
}
