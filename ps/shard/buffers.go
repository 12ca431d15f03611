package shard

import (
	"slices"
	"sync"
)

// keptBytes is how much memory buffers keeps.
const keptBytes = 8 << 20

// buffers keeps the memory of entries and of bodies for those to come. The zero
// value is empty; it may be used concurrently.
type buffers struct {
	mu    sync.Mutex
	free  [][]byte // in order of their return
	bytes int
}

// get returns memory of length 0 that has room for size bytes. New memory has an
// eighth more: the next one is about as long, not as long.
func (b *buffers) get(size int) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, buf := range slices.Backward(b.free) {
		if cap(buf) >= size {
			b.forget(i)
			return buf
		}
	}
	return make([]byte, 0, size+size/8)
}

// put takes memory that nobody uses any more. What came first goes to make room.
func (b *buffers) put(buf []byte) {
	if cap(buf) == 0 || cap(buf) > keptBytes {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.bytes+cap(buf) > keptBytes {
		b.forget(0)
	}
	b.free = append(b.free, buf[:0])
	b.bytes += cap(buf)
}

func (b *buffers) forget(i int) {
	b.bytes -= cap(b.free[i])
	b.free = slices.Delete(b.free, i, i+1)
}
