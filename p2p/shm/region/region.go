package region

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"hcclps/p2p/shm/memfd"
)

// ErrNotLocal means that the ranks cannot share memory: they are not all on one host, or not in one place of it. All ranks get it.
var ErrNotLocal = errors.New("region: ranks are not local")

// ErrFull means that a rank has no more memory to give.
var ErrFull = errors.New("region: memory is used up")

// Config of a Region. The zero value is good.
type Config struct {
	// Memory is the bytes of address space of each rank, as the first rank says; default 8 GiB. Memory is used as it is allocated.
	Memory  int
	Timeout time.Duration // of Open, default 10 s; a ctx that ends earlier counts
	Logger  *slog.Logger  // nil: silent
}

// Defaults of Config.
const (
	DefaultMemory  = 8 << 30
	DefaultTimeout = 10 * time.Second
)

func (c Config) withDefaults(ranks int) (Config, layout, error) {
	if c.Memory == 0 {
		c.Memory = DefaultMemory
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Memory < 0 || c.Timeout < 0 {
		return c, layout{}, fmt.Errorf("configure region: memory %d and timeout %v must not be negative", c.Memory, c.Timeout)
	}
	l := layout{ranks: ranks, memory: (uint64(c.Memory) + page - 1) &^ (page - 1)}
	if err := l.check(); err != nil {
		return c, l, fmt.Errorf("configure region: %w", err)
	}
	return c, l, nil
}

// Region is the memory as one rank sees it.
type Region struct {
	rank  int
	mem   *mapping
	peers []process
	file  int
	local bool // the ranks are goroutines of one process

	crowd   bool // there are not CPUs for all ranks
	crowded int  // waits to come that do not spin

	mu        sync.Mutex
	allocated uint64
	closed    bool
}

// Rank is this rank's number in the region.
func (r *Region) Rank() int { return r.rank }

// Size is the number of ranks.
func (r *Region) Size() int { return len(r.mem.ranks) }

// Memory is the whole memory of a rank. What nobody has allocated must not be touched.
func (r *Region) Memory(rank int) []byte { return r.mem.ranks[rank].memory }

// Alloc returns the next n bytes of this rank's memory, aligned to 64 and zero at first. They come from the kernel now; when there are no more there is an error.
// They live until Close; there is no way to give them back. Any number of goroutines may call it.
func (r *Region) Alloc(n int) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	memory := r.Memory(r.rank)
	from := r.allocated
	if left := uint64(len(memory)) - from; n < 0 || uint64(n) > left || r.closed {
		return nil, fmt.Errorf("allocate %d bytes: %w: %d of %d are left, Config.Memory says how many there are", n, ErrFull, left, len(memory))
	}
	if n == 0 {
		return nil, nil
	}
	if err := unix.Fallocate(r.file, 0, int64(r.mem.offset(r.rank)+from), int64(n)); err != nil {
		return nil, fmt.Errorf("allocate %d bytes of shared memory: %w", n, err)
	}
	r.allocated = min(from+(uint64(n)+63)&^63, uint64(len(memory)))
	b := memory[from : from+uint64(n) : from+uint64(n)]
	memfd.Populate(memory[from&^(page-1) : r.allocated])
	return b, nil
}

// Offset is where b lies in this rank's memory, if it lies there whole.
func (r *Region) Offset(b []byte) (int, bool) { return offset(r.Memory(r.rank), b) }

// Close leaves and unmaps the memory, which nobody of this process may touch any more. It may be called more than once.
func (r *Region) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	r.Leave()
	errs := []error{r.mem.unmap(), memfd.Close(r.file)}
	for _, p := range r.peers {
		errs = append(errs, p.close())
	}
	return errors.Join(errs...)
}
