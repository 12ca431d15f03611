package p2p

import (
	"fmt"
	"time"
)

// RetryPolicy bounds how often a transfer begins again. The zero value has the defaults.
type RetryPolicy struct {
	Base  time.Duration // the first wait is below this, default 100 ms; it doubles with every try
	Tries int           // tries before the last one, default 3
}

// Wait is how long to wait before try n, counted from 0 since the last byte that got through. chance in [0, 1) is drawn by the caller: the wait
// is anything from nothing to the full step ("full jitter": AWS Architecture Blog, Exponential Backoff And Jitter, 2015), so that peers that
// fell together do not come back together. more is false when there is no such try; the last one is try number Tries.
func (p RetryPolicy) Wait(n int, chance float64) (wait time.Duration, more bool) {
	if n > orDefault(p.Tries, 3) {
		return 0, false
	}
	base := p.Base
	if base == 0 {
		base = 100 * time.Millisecond
	}
	return time.Duration(chance * float64(base<<min(n, 16))), true
}

// TransferError says which transfer failed, how far it had come, and why.
type TransferError struct {
	Peer  string // name of the other side
	Op    string // "send" or "receive"
	ID    uint64
	Done  int   // bytes that had arrived
	Total int   // bytes
	Tries int   // times that moving bytes was tried again without one getting through
	Err   error // the first cause
}

// Error names all of it.
func (e *TransferError) Error() string {
	if e.Tries == 0 {
		return fmt.Sprintf("%s %d with %s: %d of %d bytes: %v", e.Op, e.ID, e.Peer, e.Done, e.Total, e.Err)
	}
	return fmt.Sprintf("%s %d with %s: %d of %d bytes, %d tries, first: %v", e.Op, e.ID, e.Peer, e.Done, e.Total, e.Tries, e.Err)
}

// Unwrap gives the first cause.
func (e *TransferError) Unwrap() error { return e.Err }
