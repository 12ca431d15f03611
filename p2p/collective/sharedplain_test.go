package collective_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/collective"
)

// plainShared is the naive twin of a region: memory of this process, and one lock for all words. It works in fake time.
type plainShared struct {
	*plainMemory
	rank int
}

type plainMemory struct {
	mu     sync.Mutex
	change *sync.Cond
	memory [][]byte
	used   []int
	left   []bool
}

func newPlain(ranks, bytes int) *plainMemory {
	m := &plainMemory{memory: make([][]byte, ranks), used: make([]int, ranks), left: make([]bool, ranks)}
	for r := range m.memory {
		m.memory[r] = make([]byte, bytes)
	}
	m.change = sync.NewCond(&m.mu)
	return m
}

func (p plainShared) Memory(rank int) []byte { return p.memory[rank] }

func (p plainShared) Alloc(n int) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	from := p.used[p.rank]
	if n > len(p.memory[p.rank])-from {
		return nil, errors.New("full")
	}
	p.used[p.rank] += (n + 63) &^ 63
	return p.memory[p.rank][from : from+n], nil
}

func (p plainShared) Offset(b []byte) (int, bool) {
	own := p.memory[p.rank]
	at := len(own) - cap(b)
	return at, len(b) > 0 && at >= 0 && at < len(own) && &own[at] == &b[0]
}

func (p plainShared) value(rank, word int) uint64 {
	return binary.LittleEndian.Uint64(p.memory[rank][8*word:])
}

func (p plainShared) Post(word int, value uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	binary.LittleEndian.PutUint64(p.memory[p.rank][8*word:], value)
	p.change.Broadcast()
}

func (p plainShared) Look(rank, word int, least uint64) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.value(rank, word) >= least {
		return p.value(rank, word)
	}
	over := false
	timer := time.AfterFunc(100*time.Microsecond, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		over = true
		p.change.Broadcast()
	})
	defer timer.Stop()
	for !over && p.value(rank, word) < least {
		p.change.Wait()
	}
	return p.value(rank, word)
}

func (p plainShared) Await(ctx context.Context, rank, word int, least uint64) error {
	defer context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.change.Broadcast()
	})()
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.value(rank, word) < least {
		if p.left[rank] {
			return fmt.Errorf("rank %d has left: %w", rank, p2p.ErrPeer)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		p.change.Wait()
	}
	return nil
}

func (p plainShared) Leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left[p.rank] = true
	p.change.Broadcast()
}

// The protocol alone, which the race detector sees here as it cannot see it in mapped memory.
func TestSharedMemoryOfAProcess(t *testing.T) {
	for _, ranks := range []int{2, 3, 4} {
		m := newPlain(ranks, 8<<20)
		w := newWorld(t, ranks, func(r int, c *collective.Config) { c.Shared, c.Piece = plainShared{m, r}, 256 })
		for _, n := range []int{0, 1, 3, 64, 1501} {
			for _, op := range sharedOps {
				checkOp(t, w, op, kind{p2p.Float32, collective.Sum}, n)
			}
			checkInPlace(t, w, n)
		}
	}
}

// Wrong calls fail in shared memory as they do over a Comm, and before anything is done with the wrong bytes.
func TestWrongCallsInSharedMemory(t *testing.T) {
	for _, c := range wrongs() {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				told, m := newControl(5), newPlain(5, 2<<20)
				errs := runWrong(t, c, func(r int, cfg *collective.Config) { cfg.Control, cfg.Shared = end{told, r}, plainShared{m, r} })
				for r, err := range errs {
					if !errors.Is(err, collective.ErrMismatch) && !errors.Is(err, collective.ErrStalled) {
						t.Fatalf("rank %d: %v, want a mismatch or a stall", r, err)
					}
					for _, name := range c.names {
						if !strings.Contains(err.Error(), name) {
							t.Errorf("rank %d: %v, want it to say %q", r, err, name)
						}
					}
				}
			})
		})
	}
}

// A rank that goes is missed by those who wait for it, also without a Control.
func TestARankLeavesSharedMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newPlain(3, 2<<20)
		w := newWorld(t, 3, func(r int, c *collective.Config) { c.Shared = plainShared{m, r} })
		_ = w.each(func(r int, g *collective.Group) error {
			if r == 1 {
				return g.Close()
			}
			err := sumOf(100_000)(g).Wait(t.Context())
			if !errors.Is(err, p2p.ErrPeer) && !errors.Is(err, p2p.ErrClosed) {
				t.Errorf("rank %d: %v", r, err)
			}
			return nil
		})
	})
}

// Who gives up waiting leaves the operation to Run, in whatever state it is.
func TestSharedOperationIsHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newPlain(2, 4<<20)
		w := newWorld(t, 2, func(r int, c *collective.Config) { c.Shared, c.Piece = plainShared{m, r}, 64 })
		for n := range 100 {
			checkOp(t, w, sharedOps[n%len(sharedOps)], kind{p2p.Int64, collective.Prod}, 10*n)
		}
		b := floats(1000)
		work := w.groups[0].AllReduce(b, b, p2p.Float32, collective.Sum)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			synctest.Wait()
			cancel()
		}()
		if err := work.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("wait: %v", err)
		}
		if err := sumOf(1000)(w.groups[1]).Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if err := work.Wait(t.Context()); err != nil {
			t.Errorf("the operation did not go on: %v", err)
		}
	})
}

// Nobody need wait for an operation: Run sees to it, also when it has been idle because others waited.
func TestSharedOperationsThatNobodyWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newPlain(2, 2<<20)
		w := newWorld(t, 2, func(r int, c *collective.Config) { c.Shared = plainShared{m, r} })
		err := w.each(func(_ int, g *collective.Group) error {
			for i := range 100 {
				work := sumOf(10)(g)
				switch i % 50 {
				case 40:
					<-work.Done()
				case 41:
					more := sumOf(20)(g)
					if err := more.Wait(t.Context()); err != nil {
						return err
					}
				case 42:
					<-time.After(time.Second) // nobody waits for it
				}
				if err := work.Wait(t.Context()); err != nil {
					return err
				}
			}
			last := sumOf(5)(g)
			<-last.Done()
			return last.Wait(t.Context())
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// However many operations were carried out by those who waited, one that nobody waits for is carried out soon.
func TestRunSeesToWhatIsLeft(t *testing.T) {
	for waited := range 20 {
		synctest.Test(t, func(t *testing.T) {
			m := newPlain(2, 2<<20)
			w := newWorld(t, 2, func(r int, c *collective.Config) { c.Shared = plainShared{m, r} })
			err := w.each(func(_ int, g *collective.Group) error {
				for range waited {
					if err := sumOf(10)(g).Wait(t.Context()); err != nil {
						return err
					}
				}
				sumOf(10)(g)
				<-time.After(time.Second)
				if recent := g.Recent(); len(recent) != waited+1 || recent[waited].Ended.IsZero() {
					return fmt.Errorf("after %d operations one was left", waited)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}
