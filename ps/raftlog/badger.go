package raftlog

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	badger "github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"hcclps/ps/corrupt"
)

// openBadger turns a panic of Badger's opening on damaged files into an error.
func openBadger(dir string, s *Store) (db *badger.DB, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &corrupt.Error{File: dir, Reason: fmt.Sprintf("opening the database failed: %v", r)}
		}
	}()
	o := badger.DefaultOptions(dir)
	o.SyncWrites = true
	o.Logger = badgerLogger{s}
	o.Compression = options.None
	o.BlockCacheSize, o.IndexCacheSize = 0, 0
	o.ChecksumVerificationMode = options.OnTableRead
	o.DetectConflicts, o.MetricsEnabled = false, false
	o.MemTableSize, o.NumMemtables = 8<<20, 2
	o.ValueLogFileSize, o.NumGoroutines, o.NumCompactors = 16<<20, 1, 2
	db, err = badger.Open(o)
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return nil, fmt.Errorf("open database: %w", err) // the system's no, not the bytes'
	}
	if err != nil {
		return nil, &corrupt.Error{File: dir, Reason: err.Error()}
	}
	return db, nil
}

// badgerLogger hands Badger's log to slog; what Badger calls an error ends the store.
type badgerLogger struct{ s *Store }

func (b badgerLogger) Errorf(format string, args ...any) {
	b.s.fail(fmt.Errorf("badger in %s: %s", b.s.dir, strings.TrimSpace(fmt.Sprintf(format, args...)))) //nolint:errcheck // the cause is kept
	select {
	case b.s.complaints <- struct{}{}:
	default:
	}
}

func (b badgerLogger) Warningf(format string, args ...any) {
	b.s.log.Warn("badger", "text", strings.TrimSpace(fmt.Sprintf(format, args...)))
}

func (b badgerLogger) Infof(format string, args ...any) {
	b.s.log.Debug("badger", "text", strings.TrimSpace(fmt.Sprintf(format, args...)))
}

func (b badgerLogger) Debugf(string, ...any) {}
