package raftlog

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"

	"hcclps/ps/corrupt"
)

// Open creates the log of a group that never had one, or recovers and verifies an existing one, every byte of it. A
// lost log gives a LostError, a damaged one a corrupt.Error, an owned folder ErrInUse, too little space ErrFull; in
// all these cases the files of the log are left as they are. It starts no goroutine: call Run.
func Open(cfg Config) (*Log, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("open raft log of group %d in %q: %w", cfg.Group, cfg.Dir, err)
	}
	l := &Log{
		cfg: cfg, log: cfg.Logger.With("group", cfg.Group), budget: cfg.Budget,
		write: make(latch, 1), marking: make(latch, 1), growing: make(latch, 1),
		rolled: make(chan struct{}, 1), failed: make(chan struct{}),
	}
	if err := l.open(); err != nil {
		l.unmap()
		closeFiles(l.lock, l.dir)
		if lost := (*LostError)(nil); errors.As(err, &lost) {
			return nil, err
		}
		return nil, fmt.Errorf("open raft log of group %d in %s: %w", cfg.Group, cfg.Dir, err)
	}
	cfg.Store.attach(l)
	return l, nil
}

func (l *Log) open() error {
	rec, known, err := l.loadRecord()
	if err != nil {
		return err
	}
	if _, err := os.Stat(l.cfg.Dir); known && errors.Is(err, os.ErrNotExist) {
		return l.lost("its directory is gone")
	}
	if err := makeDir(l.cfg.Dir); err != nil {
		return err
	}
	if l.lock, err = lockDir(l.cfg.Dir); err != nil {
		return err
	}
	if l.dir, err = os.Open(l.cfg.Dir); err != nil {
		return fmt.Errorf("open directory: %w", err)
	}
	if known {
		l.id = rec.id
	} else if _, err := rand.Read(l.id[:]); err != nil {
		return fmt.Errorf("draw log id: %w", err)
	}
	strays, err := l.mapFiles(rec)
	if err != nil {
		return err
	}
	if err := l.rejectStrays(strays, known); err != nil {
		return err
	}
	if err := l.recover(known); err != nil {
		return err
	}
	return l.fill()
}

func (l *Log) lost(format string, args ...any) error {
	return &LostError{Group: l.cfg.Group, Dir: l.cfg.Dir, Reason: fmt.Sprintf(format, args...)}
}

func (l *Log) key(name string) string { return fmt.Sprintf("g/%08x/%s", l.cfg.Group, name) }

// loadRecord reads the log's identity; known is false for a group that never had a log.
func (l *Log) loadRecord() (rec logRecord, known bool, err error) {
	b, err := l.cfg.Store.read(l.key("log"))
	if errors.Is(err, ErrNotFound) {
		return rec, false, nil
	}
	if err == nil {
		rec, err = decodeRecord(b)
	}
	if err != nil {
		return rec, false, fmt.Errorf("read log id in store %s: %w", l.cfg.Store.dir, err)
	}
	return rec, true, nil
}

// mapFiles maps the recorded files into free, and returns the numbers of files nobody recorded.
func (l *Log) mapFiles(rec logRecord) (strays []uint32, err error) {
	nos, err := listSegments(l.cfg.Dir)
	if err != nil {
		return nil, err
	}
	for _, f := range rec.files {
		if !nos[f.no] {
			return nil, l.lost("segment %s is gone", segPath(l.cfg.Dir, f.no))
		}
		g, err := openSegment(l.cfg.Dir, f.no, f.size)
		if err != nil {
			return nil, err
		}
		l.free = append(l.free, g)
		delete(nos, f.no)
		l.nextNo = max(l.nextNo, f.no+1)
	}
	for no := range nos {
		strays = append(strays, no)
		l.nextNo = max(l.nextNo, no+1)
	}
	return strays, nil
}

// rejectStrays removes unrecorded files that hold nothing, as a kill between creating or dropping a file and
// recording it leaves them. Others mean that files and store do not belong together.
func (l *Log) rejectStrays(nos []uint32, known bool) error {
	for _, no := range nos {
		path := segPath(l.cfg.Dir, no)
		head, err := readHead(path)
		if err != nil {
			return err
		}
		hd := (&segment{m: head}).header()
		switch {
		case hd.blank, known && hd.magic == magicFree && hd.id == l.id:
			if err := os.Remove(path); err != nil {
				return fmt.Errorf("remove unused segment: %w", err)
			}
		case !known:
			return l.lost("segment %s is there, but the store %s has no log id: it was replaced or emptied", path, l.cfg.Store.dir)
		default:
			return l.lost("segment %s is in use, but the store %s does not know it: an older copy of the store was put back, or files of another log were", path, l.cfg.Store.dir)
		}
	}
	return nil
}

