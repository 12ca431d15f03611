package collective

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hcclps/p2p"
)

// The errors a caller may branch on. Test with errors.Is. A lost peer is p2p.ErrPeer.
var (
	// ErrMismatch means that two ranks did not call the same operation.
	ErrMismatch = errors.New("calls differ")
	// ErrStalled means that nothing came or went for the time of the watchdog.
	ErrStalled = errors.New("no progress")

	errGroupClosed = fmt.Errorf("group closed: %w", p2p.ErrClosed)
	errVerdict     = errors.New("another rank has failed")
	errDevice      = errors.New("device memory, want host memory")
)

// RankError is an error that is about one rank, by its number in Config.Ranks: the one that called something else, is missing or is lost.
type RankError struct {
	Rank int
	Err  error
}

func (e *RankError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *RankError) Unwrap() error { return e.Err }

// verdict is a reason that came from another rank, and what it is an error of.
type verdict struct {
	reason string
	kind   error
}

func (v verdict) Error() string { return v.reason }
func (v verdict) Unwrap() error { return v.kind }

const (
	// grace is how long a rank that only sees a peer's end waits to hear why, before it says what it has seen itself.
	grace = 3 * time.Second
	// linger is how long a rank that has seen a mismatch lets its own fingerprints go out.
	linger = time.Second
)

// watch ends ctx when there is a verdict or when the current operation makes no progress, and reports where this rank is.
func (g *Group) watch(ctx context.Context, stop context.CancelCauseFunc) {
	ticker := time.NewTicker(max(g.cfg.Watchdog/8, time.Millisecond))
	defer ticker.Stop()
	var failed <-chan struct{}
	if g.cfg.Control != nil {
		failed = g.cfg.Control.Failed()
	}
	told := position{state: positionUnknown}
	seen, since := g.progress.Load(), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-failed:
			stop(errVerdict)
			return
		case now := <-ticker.C:
			at := g.position()
			if g.cfg.Control != nil && at != told {
				g.cfg.Control.Report(at.encode())
				told = at
			}
			if n := g.progress.Load(); n != seen || at.state != positionIn {
				seen, since = n, now
			} else if now.Sub(since) >= g.cfg.Watchdog {
				stop(ErrStalled)
				return
			}
		}
	}
}

// failure finds out why an operation, or the waiting for one, has ended with err; tells the others; closes the Comm; and returns
// what all that is left fails with. ctx may have ended.
func (g *Group) failure(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	ctx = context.WithoutCancel(ctx)
	g.mu.Lock()
	closed := g.closed
	g.mu.Unlock()
	switch {
	case closed:
		err = errGroupClosed
	case errors.Is(cause, ErrStalled):
		err = g.stalled(ctx)
	case errors.Is(cause, errVerdict):
		err = g.verdict(cause)
	case cause != nil:
		err = fmt.Errorf("rank %d has ended: %w", g.cfg.Ranks[g.Rank()], cause)
	default:
		err = g.explain(ctx, err)
	}
	// Who ends with nothing to do does not fail: others may go on without it.
	told := g.cfg.Control != nil && !closed && !errors.Is(cause, errVerdict) && (cause == nil || g.busy())
	if told {
		g.cfg.Control.Fail(err.Error())
	}
	if errors.Is(err, ErrMismatch) {
		g.linger(ctx)
	}
	closing := g.closeAll()
	g.all.drain(ctx)
	if told && (cause == nil || errors.Is(cause, ErrStalled)) {
		err = g.settle(ctx, err)
	}
	if closing != nil {
		err = errors.Join(err, closing)
	}
	return err
}

// busy says whether an operation is under way or waits.
func (g *Group) busy() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.current != nil || len(g.queue) > 0
}

// explain turns the error of an exchange into the best that is known: a call that differs rather than the end that a peer met because of it.
func (g *Group) explain(ctx context.Context, err error) error {
	if errors.Is(err, ErrMismatch) {
		return err
	}
	if found := g.all.judge(); found != nil {
		return found
	}
	err = fmt.Errorf("rank %d has failed in %v: %w", g.cfg.Ranks[g.Rank()], g.position().call, err)
	if g.cfg.Control == nil || !errors.Is(err, p2p.ErrPeer) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	select {
	case <-g.cfg.Control.Failed():
		return g.verdict(err)
	case <-ctx.Done():
		return err
	}
}

