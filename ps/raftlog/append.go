package raftlog

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"hcclps/internal/vec"
)

// StoreLog appends one entry.
func (l *Log) StoreLog(e *raft.Log) error { return l.StoreLogs([]*raft.Log{e}) }

// StoreLogs appends consecutive entries, all or none. Under Sync they are on disk when it returns.
//
// Payloads in space given by Alloc stay where they are, others are copied. Extensions of 4 bytes are the payload's
// CRC-32C, little endian, made elsewhere and stored as it is; other Extensions are refused. Entries the log has are
// skipped when they are the same and overwritten, with all after them, when they are not. Entries beyond last+1 come
// only after a snapshot was installed, and replace the whole log.
//
// After an error of the disk nothing is tried again: the log has failed and every later write returns that error.
func (l *Log) StoreLogs(es []*raft.Log) error {
	if err := l.check(es); err != nil {
		return fmt.Errorf("store entries in raft log of group %d: %w", l.cfg.Group, err)
	}
	if len(es) == 0 {
		return nil
	}
	l.write.lock()
	defer l.write.unlock()
	if err := l.usable(); err != nil {
		return err
	}
	es, err := l.overlap(es)
	if err != nil || len(es) == 0 {
		return err
	}
	before := l.last // only holders of write change it
	var touched []*segment
	for _, e := range es {
		if touched, err = l.append(e, touched); err != nil {
			l.undo(before)
			return fmt.Errorf("store entry %d in raft log of group %d: %w", e.Index, l.cfg.Group, err)
		}
	}
	if l.cfg.Sync {
		for _, g := range touched {
			if err := g.sync(); err != nil {
				return l.fail(err)
			}
		}
	}
	l.mu.Lock()
	l.durable = l.now()
	l.mu.Unlock()
	return nil
}

// check refuses what could not be stored or read back.
func (l *Log) check(es []*raft.Log) error {
	limit := l.MaxEntry()
	for i, e := range es {
		switch {
		case e.Index == 0 || e.Index != es[0].Index+uint64(i):
			return fmt.Errorf("entry %d at place %d of a batch from %d", e.Index, i, es[0].Index)
		case len(e.Data) > limit:
			return fmt.Errorf("entry %d has %d bytes, the limit is %d (an eighth of the log budget): send it in parts or raise the log budget (LogBudget, --log-budget)", e.Index, len(e.Data), limit)
		case len(e.Extensions) != 0 && len(e.Extensions) != 4:
			return fmt.Errorf("entry %d has extensions of %d bytes, only a checksum of 4 is known", e.Index, len(e.Extensions))
		}
	}
	return nil
}

// MaxEntry is the largest payload of an entry in bytes: an eighth of the budget.
func (l *Log) MaxEntry() int {
	return int(min(l.cfg.Budget/8, l.cfg.SegmentSize-headerSize-frameSize))
}

// overlap makes room for es and returns those that are to be appended.
func (l *Log) overlap(es []*raft.Log) ([]*raft.Log, error) {
	switch {
	case l.last == 0 || es[0].Index == l.last+1:
		return es, nil
	case es[0].Index > l.last+1:
		l.log.Warn("raft log starts anew after a gap", "last", l.last, "next", es[0].Index)
		return es, l.deleteAll()
	case es[0].Index < l.first:
		return nil, fmt.Errorf("store entry %d in raft log of group %d: it begins at %d", es[0].Index, l.cfg.Group, l.first)
	}
	for len(es) > 0 && es[0].Index <= l.last && l.same(es[0]) {
		es = es[1:]
	}
	if len(es) == 0 || es[0].Index > l.last {
		return es, nil
	}
	if es[0].Index == l.first {
		return es, l.deleteAll()
	}
	return es, l.cut(es[0].Index)
}

// same reports whether the log holds e already.
func (l *Log) same(e *raft.Log) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	f, ok := l.find(e.Index)
	return ok && f.term == e.Term && f.kind == e.Type && int(f.length) == len(e.Data) && f.payload == sumOf(e)
}

// sumOf is the payload's CRC: the carried one, or made here.
func sumOf(e *raft.Log) uint32 {
	if len(e.Data) == 0 {
		return 0
	}
	if len(e.Extensions) == 4 {
		return binary.LittleEndian.Uint32(e.Extensions)
	}
	return vec.CRC32C(0, e.Data)
}

