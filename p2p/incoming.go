package p2p

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"hcclps/internal/trace"
)

// Incoming is a transfer that this side receives. Its memory is written until Done is closed. The methods may be called concurrently.
type Incoming struct {
	t        *Transfer
	id       uint64
	priority Priority
	sink     Sink
	done     chan struct{}
	err      error // read after done
	aborted  atomic.Bool
	span     trace.Span

	// The rest belongs to the Transfer's mutex.
	total  int // bytes
	posted int // offset up to which it was asked for, in this epoch
	taken  int // offset up to which the bytes are there
	flying int // chunks asked for that have not come
	late   int // of those, the ones that take gives to the sink: until then no later one may go straight to it
	ended  bool
}

// Done is closed when all is there, or the transfer has ended otherwise; nothing touches its memory then.
func (in *Incoming) Done() <-chan struct{} { return in.done }

// Err is why the transfer ended, nil if all is there. It may be called when Done is closed.
func (in *Incoming) Err() error { return in.err }

// Cancel gives the transfer up and tells the peer. Done is closed when what is on its way has been drained.
func (in *Incoming) Cancel(cause error) {
	in.t.mu.Lock()
	defer in.t.mu.Unlock()
	in.t.abort(in, cause)
}

// finish closes done if nothing is on its way any more; t.mu is held.
func (in *Incoming) finish() {
	if in.ended || in.flying > 0 || !in.aborted.Load() && in.taken < in.total {
		return
	}
	in.ended = true
	in.recorded()
	in.t.forget(in)
	close(in.done)
}

// receiveSide is what the Transfer's mutex guards of the receiving half.
type receiveSide struct {
	ins    map[uint64]*Incoming
	queues [priorities][]*Incoming // what is not complete, by class, first come first served
	voided map[uint64]struct{}     // transfers given up by the sender before they were asked for
	flying int                     // chunks asked for that have not come
	taken  uint64                  // chunks taken in this epoch
	grant  SignalKind              // how chunks are asked for in this epoch
	sizer  sizer
	meter  meter
}

// takenEvery is after how many chunks of a long transfer the sender hears of them, where it must be told.
const takenEvery = 16

// maxVoided bounds the transfers that a peer may give up before this side knows of them.
const maxVoided = 1 << 16

// forget takes in off the lists; t.mu is held.
func (t *Transfer) forget(in *Incoming) {
	if t.ins[in.id] != in {
		return
	}
	delete(t.ins, in.id)
	q := t.queues[in.priority]
	if i := slices.Index(q, in); i >= 0 {
		t.queues[in.priority] = slices.Delete(q, i, i+1)
	}
}

// abort gives in up; t.mu is held.
func (t *Transfer) abort(in *Incoming, cause error) {
	if in.ended || in.aborted.Load() {
		return
	}
	in.err = cause
	in.aborted.Store(true)
	t.forget(in)
	t.unwanted(in.id)
	t.cfg.Post(Signal{Kind: SignalDropped, Epoch: t.epoch, ID: in.id})
	in.finish()
}

// senderGaveUp acts on SignalVoid; t.mu is held.
func (t *Transfer) senderGaveUp(id uint64) error {
	if in := t.ins[id]; in != nil {
		t.abort(in, ErrCancelled)
		return nil
	}
	if len(t.voided) >= maxVoided {
		return fmt.Errorf("transfer %d given up, and %d before it that were never announced: %w", id, len(t.voided), ErrMalformed)
	}
	t.voided[id] = struct{}{}
	t.unwanted(id)
	t.cfg.Post(Signal{Kind: SignalDropped, Epoch: t.epoch, ID: id})
	return nil
}

// askable picks the chunk to ask for next, of the most urgent class, if the window allows, and asks for it. The caller, which is one goroutine, then
// posts its receive: so grants and receives have one order.
func (t *Transfer) askable() (a arriving, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a, ok := t.awaited(); ok || t.pausing || len(t.early) > 0 {
		return a, ok
	}
	for _, q := range t.queues {
		for _, in := range q {
			if in.posted == in.total {
				continue
			}
			mode := t.policy.Mode.Mode(in.total)
			if t.flying >= t.policy.Window.Window(mode, t.sizer.size, t.meter.bandwidth, t.meter.latency) {
				return arriving{}, false
			}
			return t.ask(in), true
		}
	}
	return arriving{}, false
}

// ask asks for the next chunk of in; t.mu is held.
func (t *Transfer) ask(in *Incoming) arriving {
	a := arriving{of: in, off: in.posted, n: t.sizer.bytesOf(in.total - in.posted), late: in.late > 0}
	if a.late {
		in.late++
	}
	in.posted += a.n
	in.flying++
	t.fly()
	t.cfg.Post(Signal{Kind: t.grant, Epoch: t.epoch, ID: in.id, Offset: uint64(a.off), Bytes: uint32(a.n)})
	return a
}

// fly counts a chunk whose receive is posted; t.mu is held.
func (t *Transfer) fly() {
	if t.flying == 0 {
		t.meter.begin(time.Now())
	}
	t.flying++
}

// landed notes that the Comm is done with a chunk, of which got bytes are with the sink. whole says that it arrived, and all before it.
func (t *Transfer) landed(a arriving, got int, whole bool, fault error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flying--
	t.active++
	if whole {
		t.taken++
	}
	if a.of != nil {
		t.tookChunk(a, got, fault)
	}
	if whole && t.grant == SignalGrant && (a.of.ended || t.taken%takenEvery == 0) {
		t.cfg.Post(Signal{Kind: SignalTaken, Epoch: t.epoch, Offset: t.taken})
	}
	if whole && t.meter.landed(time.Now(), a.n, t.sizer.size) {
		t.sizer.observe(t.meter.bandwidth, t.meter.latency)
	}
	t.quiet()
	signal(t.wakeReceive)
}

// tookChunk notes how much of a chunk is with its sink; t.mu is held.
func (t *Transfer) tookChunk(a arriving, got int, fault error) {
	a.of.flying--
	if a.late {
		a.of.late--
	}
	if fault != nil {
		t.abort(a.of, fault)
	}
	if !a.of.aborted.Load() {
		a.of.taken += got
		t.stats.Received += uint64(got)
		t.moved += uint64(got)
	}
	a.of.finish()
}

// reask settles the receiving half at the end of an epoch: what was asked for and did not come is asked for again. t.mu is held.
func (t *Transfer) reask() {
	for _, in := range t.ins {
		if in.posted > in.taken {
			t.stats.Resumed += uint64(in.taken)
			t.stats.Again += uint64(in.posted - in.taken)
		}
		in.posted = in.taken
	}
	t.taken = 0
	t.early, t.lends = nil, false
}
