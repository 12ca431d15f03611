package hccl

import (
	"errors"
	"fmt"

	"hcclps/p2p"
	"hcclps/p2p/hccl/acl"
)

// pin is pinned host memory that a caller of Alloc has.
type pin struct {
	at uintptr
	n  int
}

// Alloc implements p2p.Allocator: the memory is pinned, and copied to and from the device without a copy on the host.
func (c *Comm) Alloc(n int) (p2p.Buffer, error) {
	if n <= 0 {
		return p2p.Buffer{}, fmt.Errorf("allocate %d bytes of pinned memory: the length must be positive", n)
	}
	var at uintptr
	err := <-c.d.steward.start(func() (err error) {
		at, err = c.d.lib.MallocHost(n)
		return err
	})
	if err != nil {
		return p2p.Buffer{}, fmt.Errorf("allocate %d bytes of pinned memory: %w", n, err)
	}
	b := acl.Memory(at, n)
	clear(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pins = append(c.pins, pin{at, n})
	if c.cause != nil {
		last := len(c.pins) - 1 // the others may be in use until the end
		c.free(c.pins[last:])
		c.pins = c.pins[:last]
		return p2p.Buffer{}, p2p.Dead(c.rank, c.cause)
	}
	return p2p.Bytes(b), nil
}

// pinned is the address of memory that lies in what Alloc gave out, 0 for other memory.
func (c *Comm) pinned(b []byte) uintptr {
	if len(b) == 0 {
		return 0
	}
	at := acl.Address(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.pins {
		if at >= p.at && at+uintptr(len(b)) <= p.at+uintptr(p.n) {
			return at
		}
	}
	return 0
}

// keep is the move of a message in pinned memory.
func keep([]byte) error { return nil }

// unpin frees what Alloc gave out. c.mu is held.
func (c *Comm) unpin() {
	c.free(c.pins)
	c.pins = nil
}

func (c *Comm) free(pins []pin) {
	c.d.steward.post(func() {
		var errs []error
		for _, p := range pins {
			errs = append(errs, c.d.lib.FreeHost(p.at))
		}
		if err := errors.Join(errs...); err != nil {
			c.d.log.Warn("pinned memory was not freed", "device", c.d.cfg.Device, "err", err)
		}
	})
}
