package vec

import "unsafe"

// CacheLine is the stride of Prefetch in bytes; 64 on every machine the project runs on.
const CacheLine = 64

// Prefetch asks the CPU to load lines consecutive cache lines from every address of a window, and returns at once.
// It reads nothing and never faults: an address may be stale or zero. On machines without a kernel it does nothing.
func Prefetch(addrs []uintptr, lines int) {
	if len(addrs) == 0 || lines <= 0 {
		return
	}
	prefetch(&addrs[0], len(addrs), lines)
}

// Expect is Prefetch of all of x, which is read soon.
func Expect(x []float32) {
	if len(x) == 0 {
		return
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(x)))
	prefetch(&at, 1, (4*len(x)+CacheLine-1)/CacheLine)
}
