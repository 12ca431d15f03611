package p2ptest

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
)

// piece is the most that is forwarded, and meets a fault, at once.
const piece = 64 << 10

// relay is one connection of a Net: it stands between the dialler's end and the acceptor's.
type relay struct {
	net       *Net
	there     link
	near, far net.Conn
	done      chan struct{}
	once      sync.Once
}

// forward carries bytes in one direction, with the faults of that link, until one side is closed or the relay ends.
func (r *relay) forward(ctx context.Context, l link, from, to net.Conn, rng *rand.Rand) {
	buf := make([]byte, piece)
	for {
		n, readErr := from.Read(buf)
		if r.net.wait(ctx, r.done, rng) != nil || r.net.open(ctx, r.done, l) != nil {
			return // the relay ended
		}
		if readErr != nil || r.net.breaks(rng) {
			r.end() // a close, too, crosses the link only when it is open
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return // that side has closed: the other direction tells, after what it still carries
		}
	}
}

// end breaks the connection.
func (r *relay) end() {
	r.once.Do(func() {
		close(r.done)
		_ = r.near.Close()
		_ = r.far.Close()
		r.net.mu.Lock()
		delete(r.net.relays, r)
		r.net.mu.Unlock()
	})
}
