package shm

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"hcclps/p2p"
)

// ErrArena means that the Comm has no more memory of its own to give.
var ErrArena = errors.New("shm: arena is full")

// Alloc implements p2p.Allocator. A message sent from this memory crosses with one copy, made by the receiver, if it has 4 KiB or
// more. The memory comes from the kernel now; when the arena or the host's shared memory is used up there is an error.
func (c *Comm) Alloc(n int) (p2p.Buffer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return p2p.Buffer{}, p2p.Dead(c.rank, c.cause)
	}
	left := uint64(len(c.arena)) - c.allocated
	if n < 0 || uint64(n) > left {
		return p2p.Buffer{}, fmt.Errorf("allocate %d bytes: %w: %d of %d are left, Config.Arena says how many there are", n, ErrArena, left, len(c.arena))
	}
	if n == 0 {
		return p2p.Bytes(nil), nil
	}
	from := c.allocated
	if err := unix.Fallocate(c.file, 0, int64(c.layout.arenaOffset(c.rank)+from), int64(n)); err != nil {
		return p2p.Buffer{}, fmt.Errorf("allocate %d bytes of shared memory: %w", n, err)
	}
	c.allocated = min(from+(uint64(n)+line-1)&^(line-1), uint64(len(c.arena)))
	return p2p.Bytes(c.arena[from : from+uint64(n) : from+uint64(n)]), nil
}
