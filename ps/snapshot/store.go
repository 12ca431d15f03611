package snapshot

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"github.com/hashicorp/raft"
)

// Config describes the store of one group.
type Config struct {
	Dir    string
	Retain int          // snapshots kept, default 2
	Logger *slog.Logger // nil = discard
}

// Store is a raft.SnapshotStore.
type Store struct{}

// CorruptError says which file is bad, and where.
type CorruptError struct {
	File   string
	Offset int64
	Reason string
}

func (e *CorruptError) Error() string { return e.Reason }

// ErrFull is returned when the disk has no space for a snapshot.
var ErrFull = errors.New("no space left for a snapshot")

// Open verifies what is there.
func Open(cfg Config) (*Store, error) { return nil, errors.New("not yet") }

// Run compacts in the background.
func (s *Store) Run(ctx context.Context) error { return errors.New("not yet") }

// Create implements raft.SnapshotStore; the sink is a *Sink.
func (s *Store) Create(version raft.SnapshotVersion, index, term uint64, configuration raft.Configuration, configurationIndex uint64, trans raft.Transport) (raft.SnapshotSink, error) {
	return nil, errors.New("not yet")
}

// List implements raft.SnapshotStore.
func (s *Store) List() ([]*raft.SnapshotMeta, error) { return nil, errors.New("not yet") }

// Open implements raft.SnapshotStore.
func (s *Store) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	return nil, nil, errors.New("not yet")
}

// Sink is the raft.SnapshotSink of a Store.
type Sink struct{ raft.SnapshotSink }

// Base is the id of the snapshot whose pages are carried over, "" if none.
func (s *Sink) Base() string { return "" }

// Full forgets the base.
func (s *Sink) Full() error { return errors.New("not yet") }

// WriteHead writes the small state, once.
func (s *Sink) WriteHead(b []byte) error { return errors.New("not yet") }

// WritePage writes one page.
func (s *Sink) WritePage(id uint64, b []byte) error { return errors.New("not yet") }

// Kind says what a record of the stream is.
type Kind uint8

// The kinds a Reader yields.
const (
	Head Kind = iota + 2
	Page
)

// Reader reads the stream of a snapshot.
type Reader struct{}

// NewReader reads a stream.
func NewReader(r io.Reader) *Reader { return &Reader{} }

// Next yields the next record, io.EOF after the last.
func (r *Reader) Next() (kind Kind, id uint64, data []byte, err error) {
	return 0, 0, nil, errors.New("not yet")
}
