package hccl

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"hcclps/p2p"
	"hcclps/p2p/hccl/acl"
)

// Reservation is the permission to make a communicator on a device. While it is held no pair is made there, since two
// creations at once are not allowed.
type Reservation struct {
	d    *Device
	once sync.Once
	used bool // the World gives it back
}

// Reserve waits until no communicator is being made on the device. The ranks of a World to be reserve their devices one
// after the other, in an order they all know, before the first of them calls Root or World: HCCL cannot call a
// creation off when a rank does not come.
func (d *Device) Reserve(ctx context.Context) (*Reservation, error) {
	if err := d.enter(); err != nil {
		return nil, fmt.Errorf("reserve device %d: %w", d.cfg.Device, err)
	}
	if d.isStuck() {
		d.live.Done()
		return nil, fmt.Errorf("reserve device %d: %w", d.cfg.Device, ErrBusy)
	}
	select {
	case d.making <- struct{}{}:
		return &Reservation{d: d}, nil
	case <-d.stopped:
		d.live.Done()
		return nil, fmt.Errorf("reserve device %d: %w", d.cfg.Device, ErrStopped)
	case <-ctx.Done():
		d.live.Done()
		return nil, fmt.Errorf("reserve device %d: %w", d.cfg.Device, context.Cause(ctx))
	}
}

// Release gives the permission back. It may be called more than once, and after World.
func (r *Reservation) Release() {
	if r.used {
		return
	}
	r.release()
}

func (r *Reservation) release() {
	r.once.Do(func() {
		r.d.unlock()
		r.d.live.Done()
	})
}

