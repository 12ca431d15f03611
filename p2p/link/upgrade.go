package link

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"hcclps/p2p"
)

const (
	upgradeTimeout = time.Minute // bounds an UpgradeFunc
	minUpgradeRest = time.Second // between two attempts, doubling
	maxUpgradeRest = time.Minute
)

// upgradeOffer is a connection to make a better Comm of.
type upgradeOffer struct {
	conn    net.Conn
	attempt uint32
}

// watched tells when the Transfer has let go of a Comm.
type watched struct {
	Comm
	closed chan struct{}
	once   sync.Once
}

func watch(c Comm) *watched { return &watched{Comm: c, closed: make(chan struct{})} }

// Confirms implements p2p.Confirmer, as far as the Comm does.
func (w *watched) Confirms() bool {
	c, ok := w.Comm.(p2p.Confirmer)
	return ok && c.Confirms()
}

func (w *watched) Close() error {
	defer w.once.Do(func() { close(w.closed) })
	return w.Comm.Close()
}

// seekUpgrade makes a better Comm in the background as soon as there is a bulk connection, and again when it has failed.
func (c *caller) seekUpgrade(ctx context.Context, dial dialFunc) {
	select {
	case <-c.used:
	case <-ctx.Done():
		return
	}
	pause := minUpgradeRest
	for attempt := uint32(1); ctx.Err() == nil; attempt++ {
		began := time.Now()
		err := c.tryUpgrade(ctx, dial, attempt)
		if ctx.Err() != nil {
			return
		}
		c.logger.Info("bulk comm is not upgraded", "peer", c.peer.From, "attempt", attempt, "err", err)
		if errors.Is(err, ErrNoUpgrade) {
			return
		}
		if time.Since(began) > maxUpgradeRest { // it was good for a while
			pause = minUpgradeRest
		}
		if !rest(ctx, pause/2+rand.N(pause/2)) {
			return
		}
		pause = min(2*pause, maxUpgradeRest)
	}
}

// tryUpgrade makes one better Comm and waits until it has come to its end.
func (c *caller) tryUpgrade(ctx context.Context, dial dialFunc, attempt uint32) error {
	conn, err := dial(ctx, Hello{Purpose: Upgrade, Epoch: attempt, Stripes: 1})
	if err != nil {
		return err
	}
	comm, err := c.makeUpgrade(ctx, conn)
	if err != nil {
		c.moves.CannotUpgrade(attempt)
		return err
	}
	w := watch(comm)
	c.moves.Upgrade(attempt, w)
	select {
	case <-w.closed:
		return errors.New("the comm has ended")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *session) makeUpgrade(ctx context.Context, conn net.Conn) (Comm, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, upgradeTimeout, fmt.Errorf("no comm within %v", upgradeTimeout))
	defer cancel()
	comm, err := s.upgrade(ctx, conn, s.rank)
	s.giveUp(err)
	return comm, err
}

// offerUpgrade hands over a connection of the caller.
func (r *responder) offerUpgrade(conn net.Conn, attempt uint32) error {
	if r.upgrade == nil {
		r.moves.CannotUpgrade(attempt)
		return errors.New("this server upgrades no comm")
	}
	select {
	case r.offered <- upgradeOffer{conn, attempt}:
		return nil
	default:
		return fmt.Errorf("%w: upgrade %d while another waits", ErrMalformed, attempt)
	}
}

// acceptUpgrades makes the other end of what the caller tries. A new attempt means that the last one is over.
func (r *responder) acceptUpgrades(ctx context.Context) {
	var making sync.WaitGroup
	defer making.Wait()
	stop := func() {}
	for {
		select {
		case o := <-r.offered:
			stop()
			making.Wait()
			var attempt context.Context
			attempt, stop = context.WithCancel(ctx)
			making.Go(func() { r.acceptUpgrade(attempt, o) })
		case <-ctx.Done():
			stop()
			return
		}
	}
}

func (r *responder) acceptUpgrade(ctx context.Context, o upgradeOffer) {
	comm, err := r.makeUpgrade(ctx, o.conn)
	if err != nil {
		r.logger.Info("bulk comm is not upgraded", "peer", r.peer.From, "attempt", o.attempt, "err", err)
		r.moves.CannotUpgrade(o.attempt)
		return
	}
	r.moves.Upgrade(o.attempt, comm)
}
