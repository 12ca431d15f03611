package raftlog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// markEvery is how long a log that grows goes without a mark, and how soon a deleted file is noticed.
const markEvery = time.Second

// Run marks the log's progress in the store, once a second and at each new segment, drops files above the budget and
// looks after the folder. It returns nil when ctx ends, and the cause when the log or the store has failed: a LostError when files
// were deleted under it. The server must stop then.
func (l *Log) Run(ctx context.Context) error {
	tick := time.NewTicker(markEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.failed:
			return *l.cause.Load()
		case <-l.cfg.Store.Failed():
			return l.fail(l.cfg.Store.Err())
		case <-l.rolled:
		case <-tick.C:
			if err := l.inspect(); err != nil {
				return l.fail(err)
			}
			if err := l.trim(); err != nil {
				return l.fail(err)
			}
		}
		if err := l.putMark(); err != nil {
			return err
		}
	}
}

// putMark stores the mark if the log moved.
func (l *Log) putMark() error {
	l.marking.lock()
	defer l.marking.unlock()
	l.mu.RLock()
	m, idle := l.durable, l.frozen || l.closed
	l.mu.RUnlock()
	if idle || m == l.marked || l.cause.Load() != nil {
		return nil
	}
	return l.setMark(m)
}

// setMark stores a mark. The caller holds marking.
func (l *Log) setMark(m mark) error {
	l.mu.RLock()
	frozen := l.frozen
	l.mu.RUnlock()
	if !frozen {
		if err := l.cfg.Store.write(l.key("mark"), m.encode()); err != nil {
			return l.fail(fmt.Errorf("mark raft log of group %d: %w", l.cfg.Group, err))
		}
	}
	l.marked = m
	return nil
}

// inspect reports a lost log when its folder, lock or a segment is no longer the one that is open.
func (l *Log) inspect() error {
	l.growing.lock() // files are opened and closed under it
	defer l.growing.unlock()
	l.mu.RLock()
	files, idle := l.files(), l.frozen || l.closed
	l.mu.RUnlock()
	if idle {
		return nil
	}
	err := ours(l.dir, l.cfg.Dir)
	if err == nil {
		err = ours(l.lock, filepath.Join(l.cfg.Dir, lockName))
	}
	for _, g := range files {
		if err == nil {
			err = ours(g.file, g.path)
		}
	}
	if err != nil {
		return l.lost("%v", err)
	}
	return nil
}

// trim drops free files while the log has more than its budget, those of another size first. The file with the newest life stays,
// as the next life must have a higher number.
func (l *Log) trim() error {
	l.growing.lock()
	defer l.growing.unlock()
	l.mu.Lock()
	if l.frozen || l.closed {
		l.mu.Unlock()
		return nil
	}
	l.reap()
	over := l.size() - l.budget
	var drop []*segment
	dropped := func(g *segment) bool {
		n := int64(len(g.m))
		if n > over || g.seq == l.seq {
			return false
		}
		over -= n
		drop = append(drop, g)
		return true
	}
	l.free = slices.DeleteFunc(l.free, func(g *segment) bool { return int64(len(g.m)) != l.cfg.SegmentSize && dropped(g) })
	l.free = slices.DeleteFunc(l.free, dropped)
	l.mu.Unlock()
	if len(drop) == 0 {
		return nil
	}
	if err := l.cfg.Store.write(l.key("log"), l.recordOf(nil).encode()); err != nil {
		return err
	}
	var errs []error
	for _, g := range drop {
		errs = append(errs, os.Remove(g.path), unix.Munmap(g.m))
		closeFiles(g.file)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("drop segments: %w", err)
	}
	return nil
}
