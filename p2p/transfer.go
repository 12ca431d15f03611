package p2p

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"hcclps/internal/trace"
)

// ErrCancelled means that the other side has given a transfer up.
var ErrCancelled = errors.New("transfer cancelled by the other side")

// RunningComm is a Comm whose goroutines are owned by Run, which blocks until ctx ends, the Comm is closed or its peer is lost.
type RunningComm interface {
	Comm
	Run(ctx context.Context) error
}

// Priority orders the transfers that one side receives: a chunk is asked for before every chunk of a later class.
type Priority uint8

// The classes, the most urgent first.
const (
	Pull Priority = iota
	Push
	Background
	priorities = 3
)

// String is the name in logs.
func (p Priority) String() string {
	switch p {
	case Pull:
		return "pull"
	case Push:
		return "push"
	case Background:
		return "background"
	default:
		return fmt.Sprintf("priority(%d)", uint8(p))
	}
}

// Policy is how a Transfer moves bytes. The zero value has the defaults.
type Policy struct {
	Mode   ModePolicy
	Window WindowPolicy
	Chunk  ChunkPolicy
	Retry  RetryPolicy
	Stall  time.Duration // chunks are on their way and none arrives for so long: the epoch has ended; default 15 s
	Agree  time.Duration // bound of the wait for the peer to end an epoch too, default 30 s
}

// TransferConfig describes one end of a pair. Open and Post are needed.
type TransferConfig struct {
	Rank int    // 0 begins an epoch when there is something to move, 1 follows it
	Peer string // name of the other side, for errors and logs
	// Open makes the Comm of an epoch, which both sides ask for with the same number. At rank 1 it waits for rank 0 to begin.
	Open func(ctx context.Context, epoch uint32) (RunningComm, error)
	// Post gives a signal to the control plane, which brings it to Signalled of the other side, in order. It must not block; it is
	// called with a mutex held and must not call the Transfer.
	Post   func(Signal)
	Pool   *Pool // of scratch memory, default one of 64 MiB
	Policy Policy
	Logger *slog.Logger // nil = discard
	// Trace gets a span of each transfer, and Pair tells this pair of processes from others there, the same on both sides; nil = nobody.
	Trace *trace.Recorder
	Pair  uint64
}

// Transfer is one end of a pair of processes that moves messages of any size, in both directions at once, over one Comm
// after the other. See the package comment for its protocol.
type Transfer struct {
	cfg         TransferConfig
	policy      Policy
	pool        *Pool
	log         *slog.Logger
	wakeSend    chan struct{} // one token: there is something to send
	wakeReceive chan struct{} // one token: there may be something to ask for
	need        chan struct{} // one token: there is something to move
	sends       *trace.Track
	receives    *trace.Track

	mu      sync.Mutex
	started bool
	dead    error // why Run has ended
	epochs
	sendSide
	receiveSide
	unaskedSide
	stats  Stats
	moved  uint64 // bytes that ever got through, for noticing progress
	active uint64 // chunks that ever came to an end, for noticing a stall
}

// NewTransfer checks the configuration. It starts nothing.
func NewTransfer(cfg TransferConfig) (*Transfer, error) {
	switch {
	case cfg.Open == nil || cfg.Post == nil:
		return nil, errors.New("configure transfer: open or post is nil")
	case cfg.Rank != 0 && cfg.Rank != 1:
		return nil, fmt.Errorf("configure transfer of rank %d: %w", cfg.Rank, ErrRank)
	}
	t := &Transfer{
		cfg: cfg, policy: cfg.Policy, pool: cfg.Pool, log: cfg.Logger,
		sends: cfg.Trace.Lanes("transfer", "send"), receives: cfg.Trace.Lanes("transfer", "receive"),
		wakeSend: make(chan struct{}, 1), wakeReceive: make(chan struct{}, 1), need: make(chan struct{}, 1),
		epochs:      epochs{advanced: make(chan struct{})},
		sendSide:    sendSide{outs: make(map[uint64]*Outgoing)},
		receiveSide: receiveSide{ins: make(map[uint64]*Incoming), voided: make(map[uint64]struct{}), sizer: newSizer(cfg.Policy.Chunk)},
		unaskedSide: unaskedSide{aside: make(map[uint64]*early)},
	}
	if t.policy.Stall == 0 {
		t.policy.Stall = 15 * time.Second
	}
	if t.policy.Agree == 0 {
		t.policy.Agree = 30 * time.Second
	}
	if t.pool == nil {
		t.pool = NewPool(64 << 20)
	}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	return t, nil
}

