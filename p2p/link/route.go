package link

import (
	"context"
	"errors"
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

// Done ends the operation well.
func Done() Verdict { return Verdict{kind: verdictDone} }

// Hint says that addr knows better: it is asked at once. "" is Next.
func Hint(addr string) Verdict { return Verdict{kind: verdictHint, addr: addr} }

// Next says that another replica should be asked.
func Next() Verdict { return Verdict{} }

// Busy says that the same replica should be asked again after that time.
func Busy(after time.Duration) Verdict { return Verdict{kind: verdictBusy, after: after} }

// Fatal says that asking again cannot help.
func Fatal() Verdict { return Verdict{kind: verdictFatal} }

// Route retries an operation over the replicas of a shard until the deadline (protocol: operations are bounded by their deadline alone).
type Route struct {
	Op         string          // what is done, for errors: "push step 7 to shard 3"
	Replicas   func() []string // addresses, asked anew for each round
	First      string          // asked first, "" = the first replica
	Timeout    time.Duration   // bound when ctx has no deadline, default 60 s
	PerTry     time.Duration   // bound of one attempt, 0 = none: a silent peer is noticed by the heartbeats
	MinBackoff time.Duration   // default 20 ms
	MaxBackoff time.Duration   // default 500 ms
}

// Do calls try until it says Done, Fatal or the deadline is reached. It returns the address that answered; otherwise an error that lists the
// address and cause of every attempt. err of try says why the verdict is not Done.
func (r Route) Do(ctx context.Context, try func(ctx context.Context, addr string) (Verdict, error)) (string, error) {
	return "", errors.New("not yet")
}