// settle waits for the verdict, which is the same for all ranks, after this one has told its own error.
func (g *Group) settle(ctx context.Context, own error) error {
	if g.cfg.Control == nil {
		return own
	}
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	select {
	case <-g.cfg.Control.Failed():
		return g.verdict(own)
	case <-ctx.Done():
		return own
	}
}

// verdict is the error that all ranks share.
func (g *Group) verdict(own error) error {
	rank, reason := g.cfg.Control.Verdict()
	if own != nil && own.Error() == reason {
		return own
	}
	v := verdict{reason: reason, kind: p2p.ErrPeer}
	for _, kind := range []error{ErrMismatch, ErrStalled} {
		if strings.Contains(reason, kind.Error()) {
			v.kind = kind
		}
	}
	if rank < 0 {
		return v
	}
	if name := fmt.Sprintf("rank %d", rank); !strings.Contains(reason, name) { // a death is told without
		v.reason = name + " has failed: " + reason
	}
	return &RankError{rank, v}
}

// stalled names who is waited for and where they were last.
func (g *Group) stalled(ctx context.Context) error {
	at := g.position()
	g.all.recall()
	awaited := g.all.awaited()
	where := g.positions(ctx, at)
	var who []string
	blame := -1
	for r, name := range g.cfg.Ranks {
		text, known := where[r]
		switch e := &g.all.edges[r]; {
		case r == g.Rank() || where == nil && !slices.Contains(awaited, r):
			continue
		case where != nil && !known:
			continue // it is in this call too
		case known:
		case e.known:
			text = fmt.Sprintf("was last heard in %v", e.last)
		default:
			text = "was never heard"
		}
		who = append(who, fmt.Sprintf("rank %d %s", name, text))
		if blame < 0 {
			blame = name
		}
	}
	if len(who) == 0 {
		for _, r := range awaited {
			who = append(who, fmt.Sprintf("rank %d is in it too and does not answer", g.cfg.Ranks[r]))
			blame = g.cfg.Ranks[r]
		}
	}
	return &RankError{blame, fmt.Errorf("rank %d has waited %v in %v: %s: %w",
		g.cfg.Ranks[g.Rank()], g.cfg.Watchdog, at.call, strings.Join(who, ", "), ErrStalled)}
}

// positions asks where the others are. It is by rank of the Comm, without those that are in the same call as this one, and nil if nobody can be asked.
func (g *Group) positions(ctx context.Context, at position) map[int]string {
	if g.cfg.Control == nil {
		return nil
	}
	g.cfg.Control.Report(at.encode())
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	all, err := g.cfg.Control.Positions(ctx)
	if err != nil {
		return nil
	}
	where := make(map[int]string)
	for r, name := range g.cfg.Ranks {
		if name < 0 || name >= len(all) || all[name] == nil {
			where[r] = "has reported nothing"
			continue
		}
		switch p, err := decodePosition(all[name]); {
		case err != nil:
			where[r] = err.Error()
		case p != at:
			where[r] = p.String()
		}
	}
	return where
}

// linger lets the fingerprints of this rank reach peers that wait for them, so that they can see what differs themselves.
func (g *Group) linger(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, linger)
	defer cancel()
	for _, m := range g.all.open {
		if m.frame != nil && m.frame.Wait(ctx) != nil {
			return
		}
	}
}

// judge looks for a fingerprint that has come and differs.
func (x *exchange) judge() error {
	if err := x.judgeShared(); err != nil {
		return err
	}
	for i := range x.edges {
		e := &x.edges[i]
		if e.asked && !e.heard && e.hello.Ended() && e.hello.Wait(x.ctx) == nil {
			if err := x.compare(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// awaited lists the ranks that messages are under way with.
func (x *exchange) awaited() []int {
	var ranks []int
	for _, m := range x.open {
		if m.ended || slices.Contains(ranks, m.peer) {
			continue
		}
		e := &x.edges[m.peer]
		pending := !m.send && !e.heard && !e.hello.Ended()
		for _, r := range []*p2p.Request{m.frame, m.data} {
			pending = pending || r != nil && !r.Ended()
		}
		if pending {
			ranks = append(ranks, m.peer)
		}
	}
	return x.shared.awaited(ranks)
}

// drain waits until a closed Comm has let go of all buffers.
func (x *exchange) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	for _, m := range x.open {
		for _, r := range []*p2p.Request{m.frame, m.data, x.edges[m.peer].hello} {
			if r != nil {
				_ = r.Wait(ctx) // it has failed; only its end counts
			}
		}
	}
}
