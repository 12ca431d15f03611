package world

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"

	"hcclps/p2p"
)

// Comm opens a Comm of some ranks, in the order of their numbers in it; nil means all. All of them call it with the same name and ranks, within
// ctx; a name is used once in a World. "" names the Comm by its ranks and how many there were of them: the n-th call of one rank meets the n-th of
// the others. It waits for Run to be running. If it fails, the error names the ranks that are missed.
func (w *World) Comm(ctx context.Context, name string, ranks []int) (*Comm, error) {
	c, err := w.newComm(name, ranks)
	if err == nil {
		err = w.connect(ctx, c)
	}
	if err != nil {
		return nil, fmt.Errorf("open comm %q of %s at rank %d: %w", c.name, noun(c.ranks), w.rank, err)
	}
	return c, nil
}

// newComm checks a call and reserves the name.
func (w *World) newComm(name string, ranks []int) (*Comm, error) {
	c := &Comm{world: w, name: name, ranks: slices.Clone(ranks), dead: make(chan struct{})}
	if ranks == nil {
		for r := range w.Size() {
			c.ranks = append(c.ranks, r)
		}
	}
	if len(name) > maxName {
		return c, fmt.Errorf("a name has at most %d bytes", maxName)
	}
	ascending := slices.Sorted(slices.Values(c.ranks))
	for i, r := range ascending {
		if r < 0 || r >= w.Size() || i > 0 && r == ascending[i-1] {
			return c, fmt.Errorf("ranks %v are not different numbers below %d: %w", c.ranks, w.Size(), p2p.ErrRank)
		}
	}
	if c.rank = slices.Index(c.ranks, w.rank); c.rank < 0 {
		return c, fmt.Errorf("this rank is not one of them: %w", p2p.ErrRank)
	}
	c.lanes = make([]*lane, len(c.ranks))
	w.mu.Lock()
	defer w.mu.Unlock()
	for n := 1; name == "" && (n == 1 || w.names[c.name]); n++ {
		c.name = fmt.Sprintf("%.*s, %d", maxName-16, noun(c.ranks), n)
	}
	if w.names[c.name] {
		return c, errors.New("the name was used before: take another")
	}
	w.names[c.name] = true
	return c, nil
}

// connect makes the pairs of c, all at the same time; the first that cannot be made ends the others.
func (w *World) connect(ctx context.Context, c *Comm) error {
	inner, cancel := context.WithCancelCause(ctx)
	var watch, all sync.WaitGroup
	watch.Go(func() { w.abort(inner, cancel) })
	defer watch.Wait()
	defer cancel(nil)
	for i, r := range c.ranks {
		if i == c.rank {
			continue
		}
		all.Go(func() {
			if err := w.makeLane(inner, c, i); err != nil && inner.Err() == nil {
				cancel(fmt.Errorf("rank %d (%s): %w", r, w.Info(r), err))
			}
		})
	}
	all.Wait()
	err := context.Cause(inner)
	if ctx.Err() != nil {
		err = fmt.Errorf("%w: %s did not open it", err, noun(c.missed()))
	}
	if err == nil {
		err = w.start(c)
	}
	if err != nil {
		w.lobby.bar(c.name, fmt.Sprintf("rank %d (%s) could not open comm %q: %v", w.rank, w.cfg.Info, c.name, err))
		_ = c.Close()
	}
	return err
}

// missed are the ranks of the world to which c has no pair.
func (c *Comm) missed() []int {
	var missed []int
	for i, l := range c.lanes {
		if l == nil && i != c.rank {
			missed = append(missed, c.ranks[i])
		}
	}
	return missed
}

// abort ends what makes pairs when the world fails or stops.
func (w *World) abort(ctx context.Context, cancel context.CancelCauseFunc) {
	select {
	case <-w.Failed():
		cancel(w.Err())
	case <-w.stopped:
		cancel(errStopped)
	case <-ctx.Done():
	}
}

