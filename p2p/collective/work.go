package collective

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"hcclps/internal/trace"
	"hcclps/p2p"
)

// Work is an operation that was posted. Any number of goroutines may wait for it. Until it has ended its buffers belong to the group: what is
// sent must not change, and what is received is not there.
type Work struct {
	call   Call
	bytes  int
	posted time.Duration
	group  *Group
	do     func(t team, v vector) error
	driven bool // whoever waits may carry it out
	waits  *trace.Track
	after  func(err error) // called before it has ended
	first  bool            // nothing was before it when it was posted
	slot   int             // in the recorder

	err   error                         // written before state is workEnded, read after
	done  atomic.Pointer[chan struct{}] // nil: nobody has asked for it
	state atomic.Uint32
}

// The states of a Work. It only goes on.
const (
	workPending uint32 = iota
	workEnded
	workClosed // done is closed or about to be
)

// end ends the Work with err.
func (w *Work) end(err error) {
	w.err = err
	w.state.Store(workEnded)
	w.tell()
}

// tell closes done, if it is there and the Work has ended. Who ends it and who makes done both call it after that: one of them sees both.
func (w *Work) tell() {
	if done := w.done.Load(); done != nil && w.state.CompareAndSwap(workEnded, workClosed) {
		close(*done)
	}
}

func (w *Work) ended() bool { return w.state.Load() != workPending }

// channel is done, made when it is first asked for: who carries the operation out himself never does.
func (w *Work) channel() <-chan struct{} {
	done := w.done.Load()
	if done == nil {
		made := make(chan struct{})
		if done = &made; !w.done.CompareAndSwap(nil, done) {
			done = w.done.Load()
		}
		w.tell()
	}
	return *done
}

// Call is the operation as this rank called it, with the algorithm that was chosen.
func (w *Work) Call() Call { return w.call }

// Done is closed when the operation has ended, well or not.
func (w *Work) Done() <-chan struct{} {
	if w.driven {
		w.group.hasten()
	}
	return w.channel()
}

// Wait returns the operation's error when it has ended. If ctx ends first it returns the cause; the operation goes on, and may be waited for again.
func (w *Work) Wait(ctx context.Context) error {
	if w.ended() {
		return w.err
	}
	span := w.waits.Begin("wait")
	defer span.End()
	if w.driven && ctx.Err() == nil {
		if w.group.drive(w); w.ended() {
			return w.err
		}
	}
	select {
	case <-w.channel():
		return w.err
	case <-ctx.Done():
		return fmt.Errorf("wait for %v: %w", w.call, context.Cause(ctx))
	}
}

// run carries the operation out, or goes on with it.
func (w *Work) run(t team) error {
	g, c := w.group, &w.call
	v := vector{width: max(1, c.DType.Size()), piece: g.cfg.Piece, ordered: g.cfg.RankOrder, over: t.size()}
	if c.Op.reduces() {
		v.reducer = g.reducer(c.DType, c.Reduction)
	}
	return w.do(t, v)
}

// refused is an operation that was never posted.
func refused(op Op, err error) *Work {
	w := &Work{call: Call{Op: op, Root: NoRoot}}
	w.end(fmt.Errorf("call %v: %w", op, err))
	return w
}

// post gives an operation its number and its algorithm, by its bytes in the sense of the cost model, and puts it into the queue.
func (g *Group) post(c Call, bytes int, run func(t team, v vector) error) *Work {
	return g.postTagged(c, bytes, 0, run, nil)
}

// postTagged is post for an operation with a tag that must agree too, and with something to do when it has ended.
func (g *Group) postTagged(c Call, bytes int, tag uint32, run func(t team, v vector) error, after func(error)) *Work {
	c.Group, c.Epoch = g.group, g.cfg.Epoch
	if c.Algorithm == (Choice{}) {
		c.Algorithm = g.choose.choose(c.Op, bytes)
	}
	c.RankOrder = g.cfg.RankOrder && c.Op.reduces()
	if c.Plan = g.plan; tag != 0 {
		c.Plan = g.planOf(tag)
	}
	w := &Work{bytes: bytes, posted: g.now(), group: g, do: run, after: after, waits: g.tracks.waits}
	if c.Algorithm == (Choice{Level1: SHM}) && g.all.shared != nil {
		w.driven = true
	}

	g.mu.Lock()
	if g.dead != nil || g.closed {
		err := g.dead
		g.mu.Unlock()
		if err == nil {
			err = errGroupClosed
		}
		w = refused(c.Op, p2p.Dead(g.cfg.Ranks[g.Rank()], err))
		if after != nil {
			after(w.err)
		}
		return w
	}
	g.seq++
	c.Seq = g.seq
	w.call = c
	w.first = g.current == nil && len(g.queue) == 0
	g.queue = append(g.queue, w)
	if !w.driven || after != nil || len(g.queue) > 1 {
		g.driver.cool()
	}
	hot := g.driver.hot()
	g.mu.Unlock()
	if !hot {
		g.poke()
	}
	if g.cfg.Logger.Enabled(context.Background(), slog.LevelDebug) {
		g.cfg.Logger.Debug("collective posted", "seq", c.Seq, "op", c.Op, "bytes", bytes, "algorithm", c.Algorithm)
	}
	return w
}
