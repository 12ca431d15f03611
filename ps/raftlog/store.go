package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	badger "github.com/dgraph-io/badger/v4"

	"hcclps/ps/corrupt"
)

const (
	counterKey   = "n"       // commits so far; the witness file must not be ahead of it
	serverPrefix = "s/"      // records of the server
	witnessName  = "WITNESS" // counter u64, CRC-32C u32 of it, zero u32
	lockName     = "LOCK"
)

// Options of OpenStore. The zero value is good.
type Options struct {
	Logger *slog.Logger // nil discards
}

// Store is one server's Badger: identity, formation record, every group's term and vote, log ids, segment files and
// marks. A write is synced when it returns; writes that arrive together share one commit. All methods may be called
// concurrently.
//
// Badger's own checks are weak, so each value carries its length and a CRC-32C, and a small file beside it, written
// after each commit, remembers how many commits there were: a database that silently dropped the tail of its own
// write-ahead log has fewer and is refused. An error that Badger logs ends the store: [Store.Failed].
type Store struct {
	dir     string
	lock    *os.File
	witness *os.File
	db      *badger.DB
	log     *slog.Logger

	commit latch // held by the one who commits
	mu     sync.Mutex
	queue  []*storeWrite
	count  uint64            // commits; owner: holder of commit
	frozen map[string][]byte // not nil: writes go here and nowhere else
	logs   map[*Log]struct{}
	closed bool

	cause      atomic.Pointer[error]
	failed     chan struct{}
	complaints chan struct{} // 1: Badger logged an error
}

type storeWrite struct {
	key   string
	value []byte
	done  chan struct{}
	err   error
}

// latch is a mutual exclusion that may be held across a wait: a goroutine blocked on it counts as durably blocked in
// testing/synctest, one blocked on a sync.Mutex does not.
type latch chan struct{}

func (l latch) lock()   { l <- struct{}{} }
func (l latch) unlock() { <-l }

