package p2p

import (
	"context"
	"fmt"
	"sync/atomic"
)

// Request is a transfer under way. Any number of goroutines may wait for it.
type Request struct {
	done  chan struct{}
	ended atomic.Bool
	err   error // written before done is closed, read after
}

// Completion is the backend's end of a Request.
type Completion struct {
	r *Request
}

// NewRequest makes a pending Request and the Completion that ends it. It is for implementations of Comm.
func NewRequest() (*Request, Completion) {
	r := &Request{done: make(chan struct{})}
	return r, Completion{r}
}

// Failed makes a Request that is complete already, with err.
func Failed(err error) *Request {
	r, c := NewRequest()
	c.Complete(err)
	return r
}

// Complete ends the Request with err, nil meaning success. Only the first call counts.
func (c Completion) Complete(err error) {
	if c.r.ended.CompareAndSwap(false, true) {
		c.r.err = err
		close(c.r.done)
	}
}

// Done is closed when the transfer is complete, well or not.
func (r *Request) Done() <-chan struct{} { return r.done }

// Wait returns the transfer's error when it is complete. If ctx ends first it returns the cause of that, and the transfer
// is *not* taken back: the Comm still owns the buffer, the two sides may no longer agree on what comes next, and the Comm
// must be closed. The Request can still be waited for: after Close it completes, and then the buffer is free.
func (r *Request) Wait(ctx context.Context) error {
	select {
	case <-r.done:
		return r.err
	default:
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return fmt.Errorf("wait for transfer: %w", context.Cause(ctx))
	}
}
