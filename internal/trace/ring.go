package trace

import (
	"sync"
	"time"
)

// block is how many records a ring takes memory for at a time.
const block = 512

// ring keeps the newest records. They hold no pointers, so that the collector of garbage does not look at them.
type ring struct {
	mu     sync.Mutex
	limit  int // blocks
	blocks [][]packed
	words  words
	n      uint64        // records that ever came
	lost   time.Duration // the latest end of one that is gone
	_      [64]byte      // the next ring is in another cache line
}

// packed is a record whose words are numbers.
type packed struct {
	start, end        time.Duration
	bytes, step       int64
	out, in           uint64
	track             uint32
	name, peer, table uint32
	kind              Phase
}

func (g *ring) add(rec record) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := int(g.n % uint64(g.limit*block))
	g.n++
	if at/block == len(g.blocks) {
		g.blocks = append(g.blocks, make([]packed, 0, block))
	}
	p := packed{
		start: rec.start, end: rec.end, bytes: rec.bytes, step: rec.step, out: rec.out, in: rec.in, track: rec.track,
		name: g.words.number(rec.name), peer: g.words.number(rec.peer), table: g.words.number(rec.table), kind: rec.kind,
	}
	b := &g.blocks[at/block]
	if len(*b) == at%block {
		*b = append(*b, p)
		return
	}
	old := &(*b)[at%block]
	g.lost = max(g.lost, old.end)
	*old = p
}

func (g *ring) reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.blocks, g.words, g.n, g.lost = nil, words{}, 0, 0
}

// records appends what is kept, and says how many are gone and when the last of those ended.
func (g *ring) records(to []record) (all []record, gone uint64, lost time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	kept := 0
	for _, b := range g.blocks {
		for i := range b {
			p := &b[i]
			to = append(to, record{
				kind: p.kind, track: p.track, start: p.start, end: p.end, name: g.words.of(p.name), bytes: p.bytes, step: p.step,
				peer: g.words.of(p.peer), table: g.words.of(p.table), out: p.out, in: p.in,
			})
		}
		kept += len(b)
	}
	return to, g.n - uint64(kept), g.lost
}

const (
	// maxWords bounds the different words of a ring.
	maxWords = 1 << 12
	// manyWords stands for those beyond.
	manyWords = "..."
)

// words numbers the words of records, which are few.
type words struct {
	numbers map[string]uint32
	list    []string
}

// number is that of a word; 0 is "".
func (w *words) number(s string) uint32 {
	if s == "" {
		return 0
	}
	if n, ok := w.numbers[s]; ok {
		return n
	}
	if len(w.list) >= maxWords-1 {
		s = manyWords
		if n, ok := w.numbers[s]; ok {
			return n
		}
	}
	if w.numbers == nil {
		w.numbers = map[string]uint32{}
	}
	w.list = append(w.list, s)
	n := uint32(len(w.list))
	w.numbers[s] = n
	return n
}

func (w *words) of(n uint32) string {
	if n == 0 {
		return ""
	}
	return w.list[n-1]
}
