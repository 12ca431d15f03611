package collective

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"hcclps/p2p"
)

// Group is the members of one communicator: one epoch of a fixed set of ranks. Its operations may be posted by any number of goroutines, but
// in the same order on every rank.
type Group struct {
	cfg    Config
	choose chooser
	group  uint32 // digest of the members
	plan   uint32 // digest of what else must agree, for an operation without a tag
	all    team

	progress atomic.Uint64 // messages that have ended
	wake     chan struct{} // something was posted, or the group was closed, or who carried an operation out has left

	mu      sync.Mutex
	seq     uint64
	queue   []*Work
	first   [4]*Work // where the queue begins again when it was empty
	current *Work    // under way
	last    Call     // the last that began; Seq 0: none
	closed  bool
	dead    error
	records recorder
	tracks  tracks
	driver  driver

	subs     map[string]int   // how many there were, by name
	reducers map[kind]reducer // used by who carries an operation out, like
	latest   struct {         // the one used last
		kind kind
		reducer
	}
}

// kind is what a reducer is for.
type kind struct {
	t p2p.DType
	r Reduction
}

// New makes a Group. It starts nothing: operations wait for Run.
func New(cfg Config) (*Group, error) {
	if cfg.Comm == nil {
		return nil, errors.New("make group: no comm")
	}
	size := cfg.Comm.Size()
	cfg.fill(size)
	if err := cfg.validate(size); err != nil {
		return nil, fmt.Errorf("make group of %d ranks: %w", size, err)
	}
	g := &Group{cfg: cfg, group: digest(cfg.Ranks), wake: make(chan struct{}, 1), reducers: make(map[kind]reducer), tracks: newTracks(cfg.Trace)}
	g.plan, g.records.epoch = g.planOf(0), time.Now()
	g.choose = chooser{
		pinned: cfg.Algorithms, inside: cfg.Inside, across: cfg.Across,
		levels: newLevels(cfg.Hosts), ranks: size, ordered: cfg.RankOrder,
		shared: cfg.Shared != nil, together: cfg.Shared != nil && cfg.together(), apart: len(cfg.Apart) > 0,
	}
	g.all = newExchange(cfg.Comm, func(r int) int { return cfg.Ranks[r] }, &g.progress).all()
	neighbours, me := cfg.neighbours()
	var err error
	if g.all.shared, err = newSharing(cfg.Shared, neighbours, me); err != nil {
		return nil, fmt.Errorf("make group of %d ranks: %w", size, err)
	}
	return g, nil
}

// digest is a checksum of numbers.
func digest(numbers []int) uint32 {
	b := make([]byte, 0, 8*len(numbers))
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	return crc32.Checksum(b, castagnoli)
}

// planOf is the digest for an operation with a tag.
func (g *Group) planOf(tag uint32) uint32 {
	numbers := append([]int{g.cfg.Piece, int(tag)}, g.cfg.Hosts...)
	if len(g.cfg.Apart) > 0 {
		numbers = append(append(numbers, -1), slices.Sorted(slices.Values(g.cfg.Apart))...)
	}
	return digest(numbers)
}

// reducer is that for a type and a reduction, kept for the next time.
func (g *Group) reducer(t p2p.DType, r Reduction) reducer {
	k := kind{t, r}
	if g.latest.kind == k {
		return g.latest.reducer
	}
	red, ok := g.reducers[k]
	if !ok {
		red = newReducer(t, r)
		g.reducers[k] = red
	}
	g.latest.kind, g.latest.reducer = k, red
	return red
}

// now is the time since the recorder's epoch.
func (g *Group) now() time.Duration { return time.Since(g.records.epoch) }

// Rank is this side's number in the group.
func (g *Group) Rank() int { return g.cfg.Comm.Rank() }

// Size is the number of members.
func (g *Group) Size() int { return g.cfg.Comm.Size() }

// Recent returns the last operations that have begun, 256 at most, oldest first.
func (g *Group) Recent() []Record {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.records.list()
}
