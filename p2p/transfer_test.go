package p2p_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/internal/trace"
	"hcclps/p2p"
	"hcclps/p2p/inproc"
)

// rig is two ends of a pair in one process. Signals go through channels; Comms are ranks of inproc worlds that the test can spoil.
type rig struct {
	*testing.T
	ends [2]*p2p.Transfer
	stop context.CancelCauseFunc
	done [2]chan error

	mu    sync.Mutex
	sure  bool
	epoch uint32
	pairs map[uint32][]p2p.RunningComm
	wires [2]chan any // signals, and what waits for those before it
	calm  bool
	wrap  func(epoch uint32, rank int, c p2p.Comm) (p2p.Comm, error)
}

// runner gives a Comm without goroutines a Run.
type runner struct {
	p2p.Comm
	sure  bool // it is a Confirmer
	calm  bool // it is Patient
	ended chan struct{}
	once  sync.Once
}

func running(c p2p.Comm) *runner { return &runner{Comm: c, ended: make(chan struct{})} }

func (r *runner) Confirms() bool { return r.sure }
func (r *runner) Patient() bool  { return r.calm }

func (r *runner) Run(ctx context.Context) error {
	select {
	case <-r.ended:
		return nil
	case <-ctx.Done():
		_ = r.Close()
		return context.Cause(ctx)
	}
}

func (r *runner) Close() error {
	err := r.Comm.Close()
	r.once.Do(func() { close(r.ended) })
	return err
}

type rigConfig struct {
	policy p2p.Policy
	lag    time.Duration // the most that a signal waits
	sure   bool          // Comms are Confirmers
	calm   bool          // and Patient
	wrap   func(epoch uint32, rank int, c p2p.Comm) (p2p.Comm, error)
	trace  [2]*trace.Recorder
}

func newRig(t *testing.T, cfg rigConfig) *rig {
	t.Helper()
	r := &rig{T: t, wrap: cfg.wrap, sure: cfg.sure, calm: cfg.calm, pairs: make(map[uint32][]p2p.RunningComm)}
	ctx, stop := context.WithCancelCause(t.Context())
	r.stop = stop
	for rank := range 2 {
		r.wires[rank] = make(chan any, 10_000)
	}
	for rank := range 2 {
		end, err := p2p.NewTransfer(p2p.TransferConfig{
			Rank: rank, Peer: "other", Policy: cfg.policy, Trace: cfg.trace[rank], Pair: 7,
			Open: func(ctx context.Context, epoch uint32) (p2p.RunningComm, error) { return r.open(ctx, epoch, rank) },
			Post: func(s p2p.Signal) { r.wires[1-rank] <- s },
		})
		if err != nil {
			t.Fatal(err)
		}
		r.ends[rank] = end
		r.done[rank] = make(chan error, 1)
	}
	var wg sync.WaitGroup
	for rank := range 2 {
		wg.Go(func() { r.done[rank] <- r.ends[rank].Run(ctx) })
		wg.Go(func() {
			for {
				select {
				case x := <-r.wires[rank]:
					s, ok := x.(p2p.Signal)
					if !ok {
						close(x.(chan struct{}))
						continue
					}
					if cfg.lag > 0 {
						<-time.After(rand.N(cfg.lag))
					}
					again, err := p2p.DecodeSignal(p2p.AppendSignal(nil, s))
					if err == nil {
						err = r.ends[rank].Signalled(again)
					}
					if err != nil {
						t.Errorf("rank %d got signal %+v: %v", rank, s, err)
						stop(err)
					}
				case <-ctx.Done():
					return
				}
			}
		})
	}
	t.Cleanup(func() {
		stop(errors.New("test over"))
		wg.Wait()
	})
	return r
}

// open gives one rank of the world of an epoch.
func (r *rig) open(_ context.Context, epoch uint32, rank int) (p2p.RunningComm, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pairs[epoch] == nil {
		for _, c := range inproc.World(2) {
			one := running(c)
			one.sure, one.calm = r.sure, r.calm
			r.pairs[epoch] = append(r.pairs[epoch], one)
		}
		r.epoch = epoch
	}
	c := p2p.Comm(r.pairs[epoch][rank])
	if r.wrap != nil {
		var err error
		if c, err = r.wrap(epoch, rank, c); err != nil {
			_ = r.pairs[epoch][rank].Close()
			return nil, err
		}
		if c != p2p.Comm(r.pairs[epoch][rank]) {
			one := running(c)
			one.sure, one.calm = r.sure, r.calm
			return one, nil
		}
	}
	return r.pairs[epoch][rank], nil
}

// cut kills the present Comm of a rank.
func (r *rig) cut(rank int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if pair := r.pairs[r.epoch]; pair != nil {
		_ = pair[rank].Close()
	}
}

// told returns when a side knows what was said to it so far.
func (r *rig) told(rank int) {
	r.Helper()
	behind := make(chan struct{})
	r.wires[rank] <- behind
	r.wait(behind)
}

