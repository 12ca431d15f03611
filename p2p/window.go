package p2p

import (
	"math"
	"time"
)

// MaxWindow is the largest window, in chunks: a peer that has more grants out breaks the protocol.
const MaxWindow = 64

// WindowPolicy says how many chunks of a pair are in flight in one direction. The zero value has the defaults.
type WindowPolicy struct {
	Chunks int // of a pipelined message, default 4
	Wide   int // of a wide one, default 16; at least Chunks
	Bytes  int // bound of the bytes in flight, default 64 MiB; one chunk is always allowed
}

// Window is the number of chunks of so many bytes that may be in flight for messages of that mode, 1 to MaxWindow. On a
// far link it holds half as much again as the product of what was measured, bandwidth in bytes a second and latency:
// less would leave the link idle, and where the window itself was what bounded the bandwidth, it grows by that from one
// measurement to the next.
func (p WindowPolicy) Window(m Mode, chunk int, bandwidth float64, latency time.Duration) int {
	n := orDefault(p.Chunks, 4)
	if m == Wide {
		n = max(n, orDefault(p.Wide, 16))
	}
	chunk = max(chunk, 1)
	n = max(n, int(math.Ceil(min(1.5*bandwidth*latency.Seconds()/float64(chunk), MaxWindow))))
	n = min(n, orDefault(p.Bytes, 64<<20)/chunk)
	return min(max(n, 1), MaxWindow)
}
