package p2p

import (
	"math/bits"
	"reflect"
	"sync"
)

const (
	align    = 64 // bytes: a cache line, and what SIMD kernels and devices ask for
	minClass = 12 // 4 KiB
	maxClass = 26 // 64 MiB; what is larger is not kept
)

// Pool keeps memory for scratch between uses, in classes of powers of two from 4 KiB to 64 MiB. What it gives out is aligned to 64 bytes. It keeps
// at most limit bytes; what comes back beyond that is left to the garbage collector. The methods may be called concurrently.
type Pool struct {
	limit int

	mu      sync.Mutex
	classes [maxClass + 1][][]byte
	kept    int // bytes
}

// NewPool makes a Pool that keeps at most limit bytes.
func NewPool(limit int) *Pool { return &Pool{limit: limit} }

// Get returns n bytes with any content. A zero n gives nil.
func (p *Pool) Get(n int) []byte {
	if n <= 0 {
		return nil
	}
	c := classOf(n)
	if c > maxClass {
		return aligned(n)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	free := p.classes[c]
	if len(free) == 0 {
		return aligned(1 << c)[:n]
	}
	b := free[len(free)-1]
	free[len(free)-1] = nil
	p.classes[c] = free[:len(free)-1]
	p.kept -= 1 << c
	return b[:n]
}

// Put gives back what Get returned, with its beginning. Other memory is refused quietly. The caller must not use b after.
func (p *Pool) Put(b []byte) {
	size := cap(b)
	if size == 0 || size&(size-1) != 0 || !isAligned(b) {
		return
	}
	c := bits.Len(uint(size)) - 1
	if c < minClass || c > maxClass {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kept+size > p.limit {
		return
	}
	p.classes[c] = append(p.classes[c], b[:size])
	p.kept += size
}

// Trim lets go of memory until at most keep bytes are kept, the largest pieces first, and returns how many bytes went.
func (p *Pool) Trim(keep int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.kept
	for c := maxClass; c >= minClass && p.kept > keep; c-- {
		free := p.classes[c]
		for len(free) > 0 && p.kept > keep {
			free[len(free)-1] = nil
			free = free[:len(free)-1]
			p.kept -= 1 << c
		}
		p.classes[c] = free
	}
	return before - p.kept
}

// Kept is the number of bytes that wait for a use.
func (p *Pool) Kept() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kept
}

// classOf is the smallest class that holds n bytes.
func classOf(n int) int { return max(bits.Len(uint(n-1)), minClass) }

// aligned allocates n bytes at a multiple of align. Memory of these sizes comes so from Go's allocator today, which does not promise it.
func aligned(n int) []byte {
	b := make([]byte, n)
	if isAligned(b) {
		return b
	}
	b = make([]byte, n+align)
	skip := align - int(reflect.ValueOf(b).Pointer()%align)
	return b[skip : skip+n : skip+n]
}

func isAligned(b []byte) bool { return reflect.ValueOf(b).Pointer()%align == 0 }
