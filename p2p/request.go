package p2p

import (
	"context"
	"fmt"
	"sync/atomic"
)

// Request is a transfer under way. Any number of goroutines may wait for it.
type Request struct {
	driver  Driver                                     // nil: the backend needs no help
	explain func(ctx context.Context, err error) error // nil: err says it all
	err     error                                      // written before state is ended, read after
	done    atomic.Pointer[chan struct{}]              // nil: nobody has asked for it
	state   atomic.Uint32
}

// The states of a Request. It only goes on.
const (
	pending uint32 = iota
	ending         // the first Complete is at it
	ended          // complete
	closed         // complete, and done is closed or about to be
)

// Driver is a backend that can move bytes from the goroutine that waits for a Request, which spares it a switch to another.
type Driver interface {
	// Drive moves transfers until r is complete or ctx ends, or returns early when another goroutine is at it or
	// nothing has moved for some microseconds. It is called by Wait.
	Drive(ctx context.Context, r *Request)
	// Watched says that from now on somebody waits for the end of a Request without driving it.
	Watched()
}

// Completion is the backend's end of a Request.
type Completion struct {
	r *Request
}

// NewRequest makes a pending Request and the Completion that ends it. It is for implementations of Comm.
func NewRequest() (*Request, Completion) { return NewDriven(nil) }

// NewDriven is NewRequest for a backend that can be driven.
func NewDriven(d Driver) (*Request, Completion) {
	r := &Request{driver: d}
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
	if !c.r.state.CompareAndSwap(pending, ending) {
		return
	}
	c.r.err = err
	c.r.state.Store(ended)
	c.r.tell()
}

// tell closes done, if it is there and the transfer is complete. Who completes and who makes done both call it after that: one of them sees both.
func (r *Request) tell() {
	if done := r.done.Load(); done != nil && r.state.CompareAndSwap(ended, closed) {
		close(*done)
	}
}

// Explained lets Wait return what explain makes of the error of a transfer that failed. It is for a Comm made of other Comms, which calls it
// before it hands r on. explain is called by each Wait, with its context.
func (r *Request) Explained(explain func(ctx context.Context, err error) error) *Request {
	r.explain = explain
	return r
}

// outcome is what Wait returns of a complete transfer.
func (r *Request) outcome(ctx context.Context) error {
	if r.err == nil || r.explain == nil {
		return r.err
	}
	return r.explain(ctx, r.err)
}

// Ended says whether the transfer is complete, well or not. It does not wait.
func (r *Request) Ended() bool { return r.state.Load() >= ended }

// Done is closed when the transfer is complete, well or not.
func (r *Request) Done() <-chan struct{} {
	done := r.done.Load()
	if done == nil {
		made := make(chan struct{})
		if done = &made; !r.done.CompareAndSwap(nil, done) {
			done = r.done.Load()
		}
		r.tell()
	}
	if r.driver != nil && !r.Ended() {
		r.driver.Watched() // which may complete r
	}
	return *done
}

// Wait returns the transfer's error when it is complete. If ctx ends first it returns the cause of that, and the transfer
// is *not* taken back: the Comm still owns the buffer, the two sides may no longer agree on what comes next, and the Comm
// must be closed. The Request can still be waited for: after Close it completes, and then the buffer is free.
func (r *Request) Wait(ctx context.Context) error {
	if !r.Ended() && r.driver != nil && ctx.Err() == nil {
		r.driver.Drive(ctx, r)
	}
	if r.Ended() {
		return r.outcome(ctx)
	}
	select {
	case <-r.Done():
		return r.outcome(ctx)
	case <-ctx.Done():
		return fmt.Errorf("wait for transfer: %w", context.Cause(ctx))
	}
}