// Root makes this rank the root of a World. What it returns goes to the other ranks, by whatever way.
func (r *Reservation) Root(ctx context.Context) (*acl.RootInfo, error) {
	var info *acl.RootInfo
	err := r.d.builder.do(ctx, func() (err error) {
		info, err = r.d.lib.GetRootInfo()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("become root on device %d: %w", r.d.cfg.Device, err)
	}
	return info, nil
}

// World is a communicator of any number of ranks, with the operators of HCCL on device memory. Unlike a pair it is lost for all
// when one rank is lost: close it and make another. All ranks call the same methods in the same order. Each returns when the
// device has done it; if its ctx ends first the World must be closed.
type World struct {
	d          *Device
	rank, size int
	bond       *bond
	marks      chan *mark
	closed     chan struct{}

	mu      sync.Mutex
	cause   error
	waiting int  // operators that are not through
	inside  bool // the issuer is in an operator, perhaps for long: in the first one it waits for all ranks
}

// World makes the communicator of the ranks that call it with the same root info, size and name. A name is used once. The
// reservation is given back with the creation's end, even after ctx.
func (r *Reservation) World(ctx context.Context, info *acl.RootInfo, rank, size int, name string) (*World, error) {
	d := r.d
	if size < 1 || rank < 0 || rank >= size || name == "" || len(name) > maxName {
		return nil, fmt.Errorf("make rank %d of %d of world %q: %w", rank, size, name, p2p.ErrRank)
	}
	if err := d.reserve(ctx); err != nil {
		return nil, fmt.Errorf("make world %q: %w", name, err)
	}
	r.used = true
	b := newBond(name)
	config := acl.CommConfig{BufferMiB: d.cfg.BufferMiB, Name: name, ExecTimeout: d.self.ExecSecs}
	created := d.builder.start(func() (err error) {
		b.comm, err = d.lib.CommInitRootInfo(size, info, rank, config)
		return err
	})
	select {
	case err := <-created:
		r.release()
		if err != nil {
			d.release()
			return nil, fmt.Errorf("make world %q: %w", name, err)
		}
	case <-ctx.Done():
		d.setStuck(true)
		d.live.Go(func() {
			if <-created == nil {
				_ = d.destroyComm(b)
			}
			d.setStuck(false)
			d.release()
			r.release()
		})
		return nil, fmt.Errorf("make world %q: %w", name, context.Cause(ctx))
	}
	return d.furnishWorld(ctx, b, rank, size)
}

func (d *Device) furnishWorld(ctx context.Context, b *bond, rank, size int) (*World, error) {
	if err := d.steward.do(ctx, func() error { return b.furnish(d.lib) }); err != nil {
		d.bury(b, endDrained, func(error) {})
		return nil, fmt.Errorf("make world %q: %w", b.name, err)
	}
	w := &World{d: d, rank: rank, size: size, bond: b, marks: make(chan *mark, maxSteps), closed: make(chan struct{})}
	for _, k := range b.marks {
		w.marks <- k
	}
	b.watched.comm, b.watched.fail = b.comm, w.end
	d.waiter.watch(b.watched)
	return w, nil
}

// Rank is this side's number.
func (w *World) Rank() int { return w.rank }

// Size is the number of ranks.
func (w *World) Size() int { return w.size }

// Close destroys the communicator. Operators under way fail with p2p.ErrClosed, and their memory must not be used until the
// Device's Run has returned, unless all of them had completed. It may be called more than once.
func (w *World) Close() error {
	w.end(p2p.ErrClosed)
	return nil
}

func (w *World) end(cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cause != nil {
		return
	}
	w.cause = cause
	close(w.closed)
	state := endDrained
	switch {
	case w.inside:
		state = endStuck
	case w.waiting > 0:
		state = endBroken
	}
	w.d.bury(w.bond, state, func(error) {})
}

// operate issues an operator and waits for it.
func (w *World) operate(ctx context.Context, what string, f func(b *bond) error) error {
	err := w.issue(ctx, f)
	if err != nil {
		return fmt.Errorf("%s of rank %d of world %q: %w", what, w.rank, w.bond.name, err)
	}
	return nil
}

func (w *World) issue(ctx context.Context, f func(b *bond) error) error {
	var k *mark
	select {
	case k = <-w.marks:
	case <-w.closed:
		return p2p.Dead(w.rank, w.cause)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	w.mu.Lock()
	if w.cause != nil {
		w.mu.Unlock()
		return p2p.Dead(w.rank, w.cause)
	}
	w.waiting++
	w.mu.Unlock()
	done := make(chan error, 1)
	w.d.issuer.post(func() { w.launch(k, f, done) })
	select {
	case err := <-done:
		w.mu.Lock()
		w.waiting--
		w.mu.Unlock()
		w.marks <- k
		return err
	case <-w.closed:
		return p2p.Dead(w.rank, w.cause)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// launch runs on the issuer.
func (w *World) launch(k *mark, f func(b *bond) error, done chan<- error) {
	if !w.enter() {
		done <- p2p.ErrClosed
		return
	}
	launched := time.Now()
	err := f(w.bond)
	w.leave()
	if err == nil {
		err = w.d.lib.RecordEvent(k.end, w.bond.stream)
	}
	if err != nil {
		done <- err
		return
	}
	w.d.waiter.await(w.bond.ops, k.end, func(err error) { done <- w.d.verdict(w.bond, launched, err) })
}

// enter says whether the issuer may go into an operator; from then on a Close frees it by destroying the communicator.
func (w *World) enter() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inside = w.cause == nil
	return w.inside
}

func (w *World) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inside = false
}

// verdict is whether what was launched on a bond went well. The event behind work that failed happens all the same, so the
// streams are asked; and what took as long as HCCL waits for a peer is taken for failed whatever they say. It runs on
// the waiter.
func (d *Device) verdict(b *bond, launched time.Time, err error) error {
	if err != nil {
		return err
	}
	for _, s := range []acl.Stream{b.stream, b.up, b.down} {
		if _, err := d.lib.StreamDone(s); err != nil && !errors.Is(err, acl.ErrNoSymbol) {
			return err
		}
	}
	if took := time.Since(launched); took > d.cfg.ExecTimeout-execSlack {
		return fmt.Errorf("operator took %v, the exec time-out is %v: %w", took, d.cfg.ExecTimeout, context.DeadlineExceeded)
	}
	return nil
}

// execSlack is how much earlier than by the exec time-out an operator is taken for lost.
const execSlack = time.Second
