package raftlog

import (
	"fmt"
	"slices"
	"sync/atomic"
)

// DeleteRange removes entries lo to hi, a prefix or a suffix of the log, or all of it. A suffix loses its descriptors newest
// first, so that a kill in between leaves a shorter log without a gap.
func (l *Log) DeleteRange(lo, hi uint64) error {
	l.write.lock()
	defer l.write.unlock()
	if err := l.usable(); err != nil {
		return err
	}
	switch {
	case l.last == 0 || lo > hi || hi < l.first || lo > l.last:
		return nil
	case lo <= l.first && hi >= l.last:
		return l.deleteAll()
	case lo <= l.first:
		l.mu.Lock()
		l.first = hi + 1
		l.durable = l.now()
		l.mu.Unlock()
		return l.retireBefore(hi + 1)
	case hi >= l.last:
		return l.cut(lo)
	}
	return fmt.Errorf("delete entries %d to %d in raft log of group %d: it holds %d to %d, only an end can be cut off", lo, hi, l.cfg.Group, l.first, l.last)
}

// now is the mark of the log as it is. The caller holds mu, and knows that all of it is durable.
func (l *Log) now() mark {
	m := mark{seq: l.durable.seq, first: l.first, last: l.last}
	if l.last == 0 {
		return m
	}
	m.chain = l.chain
	for _, g := range slices.Backward(l.segs) {
		if g.holds(l.last) {
			m.seq = g.seq
			break
		}
	}
	return m
}

// retireBefore ends the lives of the oldest segments when nothing from first on lies in them, oldest first: under Sync
// each is durably retired before the next, so that the remains are always one piece.
func (l *Log) retireBefore(first uint64) error {
	l.mu.Lock()
	k := 0
	for k < len(l.segs)-1 && l.segs[k].max < first {
		k++
	}
	victims := slices.Clone(l.segs[:k])
	l.bury(victims)
	l.segs = slices.Delete(l.segs, 0, k)
	l.mu.Unlock()
	for _, g := range victims {
		g.retire()
		if err := l.flush(g); err != nil {
			return err
		}
	}
	l.unearth(victims)
	return nil
}

// bury puts segments among the dead, pinned until their retirement is done. The caller holds mu.
func (l *Log) bury(gs []*segment) {
	for _, g := range gs {
		g.pins.Add(1)
		l.dead = append(l.dead, g)
	}
}

func (l *Log) unearth(gs []*segment) {
	l.unpin(gs...)
	l.mu.Lock()
	l.reap()
	l.mu.Unlock()
}

// flush syncs segments under Sync; a failure is the end of the log.
func (l *Log) flush(gs ...*segment) error {
	if !l.cfg.Sync {
		return nil
	}
	for _, g := range gs {
		if err := g.sync(); err != nil {
			return l.fail(err)
		}
	}
	return nil
}

// cut removes the entries from lo on; lo is above first. The mark goes back first. The caller holds write.
func (l *Log) cut(lo uint64) error {
	l.marking.lock()
	defer l.marking.unlock()
	l.mu.RLock()
	f, ok := l.find(lo - 1)
	l.mu.RUnlock()
	if !ok {
		return fmt.Errorf("cut raft log of group %d at entry %d: entry before it is not there", l.cfg.Group, lo)
	}
	if l.marked.last >= lo {
		if err := l.setMark(mark{seq: l.marked.seq, first: min(l.marked.first, lo-1), last: lo - 1, chain: f.chain}); err != nil {
			return err
		}
	}
	l.mu.Lock()
	k := len(l.segs)
	for ; !l.segs[k-1].holds(lo - 1); k-- {
		l.segs[k-1].retire()
	}
	victims := slices.Clone(l.segs[k:])
	l.bury(victims)
	l.segs = slices.Delete(l.segs, k, len(l.segs))
	g := l.segs[k-1]
	for int(lo-g.first) < g.n {
		g.n--
		atomic.StoreUint64(word(g.slot(g.n)[publishAt:]), 0)
	}
	for _, g := range l.segs {
		g.max = min(g.max, lo-1)
	}
	l.last, l.chain = lo-1, f.chain
	l.durable = l.now()
	l.mu.Unlock()
	if err := l.flush(append(victims, g)...); err != nil {
		return err
	}
	l.unearth(victims)
	return nil
}

// deleteAll empties the log. The caller holds write.
func (l *Log) deleteAll() error {
	l.marking.lock()
	defer l.marking.unlock()
	if l.marked.last != 0 {
		if err := l.setMark(mark{seq: l.marked.seq}); err != nil {
			return err
		}
	}
	l.mu.Lock()
	for _, g := range slices.Backward(l.segs) {
		g.retire()
	}
	victims := slices.Clone(l.segs)
	l.bury(victims)
	l.segs, l.first, l.last, l.chain = nil, 0, 0, 0
	l.durable = l.now()
	l.mu.Unlock()
	if err := l.flush(victims...); err != nil {
		return err
	}
	l.unearth(victims)
	return nil
}

// undo takes back a batch that could not be stored whole. The caller holds write.
func (l *Log) undo(before uint64) {
	if l.last == before || l.cause.Load() != nil {
		return
	}
	var err error
	if before < l.first || before == 0 {
		err = l.deleteAll()
	} else {
		err = l.cut(before + 1)
	}
	if err != nil {
		l.fail(err) //nolint:errcheck // kept as the cause
	}
}
