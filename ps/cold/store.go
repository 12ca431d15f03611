package cold

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	badger "github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"hcclps/ps/table"
)

// ErrClosed is the cause when a store is used after Close.
var ErrClosed = errors.New("cold store is closed")

// Config describes a store.
type Config struct {
	Dir    string        // its own: everything in it is removed
	Memory *table.Memory // of the tables, of which the database uses a part; needed
	Logger *slog.Logger  // nil = discard
}

// Store keeps units of any number of tables. Its methods may be called concurrently.
type Store struct {
	cfg     Config
	tables  atomic.Uint32
	stats   counters
	swept   atomic.Int64  // bytes that had been written at the last search for garbage
	sweep   chan struct{} // asks for one
	garbage atomic.Bool   // there may be some

	listMu sync.Mutex        // guards list
	list   map[uint32]*units // those that are open

	scatterMu sync.Mutex // guards nextLog
	nextLog   int        // the first file of the value log that scatter has not seen

	mu     sync.RWMutex // held for reading by who uses db, for writing by who makes, drops from or closes it
	db     *badger.DB   // nil: nothing was ever cold
	bytes  int64        // of Memory
	closed bool
	broken atomic.Pointer[error] // what Badger calls an error
}

// Open empties the folder, and makes it if need be.
func Open(cfg Config) (*Store, error) {
	if cfg.Dir == "" || cfg.Memory == nil {
		return nil, errors.New("open cold store: directory and memory are needed")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{cfg: cfg, sweep: make(chan struct{}, 1), list: map[uint32]*units{}, nextLog: 1}
	if err := s.empty(); err != nil {
		return nil, fmt.Errorf("open cold store: %w", err)
	}
	return s, nil
}

func (s *Store) empty() error {
	if err := os.RemoveAll(s.cfg.Dir); err != nil {
		return err
	}
	return os.MkdirAll(s.cfg.Dir, 0o700)
}

// Sizes of the database. Its tree holds places of segments alone, which lie in the value log, so it is tiny: 50 bytes a segment.
// As a value of its own in the tree, a unit of 1,160 bytes cost 45 us of CPU to write and 17 to read, most of it compaction; alone in the log 5 and 5.
const (
	memtable   = 256 << 10
	memtables  = 2        // full ones that wait to be written
	inTree     = 1 << 10  // longer values go to the log
	logFile    = 32 << 20 // bytes of a file of the log
	sweepAfter = logFile  // bytes written from one search for garbage to the next
	sweepShare = 0.5      // of a file, garbage, from which on it is written anew
	base       = (memtables + 2) * memtable
)

// use is the database, made if it is not there, with s.mu held for reading.
func (s *Store) use() (*badger.DB, error) {
	s.mu.RLock()
	if s.db != nil || s.closed {
		return s.usable()
	}
	s.mu.RUnlock()
	s.mu.Lock()
	var err error
	if s.db == nil && !s.closed {
		err = s.open()
	}
	s.mu.Unlock()
	s.mu.RLock()
	if err != nil {
		s.mu.RUnlock()
		return nil, err
	}
	return s.usable()
}

// usable is the database, or why it cannot be used, and then s.mu is not held.
func (s *Store) usable() (*badger.DB, error) {
	err := s.broken.Load()
	if err == nil && !s.closed && s.db != nil {
		return s.db, nil
	}
	defer s.mu.RUnlock()
	if err != nil {
		return nil, *err
	}
	return nil, ErrClosed
}

func (s *Store) open() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("open database in %s: %v", s.cfg.Dir, r)
		}
	}()
	o := badger.DefaultOptions(s.cfg.Dir)
	o.Logger = logger{s}
	o.Compression = options.None
	o.BlockCacheSize, o.IndexCacheSize = 0, 0
	o.ChecksumVerificationMode = options.OnTableRead
	o.DetectConflicts, o.MetricsEnabled = false, false
	o.MemTableSize, o.NumMemtables = memtable, memtables
	o.BaseTableSize, o.BaseLevelSize = 1<<20, 4<<20
	o.NumLevelZeroTables, o.NumLevelZeroTablesStall = 1, 8 // what is garbage in the log is known after a compaction
	o.ValueThreshold = inTree
	o.ValueLogFileSize, o.NumGoroutines, o.NumCompactors = logFile, 1, 2
	db, err := badger.Open(o)
	if err != nil {
		return fmt.Errorf("open database in %s: %w", s.cfg.Dir, err)
	}
	s.db, s.bytes = db, base
	s.cfg.Memory.Add(s.bytes)
	return nil
}

