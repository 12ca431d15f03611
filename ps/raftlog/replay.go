package raftlog

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"

	"hcclps/internal/vec"
	"hcclps/ps/corrupt"
)

// history is what a set of segments was found to hold.
type history struct {
	segs        []*segment // those with entries of the log, in order; the last one is appended to
	rest        []*segment // free ones
	first, last uint64     // 0, 0: empty
	term        uint64     // of last
	chain       uint32     // at last
	seq         uint64     // highest number of a life seen
	broken      *corrupt.Error
}

// replay reads the segments of log id, in any order, and judges them by the mark m. It changes no byte of them. An
// error means that the log must not be used.
//
// The walk stops at the first break: what comes after was never acknowledged, unless the mark says so, and then the
// log is lost (it ends early: an older copy) or corrupt (the bytes at the break are of this log, but fail a check).
func replay(segs []*segment, id logID, group uint32, m mark) (*history, string, error) {
	h := &history{}
	live, lost := h.sort(segs, id, group)
	if lost != "" {
		return nil, lost, nil
	}
	w := walk{history: h, id: id, homes: map[uint64]*segment{}}
	if len(live) > 0 && h.broken == nil {
		w.oldest = live[0].seq
	}
	for i, g := range live {
		if !w.enter(g) {
			h.rest = append(h.rest, live[i:]...)
			break
		}
		h.segs = append(h.segs, g)
		w.homes[g.seq] = g
		w.read(g)
	}
	lost, err := h.judge(m)
	if h.first > h.last { // nothing is left of what was not deleted
		h.rest, h.segs = append(h.rest, h.segs...), nil
		h.first, h.last, h.chain = 0, 0, 0
	}
	return h, lost, err
}

// sort reads the headers, keeps the live segments by ascending seq and puts the others into rest.
func (h *history) sort(segs []*segment, id logID, group uint32) (live []*segment, lost string) {
	for _, g := range segs {
		hd := g.header()
		g.seq, g.first, g.base, g.n, g.low, g.max = 0, 0, 0, 0, len(g.m), 0
		switch {
		case hd.blank:
			h.rest = append(h.rest, g)
			continue
		case hd.valid && (hd.id != id || hd.group != group),
			(hd.magic == magicLive || hd.magic == magicFree) && hd.id != id:
			return nil, fmt.Sprintf("segment %s belongs to log %x of group %d, not to log %x", g.path, hd.id, hd.group, id)
		case !hd.valid || hd.magic != magicLive && hd.magic != magicFree:
			h.breakAt(g, 0, "header fails its checksum")
			h.rest = append(h.rest, g)
			continue
		}
		g.seq, g.first, g.base = hd.seq, hd.first, hd.base
		h.seq = max(h.seq, g.seq)
		if hd.magic == magicFree {
			h.rest = append(h.rest, g)
			continue
		}
		live = append(live, g)
	}
	slices.SortFunc(live, func(a, b *segment) int { return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.no, b.no)) })
	return live, ""
}

// breakAt remembers the first break that has bytes of this log behind it.
func (h *history) breakAt(g *segment, off int, reason string) {
	if h.broken == nil {
		h.broken = &corrupt.Error{File: g.path, Offset: int64(off), Reason: reason}
	}
}

// judge compares the history with the mark.
func (h *history) judge(m mark) (lost string, err error) {
	if h.last < m.last || h.seq < m.seq {
		if h.broken != nil {
			return "", h.broken
		}
		return fmt.Sprintf("it ends at entry %d in segment life %d, but entry %d in life %d was written: an older copy was put back, or entries were cut off", h.last, h.seq, m.last, m.seq), nil
	}
	if m.last > 0 {
		for _, g := range h.segs {
			if g.holds(m.last) && g.frameAt(m.last).chain != m.chain {
				return fmt.Sprintf("entry %d is not the one that was written: another copy was put back", m.last), nil
			}
		}
	}
	h.first = max(h.first, m.first)
	return "", nil
}

// walk follows the chain through the segments.
type walk struct {
	*history
	id    logID
	homes map[uint64]*segment
	begun bool
	next  uint64 // index expected; 0: any
	// oldest is the seq of the oldest live segment, 0 if another may be damaged. Segments are retired oldest first, when
	// all in them is deleted: an entry whose payload was in an older one is deleted, and with it those before.
	oldest uint64
}

