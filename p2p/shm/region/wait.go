package region

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"hcclps/p2p"
)

// How long a rank looks at a word before it sleeps.
const (
	spinFor   = 4 * time.Microsecond
	burnFor   = 100 * time.Microsecond // without anybody else having had the CPU
	lookFor   = 20 * time.Millisecond  // at most, whoever has it
	busyYield = time.Microsecond       // a yield that takes longer has let another thread run
	spinBatch = 256                    // looks between two readings of the clock, which takes as long as some dozens
	crowdFor  = 256                    // waits that begin with yielding after a long yield
	nap       = 10 * time.Millisecond  // of sleep between two looks at everything else
)

// Look waits until a word of a rank is at least least, as long as looking at it is worth while. It returns the value it has seen last; with least 0 it
// returns at once.
func (r *Region) Look(rank, word int, least uint64) uint64 {
	w := r.mem.ranks[rank].word(word)
	v := w.Load()
	if v >= least {
		return v
	}
	return r.look(w, least)
}

// look is Look when it must wait.
func (r *Region) look(w *atomic.Uint64, least uint64) uint64 {
	crowded := r.crowd || r.crowded > 0
	if !crowded {
		if v := spinOnce(w, least); v >= least { // most often it is there before the clock would have been read
			return v
		}
	}
	began := time.Now()
	if crowded {
		r.crowded = max(0, r.crowded-1)
	} else if v := spin(w, least, began); v >= least {
		return v
	}
	for now, burnt := began, began; now.Sub(burnt) < burnFor && now.Sub(began) < lookFor; {
		r.yield()
		if v := w.Load(); v >= least {
			return v
		}
		last := now
		if now = time.Now(); now.Sub(last) > busyYield {
			r.crowded, burnt = crowdFor, now
		}
	}
	return w.Load()
}

// spin looks without pause for a moment.
func spin(w *atomic.Uint64, least uint64, began time.Time) uint64 {
	for {
		if v := spinOnce(w, least); v >= least || time.Since(began) > spinFor {
			return v
		}
	}
}

// spinOnce looks without reading the clock.
func spinOnce(w *atomic.Uint64, least uint64) (v uint64) {
	for range spinBatch {
		if v = w.Load(); v >= least {
			return v
		}
	}
	return v
}

// Await waits until a word of a rank is at least least. If ctx ends first it returns the cause. A rank that has left or died without having
// posted it is p2p.ErrPeer.
func (r *Region) Await(ctx context.Context, rank, word int, least uint64) error {
	if r.Look(rank, word, least) >= least {
		return nil
	}
	peer := &r.mem.ranks[rank]
	w := peer.word(word)
	bell := r.mem.ranks[r.rank].bell
	r.mem.sleepers.Add(1)
	defer r.mem.sleepers.Add(^uint32(0))
	defer bell.Store(0)
	for {
		bell.Store(1)
		gone := r.gone(rank) // before the word is looked at: what was posted first counts
		if w.Load() >= least {
			return nil
		}
		if gone != nil {
			return gone
		}
		if ctx.Err() != nil {
			return fmt.Errorf("wait for rank %d: %w", rank, context.Cause(ctx))
		}
		sleep(bell, 1, nap)
	}
}

// yield lets others run: other processes, or the goroutines that are the other ranks.
func (r *Region) yield() {
	if r.local {
		runtime.Gosched()
		return
	}
	yield()
}

// gone says whether a rank will post no more.
func (r *Region) gone(rank int) error {
	if r.mem.ranks[rank].state.Load() == stateLeft {
		return fmt.Errorf("rank %d has left: %w", rank, p2p.ErrPeer)
	}
	if !r.peers[rank].alive() {
		return fmt.Errorf("process of rank %d has ended: %w", rank, p2p.ErrPeer)
	}
	return nil
}

// Post raises a word of this rank, and wakes who may wait for it.
func (r *Region) Post(word int, value uint64) {
	r.mem.ranks[r.rank].word(word).Store(value)
	if r.mem.sleepers.Load() != 0 {
		r.ring()
	}
}

// ring wakes all that sleep.
func (r *Region) ring() {
	for i := range r.mem.ranks {
		if bell := r.mem.ranks[i].bell; i != r.rank && bell.Load() != 0 && bell.CompareAndSwap(1, 0) {
			wake(bell)
		}
	}
}

// Leave says that this rank will post no more.
func (r *Region) Leave() {
	r.mem.ranks[r.rank].state.Store(stateLeft)
	r.ring()
}