// Run removes what is not needed any more from disk, until ctx ends. It returns nil.
func (s *Store) Run(ctx context.Context) error {
	for {
		select {
		case <-s.sweep:
			s.collect(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// wrote counts units, and asks for a search when they are many.
func (s *Store) wrote(units, bytes int) {
	s.stats.writes.Add(int64(units))
	now := s.stats.written.Add(int64(bytes))
	if before := s.swept.Load(); now-before >= sweepAfter && s.swept.CompareAndSwap(before, now) {
		s.garbage.Store(true)
		s.ask()
	}
}

// ask wakes Run.
func (s *Store) ask() {
	select {
	case s.sweep <- struct{}{}:
	default:
	}
}

// collect compacts sparse segments, and frees files of the log that are mostly garbage.
func (s *Store) collect(ctx context.Context) {
	s.listMu.Lock()
	open := slices.Collect(maps.Values(s.list))
	s.listMu.Unlock()
	for _, u := range open {
		if err := u.compact(); err != nil {
			s.cfg.Logger.Warn("garbage among cold rows stays on disk", "dir", s.cfg.Dir, "err", err)
			return
		}
	}
	for s.garbage.Swap(false) && ctx.Err() == nil {
		db, err := s.use()
		if err != nil {
			return
		}
		err = db.RunValueLogGC(sweepShare)
		s.mu.RUnlock()
		switch {
		case err == nil:
			s.stats.sweeps.Add(1)
			s.garbage.Store(true) // there may be another one
		case !errors.Is(err, badger.ErrNoRewrite):
			s.cfg.Logger.Warn("garbage of cold rows stays on disk", "dir", s.cfg.Dir, "err", err)
		}
	}
}

// Close ends the store and empties its folder. It comes after the tables are closed.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("close cold store: %w", ErrClosed)
	}
	s.closed = true
	var err error
	if s.db != nil {
		err = s.db.Close()
		s.cfg.Memory.Add(-s.bytes)
		s.db = nil
	}
	s.listMu.Lock()
	defer s.listMu.Unlock()
	for _, u := range s.list {
		u.uncount()
	}
	if err = errors.Join(err, os.RemoveAll(s.cfg.Dir)); err != nil {
		return fmt.Errorf("close cold store: %w", err)
	}
	return nil
}

// logger hands Badger's log to slog; what Badger calls an error ends the store.
type logger struct{ s *Store }

func (l logger) Errorf(format string, args ...any) {
	err := fmt.Errorf("badger in %s: %s", l.s.cfg.Dir, strings.TrimSpace(fmt.Sprintf(format, args...)))
	l.s.cfg.Logger.Error("cold store", "err", err)
	l.s.broken.CompareAndSwap(nil, &err)
}

func (l logger) Warningf(format string, args ...any) {
	l.s.cfg.Logger.Warn("badger", "text", strings.TrimSpace(fmt.Sprintf(format, args...)))
}

func (l logger) Infof(format string, args ...any) {
	l.s.cfg.Logger.Debug("badger", "text", strings.TrimSpace(fmt.Sprintf(format, args...)))
}

func (l logger) Debugf(string, ...any) {}

// counters count units and bytes.
type counters struct{ writes, written, reads, read, sweeps atomic.Int64 }

// Stats is what a store has done, in units and in bytes of units; Disk and Vlog are what it takes on disk, as of the last minute.
type Stats struct {
	Writes, Written int64
	Reads, Read     int64
	Disk            int64 // bytes of sorted tables
	Vlog            int64 // bytes of value logs
	Memory          int64 // bytes of the database, counted in table.Memory; beside them, what it takes to find units
	Sweeps          int64 // files of the value log written anew
}

// Stats counts.
func (s *Store) Stats() Stats {
	out := Stats{Writes: s.stats.writes.Load(), Written: s.stats.written.Load(), Reads: s.stats.reads.Load(), Read: s.stats.read.Load(), Sweeps: s.stats.sweeps.Load()}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.db != nil {
		out.Disk, out.Vlog = s.db.Size()
		out.Memory = s.bytes
	}
	return out
}
