package p2p_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/inproc"
	"hcclps/p2p/p2ptest"
)

var seeds = flag.Int("seeds", 20, "runs of TestTransfersUnderFaults, each with other faults")

// TestTransfersUnderFaults moves many transfers at once, of all classes and both ways, gives some up on either side at any moment, and loses the Comm
// again and again. What is received whole must be what was sent, and memory that was given back must not be touched.
func TestTransfersUnderFaults(t *testing.T) {
	for seed := range uint64(*seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { stress(t, seed, 60) })
		})
	}
}

func stress(t *testing.T, seed uint64, count int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	comms := rng.Uint64()
	sure := rng.IntN(2) == 0
	r := newRig(t, rigConfig{
		sure:   sure,
		calm:   sure && rng.IntN(3) > 0,
		lag:    time.Duration(rng.IntN(2)) * 300 * time.Microsecond,
		policy: p2p.Policy{Chunk: p2p.ChunkPolicy{Fixed: 4096}, Retry: p2p.RetryPolicy{Tries: 20}, Stall: time.Second},
		wrap: func(epoch uint32, rank int, c p2p.Comm) (p2p.Comm, error) {
			if (epoch*7+uint32(rank))%11 == 5 {
				return nil, errors.New("no comm this time")
			}
			c = p2ptest.Faulty(c, comms+uint64(epoch), p2ptest.Faults{Delay: 200 * time.Microsecond, Cut: 0.003})
			if epoch%5 == 2 && rank == 0 {
				c = &stuck{Comm: c, left: 30}
			}
			if !sure {
				c = &eager{c}
			}
			return c, nil
		},
	})
	var all sync.WaitGroup
	whole := make(chan bool, count)
	upgrades := rng.IntN(5)
	all.Go(func() { r.upgradeAgain(rand.New(rand.NewPCG(seed, 2)), upgrades) })
	for i := range count {
		from, size := rng.IntN(2), 1+rng.IntN(100_000)
		sender, receiver := r.ends[from], r.ends[1-from]
		giveUp := rng.IntN(6) // 0: the sender, 1: the receiver, 2: both
		after := [2]time.Duration{time.Duration(rng.IntN(4000)) * time.Microsecond, time.Duration(rng.IntN(4000)) * time.Microsecond}
		all.Go(func() {
			body := noise(seed+uint64(i), size)
			out := sender.Send(uint64(i), body)
			all.Go(func() {
				if giveUp == 0 || giveUp == 2 {
					stopAfter(out.Done(), after[0], func() { out.Cancel(errors.New("enough")) })
				}
				r.wait(out.Done())
				clear(body)
			})
			got := make([]byte, size)
			r.told(1 - from)
			in := receiver.Receive(uint64(i), p2p.Priority(i%3), got)
			if giveUp == 1 || giveUp == 2 {
				stopAfter(in.Done(), after[1], func() { in.Cancel(errors.New("no more")) })
			}
			r.wait(in.Done())
			whole <- in.Err() == nil
			if want := noise(seed+uint64(i), size); in.Err() == nil && !bytes.Equal(got, want) {
				t.Errorf("transfer %d of %d bytes came changed", i, size)
			}
			if giveUp > 2 && in.Err() != nil {
				t.Errorf("transfer %d: %v", i, in.Err())
			}
			clear(got)
		})
	}
	all.Wait()
	n := 0
	for range count {
		if <-whole {
			n++
		}
	}
	if n < count/4 || n == count {
		t.Errorf("%d of %d transfers were received whole", n, count)
	}
	r.both(1000, 50_000)
}

// upgradeAgain offers better Comms, which die too, and some of which one side only has.
func (r *rig) upgradeAgain(rng *rand.Rand, n int) {
	for attempt := uint32(1); attempt <= uint32(n); attempt++ {
		comms := inproc.World(2)
		for _, rank := range rng.Perm(2) {
			<-time.After(time.Duration(rng.IntN(1500)) * time.Microsecond)
			if rng.IntN(8) == 0 {
				_ = comms[rank].Close()
				r.ends[rank].CannotUpgrade(attempt)
				continue
			}
			faults := p2ptest.Faults{Delay: 200 * time.Microsecond, Cut: 0.005}
			r.ends[rank].Upgrade(attempt, running(p2ptest.Faulty(comms[rank], rng.Uint64(), faults)))
		}
	}
}

// eager says that a message is sent when it has been copied, as a backend may that does not hear of the receive.
type eager struct{ p2p.Comm }

func (e *eager) Isend(peer int, b p2p.Buffer) *p2p.Request {
	inner := e.Comm.Isend(peer, p2p.Bytes(append([]byte(nil), b.Host()...)))
	if inner.Ended() {
		return inner
	}
	r, done := p2p.NewRequest()
	done.Complete(nil)
	return r
}

// stuck sends nothing from the n-th message on, and does not say so.
type stuck struct {
	p2p.Comm
	mu      sync.Mutex
	left    int
	pending []p2p.Completion
}

func (s *stuck) Isend(peer int, b p2p.Buffer) *p2p.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left--; s.left >= 0 {
		return s.Comm.Isend(peer, b)
	}
	r, done := p2p.NewRequest()
	s.pending = append(s.pending, done)
	return r
}

func (s *stuck) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, done := range s.pending {
		done.Complete(p2p.ErrClosed)
	}
	return s.Comm.Close()
}

func stopAfter(done <-chan struct{}, d time.Duration, stop func()) {
	select {
	case <-done:
	case <-time.After(d):
		stop()
	}
}
