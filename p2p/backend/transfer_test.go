package backend_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/link"
	"hcclps/p2p/p2ptest"
)

// ends are both Transfers of a pair, in this process, over Comms of a road.
type ends struct {
	*testing.T
	road      *road
	transfers [2]*p2p.Transfer
	wires     [2]chan any // signals, and what waits for those before it

	mu     sync.Mutex
	epochs map[uint32]chan link.Comm // rank 1 of those that rank 0 made
	now    []link.Comm               // all ever made, both ranks
}

// newEnds runs both until the test ends, which waits for all of their goroutines.
func newEnds(t *testing.T, r *road) *ends {
	t.Helper()
	e := &ends{T: t, road: r, epochs: make(map[uint32]chan link.Comm)}
	for rank := range 2 {
		e.wires[rank] = make(chan any, 10_000) // more than there ever are
	}
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for rank := range 2 {
		var err error
		e.transfers[rank], err = p2p.NewTransfer(p2p.TransferConfig{
			Rank: rank, Peer: "the other rank",
			Open:   func(ctx context.Context, epoch uint32) (p2p.RunningComm, error) { return e.open(ctx, epoch, rank) },
			Post:   func(s p2p.Signal) { e.wires[1-rank] <- s },
			Policy: p2p.Policy{Chunk: p2p.ChunkPolicy{Fixed: 64 << 10}, Retry: p2p.RetryPolicy{Tries: 20}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for rank, transfer := range e.transfers {
		all.Go(func() { _ = transfer.Run(ctx) })
		all.Go(func() { e.carry(ctx, e.wires[rank], transfer) })
	}
	t.Cleanup(func() {
		stop()
		all.Wait()
		e.cut(0)
	})
	return e
}

// carry brings signals to one end.
func (e *ends) carry(ctx context.Context, wire <-chan any, to *p2p.Transfer) {
	for {
		select {
		case x := <-wire:
			s, ok := x.(p2p.Signal)
			if !ok {
				close(x.(chan struct{}))
			} else if err := to.Signalled(s); err != nil {
				e.Errorf("signal %+v: %v", s, err)
			}
		case <-ctx.Done():
			return
		}
	}
}

func (e *ends) epoch(n uint32) chan link.Comm {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.epochs[n] == nil {
		e.epochs[n] = make(chan link.Comm, 1)
	}
	return e.epochs[n]
}

// open makes both Comms for rank 0 and keeps that of rank 1 until it asks.
func (e *ends) open(ctx context.Context, epoch uint32, rank int) (p2p.RunningComm, error) {
	if rank == 1 {
		select {
		case c := <-e.epoch(epoch):
			return c, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	comms, err := e.road.pair(ctx)
	e.mu.Lock()
	for _, c := range comms {
		if c != nil {
			e.now = append(e.now, c)
		}
	}
	e.mu.Unlock()
	if err != nil {
		return nil, err
	}
	e.epoch(epoch) <- comms[1]
	return comms[0], nil
}

// cut closes the Comms that were made, or with one of them only the last.
func (e *ends) cut(one int) {
	e.mu.Lock()
	list := e.now
	if one > 0 && len(list) >= one {
		list = list[len(list)-one:][:1]
	}
	e.mu.Unlock()
	for _, c := range list {
		_ = c.Close()
	}
}

// move sends a body from a rank and waits for both sides. giveUp cancels: 1 the sender, 2 the receiver, at any moment.
func (e *ends) move(from int, id uint64, n, giveUp int) error {
	body := p2ptest.Pattern{Seed: id, N: n}
	out := e.transfers[from].SendFrom(id, body)
	told := make(chan struct{}) // behind what the sender said
	e.wires[1-from] <- told
	<-told
	var in *p2p.Incoming
	got := make([]byte, n)
	if id%2 == 0 {
		in = e.transfers[1-from].ReceiveInto(id, p2p.Priority(id%3), body)
	} else {
		in = e.transfers[1-from].Receive(id, p2p.Priority(id%3), got)
	}
	if giveUp > 0 {
		<-time.After(rand.N(3 * time.Millisecond))
	}
	switch giveUp {
	case 1:
		out.Cancel(errors.New("enough"))
	case 2:
		in.Cancel(errors.New("no more"))
	}
	late := time.After(time.Minute)
	for _, done := range []<-chan struct{}{out.Done(), in.Done()} {
		select {
		case <-done:
		case <-late:
			return fmt.Errorf("transfer %d of %d bytes hangs", id, n)
		}
	}
	err := in.Err()
	if err == nil && id%2 == 1 {
		err = body.Take(0, got)
	}
	if giveUp > 0 && !errors.Is(err, p2ptest.ErrPattern) {
		return nil
	}
	return errors.Join(err, out.Err())
}

// many moves bodies of random sizes, several at a time in both directions.
func (e *ends) many(count int, cancelled bool) {
	var number atomic.Uint64
	var all sync.WaitGroup
	for from := range 8 {
		all.Go(func() {
			for id := number.Add(1); id <= uint64(count); id = number.Add(1) {
				giveUp := 0
				if cancelled {
					giveUp = 1 + rand.IntN(2)
				}
				n := rand.IntN(1 << (4 + rand.IntN(18)))
				if err := e.move(from%2, id, n, giveUp); err != nil {
					e.Errorf("from rank %d: %v", from%2, err)
				}
			}
		})
	}
	all.Wait()
}

// resets is how many Comms were lost.
func (e *ends) resets() uint64 {
	return e.transfers[0].Stats().Resets + e.transfers[1].Stats().Resets
}

func TestTransferSizes(t *testing.T) {
	eachRoad(t, func(t *testing.T, r *road) {
		t.Helper()
		e := newEnds(t, r)
		for i, n := range []int{0, 1, 63, 64<<10 - 1, 64<<10 + 1, 1<<20 - 1, 1 << 20, 1<<20 + 1, 9<<20 + 7} {
			var both sync.WaitGroup
			for from := range 2 {
				both.Go(func() {
					if err := e.move(from, uint64(i), n, 0); err != nil {
						t.Errorf("%d bytes from rank %d: %v", n, from, err)
					}
				})
			}
			both.Wait()
		}
		if e.resets() != 0 {
			t.Errorf("%d comms were lost", e.resets())
		}
	})
}

// Transfers that are given up by either side, at any moment, leave the Comm as it was.
func TestCancelledTransfersLeaveTheComm(t *testing.T) {
	eachRoad(t, func(t *testing.T, r *road) {
		t.Helper()
		e := newEnds(t, r)
		e.many(200, true)
		if err := e.move(0, 1001, 3<<20, 0); err != nil {
			t.Error(err)
		}
		if e.resets() != 0 {
			t.Errorf("%d comms were lost", e.resets())
		}
	})
}

// Comms that die again and again cost no transfer and no byte.
func TestTransfersSurviveTheComm(t *testing.T) {
	eachRoad(t, func(t *testing.T, r *road) {
		t.Helper()
		e := newEnds(t, r)
		moved := make(chan struct{})
		go func() {
			defer close(moved)
			for e.resets() < 4 && !t.Failed() {
				e.many(200, false)
			}
		}()
		for {
			select {
			case <-moved:
				s := e.transfers[0].Stats()
				t.Logf("%d comms lost, %d KiB resumed, %d KiB moved again", s.Resets, s.Resumed>>10, s.Again>>10)
				return
			case <-time.After(rand.N(30 * time.Millisecond)):
				e.cut(1 + rand.IntN(2))
			}
		}
	})
}
