package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/collective"
	"hcclps/p2p/world"
)

// ErrRebuilt means that the workers of a job are others now: one was lost, or one came. Those that are left have the parameters of the same
// step, which Clock and Cursor say, and Rank and World may be others; what was pushed may or may not be in them. Train goes on by
// itself, a loop of one's own goes on from Cursor.
var ErrRebuilt = errors.New("the workers have changed")

// lost says whether an error is that a worker is gone or does not answer, and not that workers do different things.
func (p *peers) lost(ctx context.Context, err error) bool {
	if ctx.Err() != nil || errors.Is(err, collective.ErrMismatch) {
		return false
	}
	return errors.Is(err, p2p.ErrPeer) || errors.Is(err, collective.ErrStalled) || p.world.Err() != nil
}

// rebuild goes on with the workers that are left, and those that wait to come in. cause is what happened; nil: somebody waits.
func (r *replica) rebuild(ctx context.Context, cause error) error {
	p := r.peers
	for {
		if cause != nil {
			if !p.lost(ctx, cause) {
				if errors.Is(cause, collective.ErrMismatch) {
					p.failed(cause)
				}
				return cause
			}
			p.failed(cause)
			if v := p.world.Err(); v != nil {
				cause = fmt.Errorf("%w: %w", v, cause)
			}
			if r.rebuilds >= r.cfg.MaxRebuilds {
				return fmt.Errorf("%w; this is after %d rebuilds, the most there may be (--max-rebuilds)", cause, r.rebuilds)
			}
			r.rebuilds++
			r.log.Warn("a worker is lost", "rank", r.rank(), "epoch", p.world.Epoch(), "step", r.clock, "rebuilds", r.rebuilds, "err", cause)
		}
		err := r.again(ctx)
		if err == nil {
			err = r.meet(ctx)
		}
		if odd, ok := errors.AsType[*misfitError](err); ok {
			r.log.Warn("a worker came that does not fit, and is not let in", "err", odd)
			cause = nil
			continue
		}
		if said, ok := errors.AsType[*apartError](err); ok {
			if cause != nil {
				return fmt.Errorf("%w, after: %w", said, cause)
			}
			return said
		}
		switch {
		case err == nil && cause == nil:
			return fmt.Errorf("%w: now there are %d", ErrRebuilt, p.world.Size())
		case err == nil:
			return fmt.Errorf("%w: now there are %d, after: %w", ErrRebuilt, p.world.Size(), cause)
		case cause != nil && !p.lost(ctx, err):
			return fmt.Errorf("%w, after: %w", err, cause)
		}
		cause = err
	}
}

// again makes the next epoch.
func (r *replica) again(ctx context.Context) error {
	p := r.peers
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Deadline)
	defer cancel()
	if err := p.group.Close(); err != nil {
		p.log.Debug("close the group of workers", "err", err)
	}
	r.abandon()
	r.unlay()
	silent := p.silent()
	w, err := p.world.Rebuild(ctx)
	if err != nil {
		return &apartError{fmt.Errorf("meet the workers that are left: %w", err)} // there is no world to try again with
	}
	if silent && w.Size() == 1 {
		err := fmt.Errorf("the other workers have not heard this one for a while (it stood still for %v at most), and are not there any more: they have ended, or gone on without it: %w",
			p.world.Stood().Round(time.Millisecond), p2p.ErrRefused)
		return errors.Join(&apartError{err}, w.Close()) //nolint:contextcheck // closing has a bound of its own
	}
	return p.form(ctx, w)
}

// leave tells the others that this worker ends before its time, so that they do not find it out.
func (p *peers) leave(why string) {
	p.world.Fail("it ends: " + why)
}

// silent says whether the others took this worker for dead.
func (p *peers) silent() bool {
	if p.world.Stood() > suspect {
		return true
	}
	v, ok := errors.AsType[*world.RankError](p.world.Err())
	return ok && p.world.Size() > 1 && v.Rank == p.world.Rank() && strings.Contains(v.Reason, "silent")
}

// suspect is how long others wait for a word of a worker before they take it for dead, and the time between two.
const suspect = 2500 * time.Millisecond

// apartError is that this worker is not one of the next epoch, nor can be.
type apartError struct{ error }

func (e *apartError) Unwrap() error { return e.error }
