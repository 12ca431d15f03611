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
	"hcclps/p2p/p2ptest"
)

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

func (o order) reply() p2ptest.Pattern { return p2ptest.Pattern{Seed: ^o.seed, N: int(o.want)} }

// serve checks the body of a call and answers with another.
func (l *load) serve(ctx context.Context, r *link.Request) {
	l.quiet.RLock()
	defer l.quiet.RUnlock()
	o := order{binary.LittleEndian.Uint64(r.Head), binary.LittleEndian.Uint64(r.Head[8:])}
	body := p2ptest.Pattern{Seed: o.seed, N: r.BodyLen}
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
			return !errors.Is(err, p2ptest.ErrPattern)
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
	body := p2ptest.Pattern{Seed: o.seed, N: size(rng)}
	c := link.Call{Head: o.head(), Source: body, Priority: link.Priority(rng.IntN(3))}
	if rng.IntN(2) == 0 {
		c.Sink = func(n int) (p2p.Sink, error) { return o.reply(), nil }
	}
	if rng.IntN(2) == 0 {
		whole := make([]byte, body.N)
		if err := body.Fill(0, whole); err != nil {
			return err
		}
		cut := rng.IntN(body.N + 1)
		c.Source, c.Body = nil, [][]byte{whole[:cut], whole[cut:]}
	}
	r, err := client.Call(ctx, addr, c)
	if err == nil && c.Sink == nil {
		if len(r.Body) != o.reply().N {
			err = fmt.Errorf("%w: reply of %d bytes, want %d", p2ptest.ErrPattern, len(r.Body), o.want)
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
		l.fault(fmt.Errorf("call with %d bytes for %d: %w", body.N, o.want, err))
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
