package raftgroup

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// hashicorp/raft never resolves the futures that are under way when it shuts
// down. So each one is waited for by a goroutine of ours, and before the
// shutdown no new ones are let in until all have been resolved, which a running
// raft does within an election timeout.

// drainFor bounds the wait for futures before raft shuts down.
const drainFor = 10 * time.Second

// Future is the outcome of a proposal, a barrier or a snapshot. It is always
// resolved.
type Future struct {
	done     chan struct{}
	err      error
	response any
}

// Done is closed when the outcome is known.
func (f *Future) Done() <-chan struct{} { return f.done }

// Error waits for the outcome.
func (f *Future) Error() error {
	<-f.done
	return f.err
}

// Response is what the FSM returned; call it after Error.
func (f *Future) Response() any { return f.response }

// Wait is Error with a context; its end does not take the proposal back.
func (f *Future) Wait(ctx context.Context) error {
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// intake counts the futures under way.
type intake struct {
	mu     sync.Mutex
	closed bool
	n      int
	idle   chan struct{} // closed when closed and n is 0
}

func (in *intake) enter() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return false
	}
	in.n++
	return true
}

func (in *intake) leave() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.n--
	in.settle()
}

// close lets nobody in any more and returns when all have left.
func (in *intake) close() {
	in.mu.Lock()
	idle := make(chan struct{})
	in.closed, in.idle = true, idle
	in.settle()
	in.mu.Unlock()
	bound := time.NewTimer(drainFor)
	defer bound.Stop()
	select {
	case <-idle:
	case <-bound.C:
	}
}

func (in *intake) settle() {
	if in.closed && in.n == 0 && in.idle != nil {
		close(in.idle)
		in.idle = nil
	}
}

// start begins something in raft and follows its future.
func (n *Node) start(begin func(r *raft.Raft) raft.Future) *Future {
	f := &Future{done: make(chan struct{})}
	r := n.raft.Load()
	if r == nil || !n.intake.enter() {
		f.err = ErrStopped
		close(f.done)
		return f
	}
	under := begin(r)
	go func() {
		defer n.intake.leave()
		f.err = under.Error()
		if a, ok := under.(raft.ApplyFuture); ok && f.err == nil {
			f.response = a.Response()
		}
		close(f.done)
	}()
	return f
}
