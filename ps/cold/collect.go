package cold

import (
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"slices"

	badger "github.com/dgraph-io/badger/v4"
)

// Run removes what is not needed any more from disk, until ctx ends. It returns nil.
func (s *Store) Run(ctx context.Context) error {
	for {
		select {
		case <-s.sweep:
			s.collect(ctx, math.MaxInt)
		case <-ctx.Done():
			return nil
		}
	}
}

// wrote counts units, and asks for a search when they are many. Who writes faster than Run searches helps it: what is on disk does not hang on whose turn
// the system thinks it is.
func (s *Store) wrote(ctx context.Context, units, bytes int) {
	s.stats.writes.Add(int64(units))
	now := s.stats.written.Add(int64(bytes))
	if before := s.swept.Load(); now-before >= sweepAfter && s.swept.CompareAndSwap(before, now) {
		s.garbage.Store(true)
		s.ask()
	}
	if s.behind(ctx) {
		s.collect(ctx, helpFiles) // of closed stores nothing is collected
	}
}

// behind says whether searches for garbage are, once the one that runs has ended. Who cannot wait for that, since ctx ends, does not help.
func (s *Store) behind(ctx context.Context) bool {
	if s.stats.written.Load()-s.collected.Load() < sweepFirst || !s.begin(ctx) {
		return false
	}
	defer s.end()
	return s.stats.written.Load()-s.collected.Load() >= sweepFirst
}

// begin waits until nobody else searches, and says whether that was before ctx ended: then end is to follow.
func (s *Store) begin(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
	case s.collecting <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *Store) end() { <-s.collecting }

// ask wakes Run.
func (s *Store) ask() {
	select {
	case s.sweep <- struct{}{}:
	default:
	}
}

// collect removes closed tables, compacts sparse segments, and frees files of the log that are mostly garbage, at most so many.
func (s *Store) collect(ctx context.Context, files int) {
	if !s.begin(ctx) {
		return
	}
	defer s.end()
	written := s.stats.written.Load()
	if err := s.drop(); err != nil {
		s.cfg.Logger.Warn("closed tables stay on disk", "dir", s.cfg.Dir, "err", err)
		return
	}
	for _, u := range s.openTables() {
		err := u.compact(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !errors.Is(err, ErrClosed) {
			s.cfg.Logger.Warn("garbage among cold rows stays on disk", "dir", s.cfg.Dir, "err", err)
			s.collected.Store(written) // not each write is to try it again
			return
		}
	}
	for ; files > 0 && ctx.Err() == nil && s.garbage.Swap(false); files-- {
		err := s.sweepOne()
		switch {
		case err == nil:
			s.stats.sweeps.Add(1)
			s.garbage.Store(true) // there may be another one
		case !errors.Is(err, badger.ErrNoRewrite) && !errors.Is(err, ErrClosed):
			s.cfg.Logger.Warn("garbage of cold rows stays on disk", "dir", s.cfg.Dir, "err", err)
		}
	}
	if ctx.Err() == nil {
		s.collected.Store(written)
	}
}

// sweepOne writes what is left of one file of the log into the newest, and removes it. Those who write wait meanwhile: Badger reads, without a lock, what they change.
func (s *Store) sweepOne() error {
	if err := s.writable(forSweep); err != nil {
		return err
	}
	s.dropMu.Lock()
	defer s.dropMu.Unlock()
	db, err := s.use()
	if err != nil {
		return err
	}
	defer s.mu.RUnlock()
	if err := db.RunValueLogGC(sweepShare); err != nil {
		return err
	}
	gone := s.files.removed()
	for _, u := range s.openTables() {
		u.find(db, gone)
	}
	return nil
}

func (s *Store) openTables() []*units {
	s.listMu.Lock()
	defer s.listMu.Unlock()
	return slices.Collect(maps.Values(s.list))
}

// drop removes the units of closed tables. Those who write wait meanwhile, and those who read do not.
func (s *Store) drop() error {
	s.listMu.Lock()
	gone := s.gone
	s.gone = nil
	s.listMu.Unlock()
	if len(gone) == 0 {
		return nil
	}
	err := s.dropTables(gone)
	if err != nil && !errors.Is(err, ErrClosed) {
		s.listMu.Lock()
		s.gone = append(s.gone, gone...)
		s.listMu.Unlock()
		return err
	}
	s.garbage.Store(true)
	return nil
}

func (s *Store) dropTables(numbers []uint32) error {
	if err := s.writable(forDrop); err != nil {
		return err
	}
	s.dropMu.Lock()
	defer s.dropMu.Unlock()
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.db == nil {
		return nil
	}
	prefixes := make([][]byte, len(numbers))
	for i, n := range numbers {
		prefixes[i] = binary.BigEndian.AppendUint32(nil, n)
	}
	return s.db.DropPrefix(prefixes...)
}