// OpenStore opens or creates the store in dir. A second owner of dir gets an error that is ErrInUse; bytes that fail
// their checks give a corrupt.Error.
func OpenStore(dir string, o Options) (*Store, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{
		dir: dir, log: o.Logger, commit: make(latch, 1), logs: map[*Log]struct{}{}, failed: make(chan struct{}), complaints: make(chan struct{}, 1),
	}
	if err := s.open(); err != nil {
		err = errors.Join(err, s.shut())
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	return s, nil
}

func (s *Store) open() (err error) {
	if err := makeDir(s.dir); err != nil {
		return err
	}
	if s.lock, err = lockDir(s.dir); err != nil {
		return err
	}
	fresh := false
	if _, err := os.Stat(filepath.Join(s.dir, "badger")); errors.Is(err, os.ErrNotExist) {
		fresh = true
	}
	seen, err := s.openWitness(fresh)
	if err != nil {
		return err
	}
	if s.db, err = openBadger(filepath.Join(s.dir, "badger"), s); err != nil {
		return err
	}
	switch v, err := s.read(counterKey); {
	case errors.Is(err, ErrNotFound):
	case err != nil:
		return err
	case len(v) != 8:
		return &corrupt.Error{File: s.db.Opts().Dir, Reason: fmt.Sprintf("counter of commits has %d bytes", len(v))}
	default:
		s.count = binary.LittleEndian.Uint64(v)
	}
	if s.count < seen {
		return &corrupt.Error{File: s.db.Opts().Dir, Reason: fmt.Sprintf("database holds %d commits, %d were made: it lost its newest writes", s.count, seen)}
	}
	return s.Err()
}

// Get returns the server's record under key, or ErrNotFound.
func (s *Store) Get(key string) ([]byte, error) { return s.read(serverPrefix + key) }

// Set stores the server's record under key, at most 512 KiB. It is on disk when Set returns.
func (s *Store) Set(key string, value []byte) error { return s.write(serverPrefix+key, value) }

// Group returns the raft.StableStore of a group.
func (s *Store) Group(g uint32) *Stable {
	return &Stable{store: s, prefix: fmt.Sprintf("g/%08x/stable/", g)}
}

func (s *Store) read(key string) ([]byte, error) {
	s.mu.Lock()
	v, hit := s.frozen[key]
	closed := s.closed
	s.mu.Unlock()
	if hit {
		return v, nil
	}
	if closed {
		return nil, fmt.Errorf("read %q in store %s: %w", key, s.dir, ErrClosed)
	}
	if err := s.Err(); err != nil {
		return nil, err
	}
	var raw []byte
	err := s.db.View(func(txn *badger.Txn) error {
		it, err := txn.Get([]byte(key))
		if err != nil {
			return err
		}
		raw, err = it.ValueCopy(nil)
		return err
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read %q in store %s: %w", key, s.dir, err)
	}
	if v, err = unseal(key, raw); err != nil {
		return nil, &corrupt.Error{File: s.db.Opts().Dir, Reason: fmt.Sprintf("key %q: %v", key, err)}
	}
	return v, nil
}

// write queues one value and returns when it is committed, by this caller or by the one that commits just now.
func (s *Store) write(key string, value []byte) error {
	if len(value) > maxValue {
		return fmt.Errorf("write %q in store %s: %d bytes are above the limit of %d", key, s.dir, len(value), maxValue)
	}
	w := &storeWrite{key: key, value: append([]byte(nil), value...), done: make(chan struct{})}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return fmt.Errorf("write %q in store %s: %w", key, s.dir, ErrClosed)
	}
	s.queue = append(s.queue, w)
	s.mu.Unlock()

	s.commit.lock()
	defer s.commit.unlock()
	select {
	case <-w.done:
		return w.err
	default:
	}
	s.mu.Lock()
	// Badger bounds a transaction to 15 % of its memtable; the caller's own write is among the ones taken or comes next round.
	batch := s.queue
	s.queue = nil
	frozen := s.frozen
	if frozen != nil {
		for _, w := range batch {
			frozen[w.key] = w.value
		}
	}
	s.mu.Unlock()
	if frozen == nil {
		for len(batch) > 0 {
			n := 1
			for size := len(batch[0].value); n < len(batch) && size+len(batch[n].value) <= maxValue; n++ {
				size += len(batch[n].value)
			}
			s.commitBatch(batch[:n])
			batch = batch[n:]
		}
		return w.err
	}
	for _, w := range batch {
		close(w.done)
	}
	return nil
}

// commitBatch makes one synced transaction of the batch and wakes its owners. A failed commit is never tried again.
func (s *Store) commitBatch(batch []*storeWrite) {
	err := s.Err()
	if err == nil {
		s.count++
		err = s.db.Update(func(txn *badger.Txn) error {
			for _, w := range batch {
				if err := txn.Set([]byte(w.key), seal(w.key, w.value)); err != nil {
					return err
				}
			}
			return txn.Set([]byte(counterKey), seal(counterKey, binary.LittleEndian.AppendUint64(nil, s.count)))
		})
		if err == nil {
			_, err = s.witness.WriteAt(encodeWitness(s.count), 0)
		}
		if err != nil {
			err = s.fail(fmt.Errorf("commit to store %s: %w", s.dir, err))
		}
	}
	for _, w := range batch {
		w.err = err
		close(w.done)
	}
}

// fail keeps the first cause and returns it.
func (s *Store) fail(err error) error {
	if s.cause.CompareAndSwap(nil, &err) {
		s.log.Error("store failed", "dir", s.dir, "err", err)
		close(s.failed)
	}
	return s.Err()
}

// Failed is closed when the store can no longer be trusted; Err tells why. A server must stop then.
func (s *Store) Failed() <-chan struct{} { return s.failed }

// Err is the cause of a failed store, or nil.
func (s *Store) Err() error {
	if p := s.cause.Load(); p != nil {
		return *p
	}
	return nil
}

func (s *Store) attach(l *Log) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logs[l] = struct{}{}
}

func (s *Store) detach(l *Log) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.logs, l)
}

// Close closes the database. Close the logs opened on it first. A database that Badger cannot write any more is left, and its lock with it, to the end
// of the process, which is near.
func (s *Store) Close() error {
	s.commit.lock()
	defer s.commit.unlock()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	for _, w := range s.queue {
		w.err = ErrClosed
		close(w.done)
	}
	s.queue = nil
	s.mu.Unlock()
	if err := s.shut(); err != nil {
		return fmt.Errorf("close store %s: %w", s.dir, err)
	}
	return nil
}

// shut closes database and files. Badger tries for ever to write what it has, once a second, and logs an error each time: the first one that comes now
// ends the wait.
func (s *Store) shut() error {
	if s.db == nil {
		closeFiles(s.witness, s.lock)
		return nil
	}
	select {
	case <-s.complaints: // an older one
	default:
	}
	db, over := s.db, make(chan error, 1)
	go func() { over <- db.Close() }()
	select {
	case err := <-over:
		closeFiles(s.witness, s.lock)
		return err
	case <-s.complaints:
		closeFiles(s.witness)
		return s.Err()
	}
}