func (r *rig) wait(done <-chan struct{}) {
	r.Helper()
	select {
	case <-done:
	case <-time.After(time.Minute):
		r.Fatal("a transfer hangs")
	}
}

func noise(seed uint64, n int) []byte {
	b := make([]byte, n)
	rng := rand.NewPCG(seed, 7)
	for i := 0; i < n; i += 8 {
		x := rng.Uint64()
		for j := i; j < min(i+8, n); j++ {
			b[j] = byte(x >> (8 * (j - i)))
		}
	}
	return b
}

// both moves n bytes in each direction and checks them.
func (r *rig) both(id uint64, n int) {
	r.Helper()
	var outs [2]*p2p.Outgoing
	var ins [2]*p2p.Incoming
	got := [2][]byte{make([]byte, n), make([]byte, n)}
	for rank, end := range r.ends {
		body := noise(id+uint64(rank), n)
		outs[rank] = end.Send(id, body[:n/3], nil, body[n/3:])
	}
	for rank, end := range r.ends {
		r.told(rank)
		ins[rank] = end.Receive(id, p2p.Push, got[rank])
	}
	for rank := range 2 {
		r.wait(outs[rank].Done())
		r.wait(ins[rank].Done())
		if outs[rank].Err() != nil || ins[rank].Err() != nil {
			r.Fatalf("transfer %d: %v, %v", id, outs[rank].Err(), ins[rank].Err())
		}
		if !bytes.Equal(got[1-rank], noise(id+uint64(rank), n)) {
			r.Fatalf("transfer %d from rank %d came changed", id, rank)
		}
	}
}

func TestTransferBothWays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{policy: p2p.Policy{Chunk: p2p.ChunkPolicy{Fixed: 10_000}}})
		for i, n := range []int{0, 1, 63, 64, 9_999, 10_000, 10_001, 1 << 20, 5<<20 + 3} {
			r.both(uint64(i), n)
		}
		for rank, end := range r.ends {
			if s := end.Stats(); s.Sent != s.Received || s.Sent < 6<<20 || s.Resets != 0 || s.Epoch != 0 {
				t.Errorf("rank %d: %+v", rank, s)
			}
		}
	})
}

func TestTransferResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 2))
		r := newRig(t, rigConfig{policy: p2p.Policy{Chunk: p2p.ChunkPolicy{Fixed: 10_000}}, wrap: func(_ uint32, _ int, c p2p.Comm) (p2p.Comm, error) {
			return &dying{Comm: c, left: 1 + rng.IntN(40)}, nil
		}})
		for i := range uint64(30) {
			r.both(i, 200_000+int(i)*1111)
		}
		for rank, end := range r.ends {
			s := end.Stats()
			if s.Resets < 20 || s.Resumed == 0 || s.Again == 0 {
				t.Errorf("rank %d: %+v", rank, s)
			}
		}
	})
}

// dying closes its Comm when the n-th request is made.
type dying struct {
	p2p.Comm
	mu   sync.Mutex
	left int
}

func (d *dying) tick() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left--; d.left == 0 {
		_ = d.Close()
	}
}

func (d *dying) Isend(peer int, b p2p.Buffer) *p2p.Request {
	d.tick()
	return d.Comm.Isend(peer, b)
}

func (d *dying) Irecv(peer int, b p2p.Buffer) *p2p.Request {
	d.tick()
	return d.Comm.Irecv(peer, b)
}

func TestTransferIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := newByHand(t, p2p.Policy{})
		defer end.end(t)
		synctest.Wait() // it runs
		end.Send(1, make([]byte, 10))
		end.Receive(1, p2p.Pull, make([]byte, 10)) // its own direction
		for name, err := range map[string]error{
			"id in use to send":    end.Send(1, make([]byte, 10)).Err(),
			"id in use to receive": end.Receive(1, p2p.Pull, make([]byte, 10)).Err(),
			"source below zero":    end.SendFrom(2, &tap{n: -2}).Err(),
			"sink below zero":      end.ReceiveInto(2, p2p.Pull, &tap{n: -2}).Err(),
			"second run":           end.Run(t.Context()),
		} {
			if err == nil {
				t.Errorf("%s is taken", name)
			}
		}
		if end.Send(3).Err() != nil || end.Receive(3, p2p.Pull, nil).Err() != nil {
			t.Error("nothing cannot be moved")
		}
	})
	open := func(context.Context, uint32) (p2p.RunningComm, error) { return nil, errors.New("none") }
	for _, cfg := range []p2p.TransferConfig{{Open: open}, {Post: func(p2p.Signal) {}}, {Open: open, Post: func(p2p.Signal) {}, Rank: 2}} {
		if _, err := p2p.NewTransfer(cfg); err == nil {
			t.Errorf("taken: %+v", cfg)
		}
	}
}
