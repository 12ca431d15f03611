package p2ptest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"hcclps/p2p"
)

// Faults says what goes wrong in a Faulty Comm. The zero value is nothing.
type Faults struct {
	// Delay is the most by which each transfer begins late; transfers with one peer keep their order.
	Delay time.Duration
	// Drop, Cut and Corrupt are chances, 0 to 1, for each send: it never leaves and never completes; or the Comm
	// dies, as if the peer were lost; or one bit of it arrives flipped (the sender's buffer is not touched).
	Drop, Cut, Corrupt float64
}

// Faulty wraps c in a Comm whose transfers fail by chance. The n-th send of a rank meets the same fate in every run with
// the same seed. Close ends the wrapped Comm too and waits until it has let go of all buffers.
func Faulty(c p2p.Comm, seed uint64, f Faults) p2p.Comm {
	return &faulty{
		comm:   c,
		faults: f,
		rng:    rand.New(rand.NewPCG(seed, uint64(c.Rank()))),
		lanes:  make(map[laneKey]chan struct{}),
		ended:  make(chan struct{}),
	}
}

type faulty struct {
	comm   p2p.Comm
	faults Faults
	wg     sync.WaitGroup // a goroutine for each transfer

	mu    sync.Mutex
	rng   *rand.Rand
	lanes map[laneKey]chan struct{} // closed when the last transfer of the lane has begun
	cause error
	ended chan struct{} // closed when cause is set
}

type laneKey struct {
	peer int
	send bool
}

// fate is what happens to one transfer.
type fate struct {
	delay         time.Duration
	drop, cut     bool
	corrupt       bool
	bit           uint64
	before, begun chan struct{}
}

func (f *faulty) Rank() int { return f.comm.Rank() }
func (f *faulty) Size() int { return f.comm.Size() }

func (f *faulty) Isend(peer int, b p2p.Buffer) *p2p.Request { return f.post(laneKey{peer, true}, b) }

func (f *faulty) Irecv(peer int, b p2p.Buffer) *p2p.Request { return f.post(laneKey{peer, false}, b) }

func (f *faulty) Close() error {
	f.end(p2p.ErrClosed)
	err := f.comm.Close()
	f.wg.Wait()
	return err
}

func (f *faulty) post(lane laneKey, b p2p.Buffer) *p2p.Request {
	if err := p2p.CheckPeer(f, lane.peer); err != nil {
		return p2p.Failed(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cause != nil {
		return p2p.Failed(p2p.Dead(f.Rank(), f.cause))
	}
	what := f.draw(lane)
	req, done := p2p.NewRequest()
	f.wg.Go(func() { done.Complete(f.transfer(lane, b, what)) })
	return req
}

// draw decides the fate of the next transfer of a lane; f.mu is held.
func (f *faulty) draw(lane laneKey) fate {
	what := fate{before: f.lanes[lane], begun: make(chan struct{})}
	f.lanes[lane] = what.begun
	if f.faults.Delay > 0 {
		what.delay = time.Duration(f.rng.Int64N(int64(f.faults.Delay) + 1))
	}
	if lane.send {
		what.drop = f.rng.Float64() < f.faults.Drop
		what.cut = f.rng.Float64() < f.faults.Cut
		what.corrupt = f.rng.Float64() < f.faults.Corrupt
		what.bit = f.rng.Uint64()
	}
	return what
}

func (f *faulty) transfer(lane laneKey, b p2p.Buffer, what fate) error {
	if err := f.hold(what); err != nil {
		return err
	}
	if what.cut {
		f.end(fmt.Errorf("send to rank %d: cut on purpose: %w", lane.peer, p2p.ErrPeer))
		_ = f.comm.Close() // the peers find out, too
		return f.why()
	}
	if what.drop {
		close(what.begun)
		<-f.ended
		return f.why()
	}
	if what.corrupt && b.Len() > 0 {
		b = flip(b, what.bit)
	}
	var req *p2p.Request
	if lane.send {
		req = f.comm.Isend(lane.peer, b)
	} else {
		req = f.comm.Irecv(lane.peer, b)
	}
	close(what.begun)
	err := req.Wait(context.Background()) // ends with the Comm
	if err != nil {
		f.end(err)
		return f.why()
	}
	return nil
}

// hold waits for the transfer before this one to begin, and for the delay.
func (f *faulty) hold(what fate) error {
	if what.before != nil {
		select {
		case <-what.before:
		case <-f.ended:
			return f.why()
		}
	}
	if what.delay == 0 {
		return nil
	}
	timer := time.NewTimer(what.delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-f.ended:
		return f.why()
	}
}

// end makes the Comm dead of the first cause.
func (f *faulty) end(cause error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cause == nil {
		f.cause = cause
		close(f.ended)
	}
}

func (f *faulty) why() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cause
}

// flip returns a copy of b with one bit changed.
func flip(b p2p.Buffer, bit uint64) p2p.Buffer {
	host := append([]byte(nil), b.Host()...)
	bit %= uint64(len(host)) * 8
	host[bit/8] ^= 1 << (bit % 8)
	return p2p.Bytes(host)
}