// append writes one entry; touched collects the segments to be synced.
func (l *Log) append(e *raft.Log, touched []*segment) ([]*segment, error) {
	f := frame{
		index: e.Index, term: e.Term, kind: e.Type, appended: nanos(e.AppendedAt), length: uint32(len(e.Data)), payload: sumOf(e),
	}
	var home *segment
	if len(e.Data) > 0 {
		var off int
		var err error
		if home, off = l.owner(e.Data); home == nil {
			if home, off, err = l.take(len(e.Data), false); err != nil {
				return touched, err
			}
			copy(home.m[off:], e.Data) // retired by holders of write only
		}
		f.home, f.off = home.seq, uint32(off)
		touched = l.touch(touched, home)
	}
	g, err := l.publish(&f, home)
	if err != nil {
		return touched, err
	}
	return l.touch(touched, g), nil
}

func (l *Log) touch(gs []*segment, g *segment) []*segment {
	if !l.cfg.Sync || slices.Contains(gs, g) {
		return gs
	}
	return append(gs, g)
}

// publish puts the descriptor into the current segment, or a new one.
func (l *Log) publish(f *frame, home *segment) (*segment, error) {
	return l.withRoom(0, func(g *segment) {
		if g.n == 0 {
			g.first = f.index
		}
		f.put(g.slot(g.n), g.seq, l.chain, l.id)
		g.n++
		g.max = max(g.max, f.index)
		if home != nil {
			home.max = max(home.max, f.index)
		}
		if l.last == 0 {
			l.first = f.index
		}
		l.last, l.chain = f.index, f.chain
	})
}

// take reserves n payload bytes in the current segment, or a new one.
func (l *Log) take(n int, pin bool) (g *segment, off int, err error) {
	g, err = l.withRoom(n, func(g *segment) {
		g.low -= roundUp(n)
		off = g.low
		if pin {
			g.pins.Add(1)
		}
	})
	return g, off, err
}

// withRoom runs use, under mu, on a segment with room for a descriptor and n payload bytes. Files are made without mu.
func (l *Log) withRoom(n int, use func(g *segment)) (*segment, error) {
	for {
		g, err := l.current(n, use)
		if g != nil || err != nil {
			return g, err
		}
		if err := l.grow(); err != nil {
			return nil, err
		}
	}
}

// current is withRoom without new files: nil when there is no room.
func (l *Log) current(n int, use func(g *segment)) (*segment, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return nil, err
	}
	for {
		if k := len(l.segs); k > 0 && l.segs[k-1].room(n) {
			use(l.segs[k-1])
			return l.segs[k-1], nil
		}
		if !l.roll() {
			return nil, nil
		}
	}
}

// roll starts the life of a free segment, if there is one. The caller holds mu.
func (l *Log) roll() bool {
	l.reap()
	i := len(l.free) - 1 // the warmest
	for i >= 0 && int64(len(l.free[i].m)) != l.cfg.SegmentSize {
		i--
	}
	if i < 0 {
		return false
	}
	g := l.free[i]
	l.free = slices.Delete(l.free, i, i+1)
	l.seq++
	g.seq, g.first, g.base, g.n, g.low, g.max = l.seq, 0, l.chain, 0, len(g.m), 0
	switch {
	case l.last > 0:
		g.first = l.last + 1
	case len(l.segs) == 0:
		g.base = chainSeed(l.id, g.seq)
		l.chain = g.base
	}
	g.stamp(l.id, l.cfg.Group)
	l.segs = append(l.segs, g)
	select {
	case l.rolled <- struct{}{}:
	default:
	}
	return true
}

// reap moves retired segments that nobody has pinned to the free ones. The caller holds mu.
func (l *Log) reap() {
	l.dead = slices.DeleteFunc(l.dead, func(g *segment) bool {
		if g.pins.Load() != 0 {
			return false
		}
		l.free = append(l.free, g)
		return true
	})
}

