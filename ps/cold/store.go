package cold

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	badger "github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"golang.org/x/sys/unix"

	"hcclps/ps/table"
)

// ErrClosed is the cause when a store is used after Close.
var ErrClosed = errors.New("cold store is closed")

// Config describes a store.
type Config struct {
	Dir    string        // its own: everything in it is removed
	Memory *table.Memory // of the tables, of which the database uses a part; needed
	Logger *slog.Logger  // nil = discard
	// Free is the bytes of disk that a folder can still take. nil: the file system's word.
	Free func(dir string) (int64, error)
}

// Store keeps units of any number of tables. Its methods may be called concurrently.
type Store struct {
	cfg     Config
	tables  atomic.Uint32
	stats   counters
	swept   atomic.Int64  // bytes that had been written at the last search for garbage
	sweep   chan struct{} // asks for one
	garbage atomic.Bool   // there may be some

	collecting chan struct{} // of 1, full while somebody searches; comes before all locks
	collected  atomic.Int64  // bytes that had been written when the last search began that came to its end

	listMu sync.Mutex        // guards list and gone
	list   map[uint32]*units // those that are open
	gone   []uint32          // numbers of those that are closed, and not removed yet

	files   *files
	buffers buffers
	lists   sync.Pool // of *list

	dropMu sync.RWMutex // comes before mu; held for reading by who writes to db, for writing by who drops from it or frees a file of its log
	mu     sync.RWMutex // held for reading by who uses db, for writing by who makes or closes it
	db     *badger.DB   // nil: nothing was ever cold
	bytes  int64        // of Memory
	closed bool
	broken atomic.Pointer[error] // what Badger calls an error: nothing is written any more
	fault  chan struct{}         // closed then
}

// Open empties the folder, and makes it if need be.
func Open(cfg Config) (*Store, error) {
	if cfg.Dir == "" || cfg.Memory == nil {
		return nil, errors.New("open cold store: directory and memory are needed")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Free == nil {
		cfg.Free = free
	}
	s := &Store{cfg: cfg, sweep: make(chan struct{}, 1), collecting: make(chan struct{}, 1), fault: make(chan struct{}), list: map[uint32]*units{}, files: newFiles(cfg.Dir, cfg.Logger)}
	s.lists.New = func() any { return new(list) }
	if err := s.empty(); err != nil {
		return nil, fmt.Errorf("open cold store: %w", err)
	}
	return s, nil
}

// empty makes the folder, or removes what is in it: the folder itself may be a mount, or a link to another disk.
func (s *Store) empty() error {
	if err := os.MkdirAll(s.cfg.Dir, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(s.cfg.Dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(s.cfg.Dir, e.Name())))
	}
	return err
}

// Sizes of the database. Its tree holds places of segments alone, which lie in the value log, so it is tiny: 50 bytes a segment.
// As a value of its own in the tree, a unit of 1,160 bytes cost 45 us of CPU to write and 17 to read, most of it compaction; alone in the log 5 and 5.
const (
	memtable   = 256 << 10
	memtables  = 2           // full ones that wait to be written
	inTree     = 1 << 10     // longer values go to the log
	logFile    = 32 << 20    // bytes of a file of the log
	sweepAfter = logFile     // bytes written from one search for garbage to the next
	sweepFirst = 3 * logFile // bytes written since the last search, from which on who writes searches
	helpFiles  = 4           // that who writes frees at most
	sweepShare = 0.75        // of a file, garbage, from which on it is written anew: at a half, a quarter of all writes is that
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
	if !s.closed && s.db != nil {
		return s.db, nil
	}
	s.mu.RUnlock()
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

// Close ends the store and empties its folder. It comes after the tables are closed. After an error of Badger the database is left to the end of the
// process, which is near.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("close cold store: %w", ErrClosed)
	}
	s.closed = true
	s.files.close()
	var err error
	if s.db != nil {
		err = s.shut()
		s.cfg.Memory.Add(-s.bytes)
		s.db = nil
	}
	s.listMu.Lock()
	defer s.listMu.Unlock()
	for _, u := range s.list {
		u.uncount()
	}
	if err = errors.Join(err, s.remove()); err != nil {
		return fmt.Errorf("close cold store: %w", err)
	}
	return nil
}

// shut closes the database. Badger tries for ever to write what it has: after an error the database is left as it is.
func (s *Store) shut() error {
	if s.broken.Load() != nil {
		return nil // who wrote has been told
	}
	db, over := s.db, make(chan error, 1)
	go func() { over <- db.Close() }()
	select {
	case err := <-over:
		return err
	case <-s.fault:
		return *s.broken.Load()
	}
}

// remove removes the folder, but for a mount, or a link to another disk, of which what is in it goes.
func (s *Store) remove() error {
	if err := s.empty(); err != nil {
		return err
	}
	info, err := os.Lstat(s.cfg.Dir)
	if err != nil || !info.IsDir() {
		return err
	}
	if err := os.Remove(s.cfg.Dir); !errors.Is(err, unix.EBUSY) {
		return err
	}
	return nil
}

// logger hands Badger's log to slog. What Badger calls an error ends all writing; units that are there are read on, each with its checksum.
type logger struct{ s *Store }

func (l logger) Errorf(format string, args ...any) {
	err := fmt.Errorf("badger in %s: %s", l.s.cfg.Dir, strings.TrimSpace(fmt.Sprintf(format, args...)))
	l.s.cfg.Logger.Error("cold store", "err", err)
	if l.s.broken.CompareAndSwap(nil, &err) {
		close(l.s.fault)
	}
}

func (l logger) Warningf(format string, args ...any) {
	l.s.cfg.Logger.Warn("badger", "text", strings.TrimSpace(fmt.Sprintf(format, args...)))
}

func (l logger) Infof(format string, args ...any) {
	if format == rewriting && len(args) == 1 {
		if file, ok := args[0].(uint32); ok {
			l.s.files.ahead(spot{file: file}, logFile)
		}
	}
	l.s.cfg.Logger.Debug("badger", "text", strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// rewriting is what Badger says before it reads a file of the log from one end to the other. It reads it all the same where that has changed.
const rewriting = "Rewriting fid: %d"

func (l logger) Debugf(string, ...any) {}

// counters count units and bytes.
type counters struct{ writes, written, reads, read, searched, sweeps atomic.Int64 }

// Stats is what a store has done, in units and in bytes of units; Disk and Vlog are what it takes on disk, as of the last minute.
type Stats struct {
	Writes, Written int64
	Reads, Read     int64
	Searched        int64 // units among Reads that were not where they were seen last
	Disk            int64 // bytes of sorted tables
	Vlog            int64 // bytes of value logs
	Memory          int64 // bytes of the database, counted in table.Memory; beside them, what it takes to find units
	Sweeps          int64 // files of the value log written anew
}

// Stats counts.
func (s *Store) Stats() Stats {
	out := Stats{Writes: s.stats.writes.Load(), Written: s.stats.written.Load(), Reads: s.stats.reads.Load(), Read: s.stats.read.Load(), Searched: s.stats.searched.Load(), Sweeps: s.stats.sweeps.Load()}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.db != nil {
		out.Disk, out.Vlog = s.db.Size()
		out.Memory = s.bytes
	}
	return out
}
