package p2p

// MaxWindow is the largest window, in chunks: a peer that has more grants out breaks the protocol.
const MaxWindow = 64

// WindowPolicy says how many chunks of a pair are in flight in one direction. The zero value has the defaults.
type WindowPolicy struct {
	Chunks int // of a pipelined message, default 4
	Wide   int // of a wide one, default 16; at least Chunks
	Bytes  int // bound of the bytes in flight, default 64 MiB; one chunk is always allowed
}

// Window is the number of chunks of so many bytes that may be in flight for messages of that mode, 1 to MaxWindow.
func (p WindowPolicy) Window(m Mode, chunk int) int {
	n := orDefault(p.Chunks, 4)
	if m == Wide {
		n = max(n, orDefault(p.Wide, 16))
	}
	n = min(n, orDefault(p.Bytes, 64<<20)/max(chunk, 1))
	return min(max(n, 1), MaxWindow)
}
