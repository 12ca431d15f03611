package hccl

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"hcclps/p2p/hccl/acl"
)

// slot is where one piece is staged: pinned host memory, device memory of the same size, and the marks of the copies
// between them.
type slot struct {
	host   uintptr
	memory []byte // the same, as the host sees it
	dev    uintptr
	copied acl.Event // host to device or back
}

// pool keeps the slots of a device that nobody uses, so that memory is allocated once. How many are in use is
// bounded by its users: every pair takes a fixed number for each direction.
type pool struct {
	lib     *acl.Lib
	steward *thread // allocates and frees
	size    int

	mu   sync.Mutex
	free []*slot
	made int
}

// get returns a slot. It waits for the steward if a new one has to be made.
func (p *pool) get(ctx context.Context) (*slot, error) {
	p.mu.Lock()
	if n := len(p.free); n > 0 {
		s := p.free[n-1]
		p.free = p.free[:n-1]
		p.mu.Unlock()
		return s, nil
	}
	p.mu.Unlock()
	var s *slot
	made := make(chan error, 1)
	if !p.steward.post(func() {
		fresh, err := p.make()
		if err == nil && ctx.Err() != nil {
			p.put(fresh) // nobody waits for it any more
			err = context.Cause(ctx)
		}
		s = fresh
		made <- err
	}) {
		return nil, fmt.Errorf("allocate staging memory: %w", ErrStopped)
	}
	if err := <-made; err != nil {
		return nil, fmt.Errorf("allocate staging memory of %d bytes: %w", p.size, err)
	}
	return s, nil
}

// make allocates a slot, on the steward.
func (p *pool) make() (*slot, error) {
	s := &slot{}
	var err error
	if s.host, err = p.lib.MallocHost(p.size); err == nil {
		s.memory = acl.Memory(s.host, p.size)
		if s.dev, err = p.lib.Malloc(p.size, acl.HugeFirst); err == nil {
			s.copied, err = p.lib.CreateEvent()
		}
	}
	if err != nil {
		return nil, errors.Join(err, p.destroy(s))
	}
	p.mu.Lock()
	p.made++
	p.mu.Unlock()
	return s, nil
}

// destroy frees what a slot has, on the steward.
func (p *pool) destroy(s *slot) error {
	var errs []error
	if s.copied != 0 {
		errs = append(errs, p.lib.DestroyEvent(s.copied))
	}
	if s.dev != 0 {
		errs = append(errs, p.lib.Free(s.dev))
	}
	if s.host != 0 {
		errs = append(errs, p.lib.FreeHost(s.host))
	}
	return errors.Join(errs...)
}

// put gives a slot back that nothing uses any more.
func (p *pool) put(s *slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, s)
}

// trim frees the slots that nobody uses, on the steward.
func (p *pool) trim() error {
	p.mu.Lock()
	free := p.free
	p.free = nil
	p.made -= len(free)
	p.mu.Unlock()
	var errs []error
	for _, s := range free {
		errs = append(errs, p.destroy(s))
	}
	return errors.Join(errs...)
}

// counts are the slots that exist, and those nobody uses.
func (p *pool) counts() (made, free int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.made, len(p.free)
}
