package raftlog

import (
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"os"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
	"golang.org/x/sys/unix"
)

const defaultBudget = 64 << 20

// Config of a Log. Dir and Store are required.
type Config struct {
	Dir   string // folder of this group's segments, of no other group
	Group uint32
	Store *Store
	// Sync makes each StoreLogs one fdatasync (quorum-disk). Without it entries survive the death of the process,
	// and that of the machine if Dir is on a disk and the kernel got to write them.
	Sync bool
	// Budget is the size of the log in bytes, default 64 MiB, allocated by Open; see Grow. The log may be twice as long
	// while Raft has not compacted yet. An entry may have an eighth of it.
	Budget int64
	// Most is what Grow may make of the budget in bytes, default and at least Budget.
	Most int64
	// SegmentSize of new files in bytes: a power of two from 1 MiB up to half the budget. Default a quarter of the
	// budget, rounded down to a power of two, at least 1 MiB. Other sizes are for tests.
	SegmentSize int64
	// Prefault touches every page in Open. For segments in a tmpfs: appends then run at the speed of memory.
	Prefault bool
	Logger   *slog.Logger // nil discards
}

func (c *Config) validate() error {
	var errs []error
	if c.Dir == "" {
		errs = append(errs, errors.New("no directory"))
	}
	if c.Store == nil {
		errs = append(errs, errors.New("no store"))
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Budget == 0 {
		c.Budget = defaultBudget
	}
	if c.Budget < 2*minSegment {
		errs = append(errs, fmt.Errorf("budget of %d bytes is below %d", c.Budget, 2*minSegment))
	}
	c.Most = max(c.Most, c.Budget)
	if c.SegmentSize == 0 && c.Budget >= 2*minSegment {
		c.SegmentSize = min(max(int64(1)<<(bits.Len64(uint64(c.Budget/4))-1), minSegment), maxSegment)
	}
	if s := c.SegmentSize; s < minSegment || s > maxSegment || s&(s-1) != 0 || 2*s > c.Budget {
		errs = append(errs, fmt.Errorf("segment size of %d bytes must be a power of two from %d to half the budget of %d", s, minSegment, c.Budget))
	}
	return errors.Join(errs...)
}

// Log is one Raft group's log: a raft.LogStore (monotonic) in mapped segment files. Reads, appends and pins may run
// concurrently. Payloads handed out by GetLog are slices of the mapping: they are good until the entry is deleted and
// its segment used again (see Pin), and never after Close.
type Log struct {
	cfg  Config
	id   logID
	log  *slog.Logger
	lock *os.File
	dir  *os.File

	// Taken in this order, and before mu.
	write   latch // StoreLogs, DeleteRange
	marking latch // mark and trim
	growing latch // files and their record

	mu          sync.RWMutex
	segs        []*segment // the log, by seq; the last is appended to
	dead        []*segment // retired, maybe pinned
	free        []*segment
	budget      int64  // Config.Budget, or what Grow made of it
	first, last uint64 // 0, 0: empty
	chain       uint32 // at last; of an empty log: base of the current segment
	durable     mark   // what a mark may say: synced under Sync
	seq         uint64
	frozen      bool
	closed      bool

	marked mark   // owner: marking
	nextNo uint32 // owner: growing

	rolled chan struct{} // a new segment is in use
	cause  atomic.Pointer[error]
	failed chan struct{}
}

var (
	_ raft.LogStore          = (*Log)(nil)
	_ raft.MonotonicLogStore = (*Log)(nil)
)

// CheckSnapshot reports a lost log when entries between the newest snapshot, at index, and the log's first are missing.
func (l *Log) CheckSnapshot(index uint64) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.first > index+1 {
		return l.lost("it begins at entry %d, the newest snapshot ends at %d", l.first, index)
	}
	return nil
}

// fail keeps the first cause and returns it.
func (l *Log) fail(err error) error {
	if l.cause.CompareAndSwap(nil, &err) {
		l.log.Error("raft log failed", "dir", l.cfg.Dir, "err", err)
		close(l.failed)
	}
	return *l.cause.Load()
}

// usable is the reason why the log takes no more writes, or nil.
func (l *Log) usable() error {
	if p := l.cause.Load(); p != nil {
		return *p
	}
	if l.closed {
		return fmt.Errorf("raft log of group %d: %w", l.cfg.Group, ErrClosed)
	}
	return nil
}

// Close writes a last mark and unmaps the files. Stop everything that reads entries first: Raft, its transport and
// the state machine. Segments still pinned are unmapped by their last release.
func (l *Log) Close() error {
	l.write.lock()
	defer l.write.unlock()
	l.mu.RLock()
	closed := l.closed
	l.mu.RUnlock()
	if closed {
		return nil
	}
	err := l.putMark()
	l.marking.lock()
	defer l.marking.unlock()
	l.growing.lock()
	defer l.growing.unlock()
	l.cfg.Store.detach(l)
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.unmap()
	closeFiles(l.lock, l.dir)
	return err
}

// unmap lets go of every segment that is not pinned.
func (l *Log) unmap() {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.files()
	l.segs, l.dead, l.free = nil, nil, nil
	for _, g := range all {
		if g.pins.Load() != 0 {
			l.dead = append(l.dead, g)
			continue
		}
		closeFiles(g.file)
		if err := unix.Munmap(g.m); err != nil {
			l.log.Warn("unmap segment", "file", g.path, "err", err)
		}
	}
}
