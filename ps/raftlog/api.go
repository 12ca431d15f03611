// Package raftlog is a Raft group's log in mapped segment files and the server's Badger store.
package raftlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/hashicorp/raft"
)

var (
	ErrNotFound = errors.New("not found")
	ErrInUse    = errors.New("directory is in use by another server")
	ErrLost     = errors.New("raft log is lost")
	ErrCorrupt  = errors.New("raft log is corrupt")
	ErrFull     = errors.New("raft log is full")
	ErrClosed   = errors.New("raft log is closed")

	errUnready = errors.New("raftlog: not written yet")
)

type LostError struct {
	Group  uint32
	Dir    string
	Reason string
}

func (e *LostError) Error() string {
	return fmt.Sprintf("%v: group %d in %s: %s", ErrLost, e.Group, e.Dir, e.Reason)
}
func (e *LostError) Is(t error) bool { return t == ErrLost }

type CorruptError struct {
	File   string
	Offset int64
	Reason string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%v: %s at %d: %s", ErrCorrupt, e.File, e.Offset, e.Reason)
}
func (e *CorruptError) Is(t error) bool { return t == ErrCorrupt }

type Options struct {
	Logger *slog.Logger
}

type Store struct{}

func OpenStore(dir string, o Options) (*Store, error) { return nil, errUnready }
func (s *Store) Group(g uint32) *Stable               { return &Stable{} }
func (s *Store) Get(key string) ([]byte, error)       { return nil, errUnready }
func (s *Store) Set(key string, value []byte) error   { return errUnready }
func (s *Store) Failed() <-chan struct{}              { return nil }
func (s *Store) Err() error                           { return errUnready }
func (s *Store) Freeze()                              {}
func (s *Store) Close() error                         { return nil }

type Stable struct{}

func (t *Stable) Set(key, val []byte) error              { return errUnready }
func (t *Stable) Get(key []byte) ([]byte, error)         { return nil, errUnready }
func (t *Stable) SetUint64(key []byte, val uint64) error { return errUnready }
func (t *Stable) GetUint64(key []byte) (uint64, error)   { return 0, errUnready }

type Config struct {
	Dir         string
	Group       uint32
	Store       *Store
	Sync        bool
	Budget      int64
	SegmentSize int64
	Prefault    bool
	Logger      *slog.Logger
}

type Log struct{}

var (
	_ raft.LogStore          = (*Log)(nil)
	_ raft.MonotonicLogStore = (*Log)(nil)
	_ raft.StableStore       = (*Stable)(nil)
)

func Open(cfg Config) (*Log, error)                         { return nil, errUnready }
func CheckSpace(dir string, need int64) error               { return errUnready }
func (l *Log) CheckSnapshot(index uint64) error             { return errUnready }
func (l *Log) FirstIndex() (uint64, error)                  { return 0, errUnready }
func (l *Log) LastIndex() (uint64, error)                   { return 0, errUnready }
func (l *Log) GetLog(index uint64, out *raft.Log) error     { return errUnready }
func (l *Log) StoreLog(e *raft.Log) error                   { return errUnready }
func (l *Log) StoreLogs(es []*raft.Log) error               { return errUnready }
func (l *Log) DeleteRange(lo, hi uint64) error              { return errUnready }
func (l *Log) IsMonotonic() bool                            { return true }
func (l *Log) Alloc(n int) ([]byte, func(), error)          { return nil, nil, errUnready }
func (l *Log) Pin(es []*raft.Log) (release func(), ok bool) { return func() {}, false }
func (l *Log) Checksum(e *raft.Log) (uint32, bool)          { return 0, false }
func (l *Log) Bytes() (used, budget int64)                  { return 0, 0 }
func (l *Log) TrailingFor(bytes int64) uint64               { return 0 }
func (l *Log) Run(ctx context.Context) error                { return errUnready }
func (l *Log) Freeze()                                      {}
func (l *Log) Close() error                                 { return nil }
