package raftlog

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// IsMonotonic tells Raft that entries are consecutive: it empties the log after installing a snapshot.
func (l *Log) IsMonotonic() bool { return true }

// FirstIndex is the index of the oldest entry, 0 in an empty log.
func (l *Log) FirstIndex() (uint64, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.first, l.readable()
}

// LastIndex is the index of the newest entry, 0 in an empty log.
func (l *Log) LastIndex() (uint64, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.last, l.readable()
}

// GetLog reads an entry into out, or returns raft.ErrLogNotFound. Data is a slice of the mapping: do not change it, do
// not keep it after the entry is deleted, Pin it while it is on its way to a socket. Extensions are nil: see Checksum.
func (l *Log) GetLog(index uint64, out *raft.Log) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if err := l.readable(); err != nil {
		return err
	}
	f, ok := l.find(index)
	if !ok {
		return raft.ErrLogNotFound
	}
	*out = raft.Log{Index: f.index, Term: f.term, Type: f.kind}
	if f.appended != 0 {
		out.AppendedAt = time.Unix(0, f.appended)
	}
	if f.length > 0 {
		if out.Data, _ = l.data(&f); out.Data == nil {
			return fmt.Errorf("get entry %d of raft log of group %d: segment life %d of its payload is gone", index, l.cfg.Group, f.home)
		}
	}
	return nil
}

// readable is nil until Close. The caller holds mu.
func (l *Log) readable() error {
	if l.closed {
		return fmt.Errorf("raft log of group %d: %w", l.cfg.Group, ErrClosed)
	}
	return nil
}

// find reads the descriptor of an entry. The caller holds mu.
func (l *Log) find(index uint64) (frame, bool) {
	if l.last == 0 || index < l.first || index > l.last {
		return frame{}, false
	}
	for _, g := range slices.Backward(l.segs) {
		if g.holds(index) {
			return g.frameAt(index), true
		}
	}
	return frame{}, false
}

// data is the payload of a descriptor of this log and the segment it lies in. The caller holds mu.
func (l *Log) data(f *frame) ([]byte, *segment) {
	for _, g := range slices.Backward(l.segs) {
		if g.seq == f.home {
			end := f.off + f.length
			return g.m[f.off:end:end], g
		}
	}
	return nil, nil
}

// Pin keeps the payloads of entries that GetLog returned in place until release, which may be called more than once.
// ok is false, and nothing pinned, when the log no longer has one of them at that address: send nothing then, and let Raft
// look again.
func (l *Log) Pin(es []*raft.Log) (release func(), ok bool) {
	var gs []*segment
	l.mu.RLock()
	for _, e := range es {
		if len(e.Data) == 0 {
			continue
		}
		g := l.homeOf(e)
		if g == nil {
			l.mu.RUnlock()
			l.unpin(gs...)
			return func() {}, false
		}
		if !slices.Contains(gs, g) {
			g.pins.Add(1)
			gs = append(gs, g)
		}
	}
	l.mu.RUnlock()
	var done atomic.Bool
	return func() {
		if done.CompareAndSwap(false, true) {
			l.unpin(gs...)
		}
	}, true
}

// homeOf finds the segment e.Data is a payload of, if the log still has entry e there. The caller holds mu.
func (l *Log) homeOf(e *raft.Log) *segment {
	f, ok := l.find(e.Index)
	if l.closed || !ok || f.term != e.Term || int(f.length) != len(e.Data) {
		return nil
	}
	b, g := l.data(&f)
	if g == nil || &b[0] != &e.Data[0] {
		return nil
	}
	return g
}

// Checksum is the CRC-32C of the payload of entry e as the log stores it: made once, by whoever stored it first. It is
// false when the log has no such entry.
func (l *Log) Checksum(e *raft.Log) (uint32, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	f, ok := l.find(e.Index)
	if !ok || f.term != e.Term || int(f.length) != len(e.Data) {
		return 0, false
	}
	return f.payload, true
}

// Bytes tells what the log's segments have taken, holes included, and its budget. Above the budget it is high time
// for a snapshot; at twice of it StoreLogs returns ErrFull.
func (l *Log) Bytes() (used, budget int64) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for i, g := range l.segs {
		if i < len(l.segs)-1 {
			used += int64(len(g.m))
		} else {
			used += int64(g.used())
		}
	}
	for _, g := range l.dead {
		used += int64(len(g.m))
	}
	return used, l.budget
}

// TrailingFor is the number of newest entries that fit into so many bytes of descriptors and payloads, for Raft's
// TrailingLogs. The log keeps whole segments, thus up to one segment more.
func (l *Log) TrailingFor(bytes int64) uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var n uint64
	for _, g := range slices.Backward(l.segs) {
		for i := g.n - 1; i >= 0 && g.first+uint64(i) >= l.first; i-- {
			f := readFrame(g.slot(i))
			if bytes -= int64(frameSize + roundUp(int(f.length))); bytes < 0 {
				return n
			}
			n++
		}
	}
	return n
}
