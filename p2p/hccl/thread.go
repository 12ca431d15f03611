package hccl

import (
	"context"
	"fmt"
	"runtime"
	"sync"
)

// thread is an OS thread that has set the device, and the queue of what it is to do, in order. HCCL and the runtime keep
// their state by OS thread, so a thread is locked to its goroutine for life and dies with it.
type thread struct {
	name string
	wake chan struct{}

	mu    sync.Mutex
	queue []func()
	over  bool
}

func newThread(name string) *thread { return &thread{name: name, wake: make(chan struct{}, 1)} }

// post queues f. It never blocks. On a thread that is over f does not run.
func (t *thread) post(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return false
	}
	t.queue = append(t.queue, f)
	select {
	case t.wake <- struct{}{}:
	default:
	}
	return true
}

// start queues f and returns where its result will be.
func (t *thread) start(f func() error) <-chan error {
	result := make(chan error, 1)
	if !t.post(func() { result <- f() }) {
		result <- fmt.Errorf("call on the %s: %w", t.name, ErrStopped)
	}
	return result
}

// do queues f and waits for it. If ctx ends first f may still run.
func (t *thread) do(ctx context.Context, f func() error) error {
	select {
	case err := <-t.start(f):
		return err
	case <-ctx.Done():
		return fmt.Errorf("wait for the %s: %w", t.name, context.Cause(ctx))
	}
}

// run works the queue off until stop is closed and the queue is empty, between setup and teardown. It is to be
// called as a goroutine of its own.
func (t *thread) run(stop <-chan struct{}, setup, teardown func() error) error {
	runtime.LockOSThread() // and never unlocked: what the libraries know of this thread dies with it
	if err := setup(); err != nil {
		t.end()
		return fmt.Errorf("start the %s: %w", t.name, err)
	}
	for {
		for _, f := range t.take() {
			f()
		}
		select {
		case <-t.wake:
			continue
		default:
		}
		select {
		case <-t.wake:
		case <-stop:
			t.end()
			if err := teardown(); err != nil {
				return fmt.Errorf("end the %s: %w", t.name, err)
			}
			return nil
		}
	}
}

// take empties the queue.
func (t *thread) take() []func() {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.queue
	t.queue = nil
	return q
}

// end runs what is queued and takes no more.
func (t *thread) end() {
	t.mu.Lock()
	t.over = true
	t.mu.Unlock()
	for _, f := range t.take() {
		f()
	}
}

// onThread runs body on an OS thread of its own, between setup and teardown.
func onThread(setup func() error, body func(), teardown func() error) error {
	runtime.LockOSThread() // never unlocked, see thread
	if err := setup(); err != nil {
		return err
	}
	body()
	return teardown()
}