// Send offers the pieces of body as transfer id. They go when the peer asks for them and must not be written until the Outgoing is done.
func (t *Transfer) Send(id uint64, body ...[]byte) *Outgoing { return t.SendFrom(id, newPieces(body)) }

// SendFrom offers what src makes as transfer id. Ids are the callers': an id names one transfer in this direction until it is done on both sides.
func (t *Transfer) SendFrom(id uint64, src Source) *Outgoing {
	o := &Outgoing{t: t, id: id, src: src, total: src.Len(), done: make(chan struct{}), dropped: make(chan struct{})}
	t.offer(o)
	return o
}

// offer takes o on the list of what the peer may ask for.
func (t *Transfer) offer(o *Outgoing) {
	o.begin()
	t.mu.Lock()
	defer t.mu.Unlock()
	fault := t.dead
	if t.outs[o.id] != nil {
		fault = fmt.Errorf("send %d: the id is in use", o.id)
	}
	if o.total < 0 {
		fault = fmt.Errorf("send %d: source of %d bytes", o.id, o.total)
	}
	if fault != nil {
		o.cancelled, o.err = true, fault
	} else if o.total > 0 {
		t.outs[o.id] = o
		signal(t.need)
		t.sendUnasked(o)
	}
	o.finish()
}

// Receive asks for transfer id into dst, whose length is that of the transfer, and which must not be touched until the Incoming is done. The caller
// knows of the transfer from the control plane, behind the signals that the peer gave when it offered it: what it asked for earlier might be
// on its way unasked.
func (t *Transfer) Receive(id uint64, priority Priority, dst []byte) *Incoming {
	return t.ReceiveInto(id, priority, memory(dst))
}

// ReceiveInto asks for transfer id and gives its bytes to sink.
func (t *Transfer) ReceiveInto(id uint64, priority Priority, sink Sink) *Incoming {
	in := &Incoming{t: t, id: id, priority: min(priority, priorities-1), sink: sink, total: sink.Len(), done: make(chan struct{})}
	in.begin()
	t.mu.Lock()
	defer t.mu.Unlock()
	var err error
	if b := t.claim(id); b != nil {
		t.mu.Unlock() // the sink may take its time
		err = in.takeAside(b)
		t.mu.Lock()
	}
	fault := t.dead
	if t.ins[id] != nil {
		fault = fmt.Errorf("receive %d: the id is in use", id)
	}
	if in.total < 0 {
		fault = fmt.Errorf("receive %d: sink of %d bytes", id, in.total)
	}
	if _, gone := t.voided[id]; gone && fault == nil {
		delete(t.voided, id)
		fault = ErrCancelled
	}
	if fault == nil {
		fault = t.meet(in, err)
	}
	if fault != nil {
		in.err = fault
		in.aborted.Store(true)
	} else if in.total > 0 {
		t.ins[id] = in
		t.queues[in.priority] = append(t.queues[in.priority], in)
		signal(t.need)
		signal(t.wakeReceive)
	}
	in.finish()
	return in
}

// Forget says that transfer id will not be received any more: that the peer has given it up need not be remembered.
func (t *Transfer) Forget(id uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.voided, id)
	t.unwanted(id)
}