func readHead(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open segment: %w", err)
	}
	defer closeFiles(f)
	b := make([]byte, headerSize)
	_, err = f.ReadAt(b, 0)
	if err != nil {
		return nil, &corrupt.Error{File: path, Reason: fmt.Sprintf("read header: %v", err)}
	}
	return b, nil
}

// recover replays the mapped files, judges them by mark and term, and mends them.
func (l *Log) recover(known bool) error {
	if !known {
		return nil
	}
	var m mark
	b, err := l.cfg.Store.read(l.key("mark"))
	if err == nil {
		m, err = decodeMark(b)
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("read mark in store %s: %w", l.cfg.Store.dir, err)
	}
	h, lost, err := replay(l.free, l.id, l.cfg.Group, m)
	if err != nil {
		return err
	}
	if lost != "" {
		return l.lost("%s", lost)
	}
	// Raft stores a term before any entry of it, so an older one means that the store, and the vote in it, went back.
	term, err := l.cfg.Store.Group(l.cfg.Group).GetUint64([]byte("CurrentTerm"))
	if err == nil && term < h.term {
		return &corrupt.Error{File: l.cfg.Store.dir, Reason: fmt.Sprintf("term of group %d is %d, its log has entries of term %d: an older copy of the store was put back", l.cfg.Group, term, h.term)}
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("read term: %w", err)
	}
	if h.broken != nil {
		l.log.Warn("cut the unacknowledged end of a raft log", "after", h.last, "file", h.broken.File, "offset", h.broken.Offset, "reason", h.broken.Reason)
	}
	h.mend()
	l.segs, l.free = h.segs, h.rest
	l.first, l.last, l.chain = h.first, h.last, h.chain
	l.seq = max(h.seq, m.seq)
	l.marked, l.durable = m, mark{seq: m.seq}
	return l.settle()
}

// settle drops what lies before the first entry, and makes durable what a killed process left to the kernel.
func (l *Log) settle() error {
	if err := l.retireBefore(l.first); err != nil {
		return err
	}
	// A retirement that a power loss took back would break the chain in the middle.
	if err := l.flush(l.files()...); err != nil {
		return err
	}
	l.durable = l.now()
	return nil
}

// fill allocates and records files up to the budget.
func (l *Log) fill() error {
	var have int64
	for _, g := range l.files() {
		if usable := int64(len(g.m)) == l.cfg.SegmentSize; usable || !slices.Contains(l.free, g) {
			have += int64(len(g.m))
		}
	}
	lack := int(max(0, (l.cfg.Budget-have)/l.cfg.SegmentSize))
	if lack > 0 {
		if err := CheckSpace(l.cfg.Dir, int64(lack)*l.cfg.SegmentSize); err != nil {
			return err
		}
	}
	var made []*segment
	for range lack {
		g, err := createSegment(l.cfg.Dir, l.nextNo, l.cfg.SegmentSize)
		if err != nil {
			l.free = append(l.free, made...) // unmapped by the caller; the next Open removes the blank files
			return err
		}
		l.nextNo++
		made = append(made, g)
	}
	l.free = append(l.free, made...)
	if err := l.record(made); err != nil {
		return err
	}
	if l.cfg.Prefault {
		for _, g := range l.files() {
			if err := g.prefault(); err != nil {
				return err
			}
		}
	}
	return nil
}

// record tells the store all files, among them the new ones, which then get their empty header.
func (l *Log) record(made []*segment) error {
	if len(made) == 0 {
		return nil
	}
	if l.cfg.Sync {
		if err := syncDir(l.cfg.Dir); err != nil {
			return err
		}
	}
	if err := l.cfg.Store.write(l.key("log"), l.recordOf(made).encode()); err != nil {
		return err
	}
	for _, g := range made {
		g.reserve(l.id, l.cfg.Group)
	}
	return nil
}

// recordOf lists the files in use and those in extra that are not among them yet.
func (l *Log) recordOf(extra []*segment) logRecord {
	r := logRecord{id: l.id}
	seen := map[uint32]bool{}
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, g := range append(l.files(), extra...) {
		if !seen[g.no] {
			seen[g.no] = true
			r.files = append(r.files, fileRef{no: g.no, size: int64(len(g.m))})
		}
	}
	return r
}

// files lists all segments. The caller holds mu.
func (l *Log) files() []*segment { return slices.Concat(l.segs, l.dead, l.free) }
