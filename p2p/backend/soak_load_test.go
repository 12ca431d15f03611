package backend_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/link"
)

// pattern is a body whose bytes follow from a seed; it is made and checked chunk by chunk.
type pattern struct {
	seed uint64
	n    int
}

var errWrong = errors.New("wrong contents")

// golden spreads numbers over all bits of a word.
const golden = 0x9e3779b97f4a7c15

func (p pattern) word(off int) uint64 { return (p.seed + uint64(off/8)) * golden }

func (p pattern) Len() int { return p.n }

func (p pattern) Fill(off int, b []byte) error {
	for ; len(b) >= 8; b, off = b[8:], off+8 {
		binary.LittleEndian.PutUint64(b, p.word(off))
	}
	var last [8]byte
	binary.LittleEndian.PutUint64(last[:], p.word(off))
	copy(b, last[:])
	return nil
}

func (p pattern) Take(off int, b []byte) error {
	for ; len(b) >= 8; b, off = b[8:], off+8 {
		if got := binary.LittleEndian.Uint64(b); got != p.word(off) {
			return fmt.Errorf("%w: %x at %d of %d, seed %d", errWrong, got, off, p.n, p.seed)
		}
	}
	var last [8]byte
	binary.LittleEndian.PutUint64(last[:], p.word(off))
	if string(last[:len(b)]) != string(b) {
		return fmt.Errorf("%w: the end of %d bytes, seed %d", errWrong, p.n, p.seed)
	}
	return nil
}

// load is the calls of one side and its answers to those of the other.
type load struct {
	quiet sync.RWMutex // held for writing while nothing may be under way
	fault func(error)  // told what must not happen

	made, served, cancelled, lost atomic.Int64
	bytes                         atomic.Int64 // in bodies that came whole
}

// order is the head of a call: the seed of its body, and the length of the reply's body that it wants.
type order struct{ seed, want uint64 }

func (o order) head() []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, o.seed), o.want)
}

func (o order) reply() pattern { return pattern{^o.seed, int(o.want)} }

// serve checks the body of a call and answers with another.
func (l *load) serve(ctx context.Context, r *link.Request) {
	l.quiet.RLock()
	defer l.quiet.RUnlock()
	o := order{binary.LittleEndian.Uint64(r.Head), binary.LittleEndian.Uint64(r.Head[8:])}
	body := pattern{o.seed, r.BodyLen}
	var err error
	if o.seed%2 == 0 {
		err = r.BodyTo(ctx, body)
	} else {
		var got []byte
		if got, err = r.Body(ctx); err == nil {
			err = body.Take(0, got)
		}
	}
	if err == nil {
		err = r.ReplyFrom(nil, o.reply())
	}
	switch {
	case err == nil:
		l.served.Add(1)
		l.bytes.Add(int64(r.BodyLen))
	case !interrupted(err):
		l.fault(fmt.Errorf("serve %d bytes: %w", r.BodyLen, err))
	}
}

// interrupted says whether a transfer may end so: the other process died, or one side gave it up.
func interrupted(err error) bool {
	for _, cause := range []error{p2p.ErrPeer, link.ErrUnreachable, link.ErrStopped, link.ErrCancelled, context.Canceled} {
		if errors.Is(err, cause) {
			return !errors.Is(err, errWrong)
		}
	}
	return false
}

// callFor is the most that any call may take, whatever happens.
const callFor = time.Minute

// keepCalling calls the other side until ctx ends.
func (l *load) keepCalling(ctx context.Context, client *link.Client, addr string, rng *rand.Rand) {
	for ctx.Err() == nil {
		l.quiet.RLock()
		err := l.call(ctx, client, addr, rng)
		l.quiet.RUnlock()
		if err != nil && ctx.Err() == nil {
			rest(ctx, 10*time.Millisecond)
		}
	}
}

func (l *load) call(ctx context.Context, client *link.Client, addr string, rng *rand.Rand) error {
	ctx, cancel := context.WithTimeout(ctx, callFor)
	defer cancel()
	if rng.IntN(20) == 0 {
		stop := time.AfterFunc(time.Duration(rng.Int64N(int64(20*time.Millisecond))), cancel)
		defer stop.Stop()
	}
	o := order{rng.Uint64(), uint64(size(rng))}
	body := pattern{o.seed, size(rng)}
	c := link.Call{Head: o.head(), Source: body, Priority: link.Priority(rng.IntN(3))}
	if rng.IntN(2) == 0 {
		c.Sink = func(n int) (p2p.Sink, error) { return o.reply(), nil }
	}
	if rng.IntN(2) == 0 {
		whole := make([]byte, body.n)
		if err := body.Fill(0, whole); err != nil {
			return err
		}
		cut := rng.IntN(body.n + 1)
		c.Source, c.Body = nil, [][]byte{whole[:cut], whole[cut:]}
	}
	r, err := client.Call(ctx, addr, c)
	if err == nil && c.Sink == nil {
		if len(r.Body) != o.reply().n {
			err = fmt.Errorf("%w: reply of %d bytes, want %d", errWrong, len(r.Body), o.want)
		} else {
			err = o.reply().Take(0, r.Body)
		}
	}
	switch {
	case err == nil:
		l.made.Add(1)
		l.bytes.Add(int64(o.want))
	case errors.Is(err, context.Canceled):
		l.cancelled.Add(1)
	case interrupted(err):
		l.lost.Add(1)
	default:
		l.fault(fmt.Errorf("call with %d bytes for %d: %w", body.n, o.want, err))
	}
	return err
}

// size draws the length of a body: nothing, a byte, what is inline, the borders of chunks, and now and then a large one.
func size(rng *rand.Rand) int {
	if rng.IntN(200) == 0 {
		return 32<<20 + rng.IntN(32<<20)
	}
	switch rng.IntN(6) {
	case 0:
		return rng.IntN(2)
	case 1:
		return link.MaxInline - 1 + rng.IntN(3)
	case 2:
		return 1<<20 - 1 + rng.IntN(3)
	case 3:
		return rng.IntN(6 << 20)
	default:
		return rng.IntN(1 << rng.IntN(20))
	}
}

// rest waits for d or the end of ctx.
func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