// Signalled acts on a signal of the peer. The signals are given to it in order by one goroutine, for which it does not wait. An error wraps
// ErrMalformed; the pair is broken then.
func (t *Transfer) Signalled(s Signal) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dead != nil {
		return nil
	}
	switch s.Kind {
	case SignalVoid:
		return t.senderGaveUp(s.ID)
	case SignalDropped:
		if o := t.outs[s.ID]; o != nil { // else both sides ended it at the same time
			t.receiverGaveUp(o)
		}
		return nil
	case SignalReady:
		t.peerIsReady(s)
		return nil
	case SignalGrant, SignalGrantSure, SignalTaken, SignalReset, SignalPause, SignalCredit, SignalUnasked:
	}
	if s.Epoch != t.epoch || t.peerEnded {
		return fmt.Errorf("signal of kind %d for epoch %d in epoch %d: %w", s.Kind, s.Epoch, t.epoch, ErrMalformed)
	}
	switch s.Kind {
	case SignalGrant, SignalGrantSure:
		return t.granted(s)
	case SignalTaken:
		return t.peerTook(s)
	case SignalPause:
		return t.peerPauses()
	case SignalReset:
		return t.peerEnds(s)
	case SignalCredit:
		return t.credited(s)
	case SignalUnasked:
		return t.announced(s)
	default:
		return fmt.Errorf("signal of kind %d: %w", s.Kind, ErrMalformed)
	}
}

// Run moves bytes until ctx ends, and then returns its cause, or until the bytes cannot be moved in any number of
// tries. What is not done fails with it. It owns all goroutines and every Comm.
func (t *Transfer) Run(ctx context.Context) error {
	t.mu.Lock()
	again := t.started
	t.started = true
	t.mu.Unlock()
	if again {
		return errors.New("run transfer: it ran already")
	}
	faults := faults{policy: t.policy.Retry}
	for {
		before, used := t.present()
		cause := t.meaning(t.round(ctx))
		if ctx.Err() != nil {
			return t.end(context.Cause(ctx), 0)
		}
		if err := t.agree(ctx, cause); err != nil {
			return t.end(err, 0)
		}
		if errors.Is(cause, errSwitch) {
			continue
		}
		now, _ := t.present()
		wait, more := faults.next(cause, now > before, rand.Float64())
		t.log.Warn("bulk comm lost, the next epoch resumes", "peer", t.cfg.Peer, "upgrade", used, "try", faults.tries, "err", cause)
		if t.cfg.Rank != 0 || used > 0 {
			continue // rank 0 sets the pace; a comm that was better while it lasted is replaced at once
		}
		if !more {
			return t.end(faults.first, faults.tries)
		}
		if !rest(ctx, wait) {
			return t.end(context.Cause(ctx), 0)
		}
	}
}

// faults counts the epochs that ended since bytes last got through.
type faults struct {
	policy RetryPolicy
	tries  int
	first  error
}

func (f *faults) next(cause error, progress bool, chance float64) (wait time.Duration, more bool) {
	if progress || f.first == nil {
		f.tries, f.first = 0, cause
	}
	wait, more = f.policy.Wait(f.tries, chance)
	if more {
		f.tries++
	}
	return wait, more
}

// present is how many bytes got through so far, and the number of the upgrade in use.
func (t *Transfer) present() (moved uint64, using uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.moved, t.using
}

// end fails all that is not done. No Comm is open any more.
func (t *Transfer) end(cause error, tries int) error {
	defer t.dropping.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(t.candidate)
	t.candidate = nil
	t.dead = fmt.Errorf("move bytes with %s: %w: %w", t.cfg.Peer, ErrClosed, cause)
	for id, o := range t.outs {
		delete(t.outs, id)
		if !o.ended && !o.cancelled {
			o.cancelled = true
			o.err = &TransferError{Peer: t.cfg.Peer, Op: "send", ID: id, Done: o.acked, Total: o.total, Tries: tries, Err: cause}
		}
		o.finish()
	}
	for id, in := range t.ins {
		in.err = &TransferError{Peer: t.cfg.Peer, Op: "receive", ID: id, Done: in.taken, Total: in.total, Tries: tries, Err: cause}
		in.aborted.Store(true)
		in.finish()
	}
	clear(t.voided)
	clear(t.aside)
	if tries > 0 {
		return fmt.Errorf("move bytes with %s: %d tries: %w", t.cfg.Peer, tries, cause)
	}
	return cause
}

// rest waits for d. It reports false if ctx ended first.
func rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// signal leaves a token, if there is none.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