// grow makes one more file, up to twice the budget.
func (l *Log) grow() error {
	l.growing.lock()
	defer l.growing.unlock()
	l.mu.Lock()
	l.reap()
	ready := slices.ContainsFunc(l.free, func(g *segment) bool { return int64(len(g.m)) == l.cfg.SegmentSize })
	total, budget := l.size(), l.budget
	err := l.usable()
	l.mu.Unlock()
	if ready || err != nil {
		return err
	}
	if total+l.cfg.SegmentSize > 2*budget {
		return fmt.Errorf("%d bytes of segments in %s, budget %d: %w; it is compacted by the next snapshot, or raise the log budget (LogBudget, --log-budget)", total, l.cfg.Dir, budget, ErrFull)
	}
	if err := l.addFile(); err != nil {
		return err
	}
	l.log.Info("raft log grows beyond its budget", "bytes", total+l.cfg.SegmentSize, "budget", budget)
	return nil
}

// addFile makes one more free file. The caller holds growing.
func (l *Log) addFile() error {
	l.mu.RLock()
	frozen := l.frozen
	l.mu.RUnlock()
	var g *segment
	var err error
	if frozen {
		g, err = memorySegment(l.nextNo, l.cfg.SegmentSize)
	} else {
		g, err = createSegment(l.cfg.Dir, l.nextNo, l.cfg.SegmentSize)
	}
	if err != nil {
		return err
	}
	l.nextNo++
	if l.cfg.Prefault {
		err = g.prefault()
	}
	if err == nil && !frozen {
		err = l.record([]*segment{g})
	}
	l.mu.Lock()
	l.free = append(l.free, g)
	l.mu.Unlock()
	if err != nil {
		return l.fail(err)
	}
	return nil
}

// Grow raises the budget to so many bytes, at most Config.Most, and allocates what it lacks of that. It never lowers it.
// An error is of the disk, or says that the log takes no more writes; the budget stays as it was, as that of a frozen log does.
func (l *Log) Grow(budget int64) error {
	l.growing.lock()
	defer l.growing.unlock()
	budget = min(budget, l.cfg.Most)
	for {
		l.mu.RLock()
		total, frozen, err := l.size(), l.frozen, l.usable()
		l.mu.RUnlock()
		if frozen || err != nil {
			return err
		}
		if total+l.cfg.SegmentSize > budget {
			break
		}
		if err := CheckSpace(l.cfg.Dir, l.cfg.SegmentSize); err != nil {
			return err
		}
		if err := l.addFile(); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.budget = max(l.budget, budget)
	return nil
}

// size is the sum of all files. The caller holds mu.
func (l *Log) size() (n int64) {
	for _, g := range l.files() {
		n += int64(len(g.m))
	}
	return n
}

// Alloc returns n bytes of payload space inside the current segment, aligned to 64, for a receiver to read into. Such
// a slice, or one of its prefixes from byte 0, given to StoreLogs as Data, is stored without a copy. The segment is neither used again nor unmapped
// until release, which may be called more than once; call it after the entry's StoreLogs, or when it will not come.
func (l *Log) Alloc(n int) (buf []byte, release func(), err error) {
	if limit := l.MaxEntry(); n < 0 || n > limit {
		return nil, nil, fmt.Errorf("allocate %d bytes in raft log of group %d: the limit is %d (an eighth of the log budget)", n, l.cfg.Group, limit)
	}
	if n == 0 {
		return nil, func() {}, nil
	}
	g, off, err := l.take(n, true)
	if err != nil {
		return nil, nil, fmt.Errorf("allocate %d bytes in raft log of group %d: %w", n, l.cfg.Group, err)
	}
	var done atomic.Bool
	return g.m[off : off+n : off+n], func() {
		if done.CompareAndSwap(false, true) {
			l.unpin(g)
		}
	}, nil
}

// owner finds the live segment whose payload space holds b.
func (l *Log) owner(b []byte) (*segment, int) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, g := range slices.Backward(l.segs) {
		if off, ok := g.place(b); ok && off >= g.low && off%payloadAlign == 0 {
			return g, off
		}
	}
	return nil, 0
}

func (l *Log) unpin(gs ...*segment) {
	last := false
	for _, g := range gs {
		last = g.pins.Add(-1) == 0 || last
	}
	if !last {
		return
	}
	l.mu.RLock()
	closed := l.closed
	l.mu.RUnlock()
	if closed {
		l.unmap()
	}
}