// enter checks that g continues the chain, or begins it.
func (w *walk) enter(g *segment) bool {
	if !w.begun {
		w.begun, w.next, w.chain = true, g.first, g.base
		return true
	}
	if w.homes[g.seq] != nil || g.first != w.next || g.base != w.chain {
		w.breakAt(g, 0, fmt.Sprintf("segment does not continue the log after entry %d", w.last))
		return false
	}
	return true
}

// read takes the descriptors of g up to the first break.
func (w *walk) read(g *segment) {
	for i := 0; headerSize+(i+1)*frameSize <= g.low; i++ {
		b := g.slot(i)
		f := readFrame(b)
		published := atomic.LoadUint64(word(b[publishAt:]))
		own := uint32(g.seq) == uint32(b[52])|uint32(b[53])<<8|uint32(b[54])<<16|uint32(b[55])<<24
		if published == 0 || !own {
			return // unwritten, cut, or of an earlier life
		}
		if reason, at := w.check(g, i, &f, b, published); reason != "" {
			w.breakAt(g, headerSize+i*frameSize, reason)
			if at != nil {
				w.broken.File, w.broken.Offset = at.path, int64(f.off)
			}
			return
		}
		w.take(g, &f)
	}
}

// check returns why a descriptor cannot be used, and the segment of its payload when that is what fails.
func (w *walk) check(g *segment, i int, f *frame, b []byte, published uint64) (string, *segment) {
	switch {
	case f.chain != chainOf(w.chain, w.id, b) || published != publishWord(f.index, g.seq, f.chain):
		return "descriptor fails its chained checksum", nil
	case f.index == 0 || w.next != 0 && f.index != w.next:
		return fmt.Sprintf("descriptor of entry %d where %d was expected", f.index, w.next), nil
	case f.length == 0:
		return "", nil
	}
	home := w.homes[f.home]
	if w.deleted(f) {
		return "", nil
	}
	if home == nil {
		return fmt.Sprintf("payload of entry %d is in segment life %d, which is not here", f.index, f.home), nil
	}
	floor := headerSize + home.n*frameSize
	if home == g {
		floor = headerSize + (i+1)*frameSize
	}
	end := int(f.off) + int(f.length)
	if int(f.off) < floor || f.off%payloadAlign != 0 || end > len(home.m) {
		return fmt.Sprintf("payload of entry %d lies from %d to %d of %d", f.index, f.off, end, len(home.m)), nil
	}
	if vec.CRC32C(0, home.m[f.off:end]) != f.payload {
		return fmt.Sprintf("payload of entry %d fails its checksum", f.index), home
	}
	return "", nil
}

// deleted tells that the entry was deleted before its descriptor's segment could be retired.
func (w *walk) deleted(f *frame) bool { return f.length > 0 && f.home < w.oldest }

// take counts a good descriptor in.
func (w *walk) take(g *segment, f *frame) {
	if g.n == 0 {
		g.first = f.index
	}
	g.n++
	g.max = max(g.max, f.index)
	if w.last == 0 {
		w.first = f.index
	}
	if w.deleted(f) {
		w.first = f.index + 1
	} else if f.length > 0 {
		home := w.homes[f.home]
		home.low = min(home.low, int(f.off))
		home.max = max(home.max, f.index)
	}
	w.last, w.term, w.chain, w.next = f.index, f.term, f.chain, f.index+1
}

// mend makes the files say what the history says: segments after the break are retired, one without a readable header
// is zeroed whole (its life has no number that a new one could avoid), and so is the space behind the last
// descriptor. Nothing there can come to life again.
func (h *history) mend() {
	for _, g := range slices.Backward(h.rest) {
		switch hd := g.header(); {
		case hd.blank:
		case !hd.valid:
			wipe(g.m)
		case hd.magic != magicFree:
			g.retire()
		}
	}
	if n := len(h.segs); n > 0 {
		g := h.segs[n-1]
		end := headerSize + g.n*frameSize
		wipe(g.m[end:max(g.low, end)])
	}
}
