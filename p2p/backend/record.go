package backend

import (
	"slices"
	"sync"
	"time"
)

// maxPicks is how many pairs a record keeps, the latest.
const maxPicks = 64

// Pick is what carries the bulk of a pair, and why.
type Pick struct {
	Peer   string // its address
	By     Transport
	Reason string
	At     time.Time
}

// record keeps the latest choice of each pair.
type record struct {
	mu    sync.Mutex
	picks []entry // oldest first
}

type entry struct {
	Pick
	seen figures
}

func (r *record) add(p Pick, seen figures) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p.At = time.Now().Round(0).UTC()
	r.picks = slices.DeleteFunc(r.picks, func(e entry) bool { return e.Peer == p.Peer })
	if len(r.picks) == maxPicks {
		r.picks = slices.Delete(r.picks, 0, 1)
	}
	r.picks = append(r.picks, entry{p, seen})
}

// seen is what was measured with a peer when its choice was made; nothing where it was not.
func (r *record) seen(peer string) figures {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.picks {
		if e.Peer == peer {
			return e.seen
		}
	}
	return figures{}
}

// Picks are the choices of the latest 64 pairs, the latest last. A pair that has ended is among them until others have come.
func (b *Bulk) Picks() []Pick {
	b.record.mu.Lock()
	defer b.record.mu.Unlock()
	var out []Pick
	for _, e := range b.record.picks {
		out = append(out, e.Pick)
	}
	return out
}
