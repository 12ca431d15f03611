package link

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Verdict is what one attempt tells Route to do next. Make it with Done, Hint, Next, Busy or Fatal.
type Verdict struct {
	kind  verdict
	addr  string
	after time.Duration
}

type verdict uint8

const (
	verdictNext verdict = iota
	verdictDone
	verdictHint
	verdictBusy
	verdictFatal
)

// Done ends the operation well; the attempt's error is nil.
func Done() Verdict { return Verdict{kind: verdictDone} }

// Hint says that addr knows better: it is asked at once, unless it was asked in this round already. "" is Next.
func Hint(addr string) Verdict { return Verdict{kind: verdictHint, addr: addr} }

// Next says that another replica should be asked.
func Next() Verdict { return Verdict{} }

// Busy says that the same replica should be asked again after that time.
func Busy(after time.Duration) Verdict { return Verdict{kind: verdictBusy, after: after} }

// Fatal says that asking again cannot help.
func Fatal() Verdict { return Verdict{kind: verdictFatal} }

// Back-off between rounds, doubling.
const (
	minBackoff = 20 * time.Millisecond
	maxBackoff = 500 * time.Millisecond
)

// Route retries an operation over the replicas of a shard. A count bounds nothing here: the deadline does.
type Route struct {
	Op       string          // what is done, for errors: "push step 7 to shard 3"
	Replicas func() []string // addresses, asked anew for each round
	First    string          // asked first, "" = the first replica
	Timeout  time.Duration   // bound when ctx has no deadline, default 60 s
	PerTry   time.Duration   // bound of one attempt, 0 = none: a silent peer is noticed by the heartbeats
}

// Do calls try until it says Done or Fatal or the deadline is reached. Done with an error is Fatal. It returns the
// address that answered; otherwise a *RouteError with the address and cause of every attempt. The error of try says why
// its verdict is not Done. When all replicas of a round were asked, Do waits a random part of a back-off that doubles
// from 20 to 500 ms.
func (r Route) Do(ctx context.Context, try func(ctx context.Context, addr string) (Verdict, error)) (string, error) {
	r = r.withDefaults()
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, r.Timeout, fmt.Errorf("no success within %v: %w", r.Timeout, context.DeadlineExceeded))
		defer cancel()
	}
	failed := &RouteError{Op: r.Op}
	first, backoff := r.First, minBackoff
	for {
		addr, end, err := r.round(ctx, first, try, failed)
		if end {
			if err != nil {
				failed.Err = err
				return "", failed
			}
			return addr, nil
		}
		first = addr
		if !rest(ctx, rand.N(backoff)+1) {
			failed.Err = context.Cause(ctx)
			return "", failed
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

func (r Route) withDefaults() Route {
	if r.Timeout <= 0 {
		r.Timeout = 60 * time.Second
	}
	if r.Replicas == nil {
		r.Replicas = func() []string { return nil }
	}
	return r
}

// round asks each replica once, hints first. It ends with an answer, a fault that stays, or the deadline; else addr is
// the replica to begin the next round with.
func (r Route) round(ctx context.Context, first string, try func(context.Context, string) (Verdict, error), failed *RouteError) (addr string, end bool, err error) {
	var asked []string
	replicas := r.Replicas()
	if first == "" && len(replicas) == 0 {
		failed.add("(no replica)", errors.New("the list of replicas is empty"))
	}
	next, hinted := first, ""
	for {
		if next == "" || slices.Contains(asked, next) {
			i := slices.IndexFunc(replicas, func(a string) bool { return !slices.Contains(asked, a) })
			if i < 0 {
				return hinted, false, nil
			}
			next = replicas[i]
		}
		asked = append(asked, next)
		v, err := r.ask(ctx, next, try, failed)
		switch {
		case v.kind == verdictDone:
			return next, true, nil
		case v.kind == verdictFatal:
			return "", true, err
		case ctx.Err() != nil:
			return "", true, context.Cause(ctx)
		}
		next, hinted = "", ""
		if v.kind == verdictHint {
			next, hinted = v.addr, v.addr
		}
	}
}

// ask makes one attempt, and again while the replica is busy.
func (r Route) ask(ctx context.Context, addr string, try func(context.Context, string) (Verdict, error), failed *RouteError) (Verdict, error) {
	for {
		v, err := r.attempt(ctx, addr, try)
		if v.kind == verdictDone {
			if err == nil {
				return v, nil
			}
			v = Fatal()
		}
		if err == nil {
			err = errors.New("no reason given")
		}
		if v.kind == verdictFatal {
			return v, fmt.Errorf("ask %s: %w", addr, err)
		}
		failed.add(addr, err)
		if v.kind != verdictBusy {
			return v, err
		}
		after := max(v.after, time.Millisecond)
		if !rest(ctx, after+rand.N(after/4+1)) {
			return v, err
		}
	}
}

func (r Route) attempt(ctx context.Context, addr string, try func(context.Context, string) (Verdict, error)) (Verdict, error) {
	if r.PerTry > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, r.PerTry, fmt.Errorf("no answer within %v", r.PerTry))
		defer cancel()
	}
	return try(ctx, addr)
}