// start gives the pairs of c to Run.
func (w *World) start(c *Comm) error {
	w.mu.Lock()
	closed := w.state == handed || w.state == ended
	if !closed {
		w.comms[c] = struct{}{}
		for _, l := range c.lanes {
			if l != nil {
				w.fresh = append(w.fresh, l)
			}
		}
	}
	w.mu.Unlock()
	if closed {
		return errStopped
	}
	if err := w.Err(); err != nil {
		return err
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return nil
}

// drop forgets a Comm that is dead.
func (w *World) drop(c *Comm) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.comms, c)
}

// makeLane makes the pair with rank i of c: the lower of the two dials.
func (w *World) makeLane(ctx context.Context, c *Comm, i int) error {
	var conns []net.Conn
	var err error
	mine := 0
	if c.ranks[i] > w.rank {
		conns, err = w.dialPair(ctx, c, c.ranks[i])
	} else {
		mine = 1
		conns, err = w.acceptPair(ctx, c, c.ranks[i])
	}
	if err != nil {
		return err
	}
	pair, err := w.cfg.Pair(ctx, conns, mine)
	if err != nil {
		return fmt.Errorf("make a pair: %w", err)
	}
	c.lanes[i] = newLane(c, i, 1-mine, pair)
	return nil
}

// acceptPair waits for a lower rank to want the pair. One that has given up in the meantime may come again.
func (w *World) acceptPair(ctx context.Context, c *Comm, from int) ([]net.Conn, error) {
	for {
		h, conns, err := w.lobby.take(ctx, c.name, from)
		if err != nil {
			return nil, err
		}
		if ours := formatRanks(c.ranks); h.ranks != ours {
			refusal := fmt.Sprintf("comm %q is of ranks %s at rank %d, of ranks %s at rank %d", c.name, h.ranks, from, ours, w.rank)
			for _, conn := range conns {
				refuse(ctx, conn, refusal)
			}
			return nil, fmt.Errorf("%w: %s", p2p.ErrRefused, refusal)
		}
		for _, conn := range conns {
			if err == nil {
				err = sendAnswer(ctx, conn, "")
			}
		}
		if err == nil {
			return conns, nil
		}
		closeAll(conns)
		w.cfg.Logger.Debug("a pair was given up", "comm", c.name, "rank", from, "err", err)
	}
}

// dialPair connects to a higher rank, again and again until that has opened the comm too.
func (w *World) dialPair(ctx context.Context, c *Comm, to int) ([]net.Conn, error) {
	h := hello{
		purpose: pairing, job: w.cfg.Job, from: w.rank, to: to, size: w.Size(), info: w.cfg.Info, id: w.table.id, epoch: w.table.epoch,
		comm: c.name, ranks: formatRanks(c.ranks), stripes: uint8(w.cfg.Stripes),
	}
	for pause := minRest; ; pause = min(2*pause, maxRest) {
		h.attempt++
		conns, err := w.tryPair(ctx, h)
		if err == nil {
			return conns, nil
		}
		closeAll(conns)
		if ctx.Err() != nil || errors.Is(err, p2p.ErrRefused) {
			return nil, err
		}
		w.cfg.Logger.Debug("cannot make a pair yet", "comm", c.name, "rank", to, "err", err)
		rest(ctx, pause/2+rand.N(pause/2))
	}
}

// tryPair dials all connections of a pair and waits until the other side has opened the comm. It returns what it dialled, also with an error.
func (w *World) tryPair(ctx context.Context, h hello) ([]net.Conn, error) {
	var conns []net.Conn
	for ; h.stripe < h.stripes; h.stripe++ {
		conn, err := w.cfg.Network.Dial(ctx, w.table.members[h.to].address)
		if err != nil {
			return conns, err
		}
		conns = append(conns, conn)
		if err := sendHello(ctx, conn, h); err != nil {
			return conns, err
		}
	}
	for _, conn := range conns {
		if err := readAnswer(ctx, conn); err != nil {
			return conns, err
		}
	}
	return conns, nil
}
