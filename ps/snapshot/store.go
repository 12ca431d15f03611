package snapshot

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/hashicorp/raft"
)

// Config describes the store of one group.
type Config struct {
	Dir    string       // made if missing; belongs to this group alone
	Retain int          // snapshots kept, default 2; for tests
	Rate   int64        // bytes a second that compaction may copy, default 32 MiB; for tests
	Logger *slog.Logger // nil = discard

	disk disk // nil = the real one; tests only
}

// ErrFull is in the error of a snapshot for which the disk had no space. What was there before is as it was.
var ErrFull = errors.New("no space left for a snapshot")

// Store holds the snapshots of one group. All methods may be called concurrently.
type Store struct {
	cfg  Config
	log  *slog.Logger
	disk disk
	turn chan struct{} // held while manifests on disk change, so that they and snaps change in one order
	kick chan struct{} // tells Run that there may be something to compact

	mu       sync.Mutex // never held over I/O
	snaps    []*manifest
	files    map[uint32]*pageFile
	tail     *pageFile // what the next sink appends to; nil: a new file
	nextFile uint32
	nextSeq  uint64
}

// Open reads and verifies every manifest and the CRC of every page, removes what a crash has left, and makes the folder if it is
// missing. A damaged or missing file is a *corrupt.Error: the group must not be started.
func Open(cfg Config) (*Store, error) {
	if cfg.Dir == "" {
		return nil, errors.New("open snapshots: no directory given")
	}
	s := &Store{
		cfg: cfg, log: cfg.Logger, disk: cfg.disk, turn: make(chan struct{}, 1), kick: make(chan struct{}, 1),
		files: map[uint32]*pageFile{}, nextFile: 1, nextSeq: 1,
	}
	if s.cfg.Retain <= 0 {
		s.cfg.Retain = 2
	}
	if s.cfg.Rate <= 0 {
		s.cfg.Rate = 32 << 20
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.disk == nil {
		s.disk = osDisk{}
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("open snapshots: %w", err)
	}
	if err := s.load(); err != nil {
		return nil, fmt.Errorf("open snapshots: %w", err)
	}
	s.prune()
	return s, nil
}

func (s *Store) manifestName(seq uint64) string {
	return filepath.Join(s.cfg.Dir, fmt.Sprintf("manifest-%020d", seq))
}

// Create begins a snapshot. The sink is a *Sink whose base is the newest snapshot there is.
func (s *Store) Create(version raft.SnapshotVersion, index, term uint64, configuration raft.Configuration, configurationIndex uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	if version != raft.SnapshotVersionMax {
		return nil, fmt.Errorf("create snapshot: raft's snapshot version %d is not supported", version)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := &Sink{store: s}
	k.m.seq = s.nextSeq
	s.nextSeq++
	k.m.meta = raft.SnapshotMeta{
		Version: version, ID: snapshotID(term, index, k.m.seq), Index: index, Term: term,
		Configuration: configuration.Clone(), ConfigurationIndex: configurationIndex,
	}
	if len(s.snaps) > 0 {
		k.base = s.snaps[0]
		s.refer(k.base)
	}
	return k, nil
}

// List shows the newest snapshot, if there is one. Older ones are kept for people and for who is reading them.
func (s *Store) List() ([]*raft.SnapshotMeta, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.snaps) == 0 {
		return nil, nil
	}
	return []*raft.SnapshotMeta{s.snaps[0].copyMeta()}, nil
}

func (m *manifest) copyMeta() *raft.SnapshotMeta {
	meta := m.meta
	meta.Configuration = meta.Configuration.Clone()
	return &meta
}

// Open yields the stream of a snapshot; what it needs stays on disk until it is closed. Damage found on the way is a *corrupt.Error.
func (s *Store) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.snaps {
		if m.meta.ID == id {
			s.refer(m)
			return m.copyMeta(), newSource(s, m), nil
		}
	}
	return nil, nil, fmt.Errorf("open snapshot: there is none with the id %q", id)
}

// refer keeps the page files of m on disk. The caller holds mu.
func (s *Store) refer(m *manifest) {
	for _, n := range m.needs {
		s.files[n].refs++
	}
}

// unrefer is the reverse, and removes the files that nobody needs any more. The caller does not hold mu.
func (s *Store) unrefer(m *manifest) {
	s.mu.Lock()
	for _, n := range m.needs {
		s.files[n].refs--
	}
	gone := s.unneeded()
	s.mu.Unlock()
	s.removePages(gone)
}

// unneeded takes the files without a user out of the books. The caller holds mu and removes them when it does not.
func (s *Store) unneeded() (gone []uint32) {
	for n, f := range s.files {
		if f.refs > 0 || f.writing {
			continue
		}
		if s.tail == f {
			s.tail = nil
		}
		delete(s.files, n)
		gone = append(gone, n)
	}
	slices.Sort(gone)
	return gone
}

func (s *Store) removePages(files []uint32) {
	for _, n := range files {
		// A file that stays is removed at the next Open.
		if err := s.disk.Remove(pageFileName(s.cfg.Dir, n)); err != nil {
			s.log.Warn("cannot remove page file", "file", pageFileName(s.cfg.Dir, n), "err", err)
		}
	}
}

// publish makes a written snapshot exist: on disk, then in the books. exists is true with an error when the manifest is in place but
// the folder could not be synced.
func (s *Store) publish(m *manifest) (exists bool, err error) {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	exists, err = s.writeManifest(m)
	if !exists {
		return false, err
	}
	s.mu.Lock()
	s.refer(m)
	s.snaps = append(s.snaps, m)
	slices.SortFunc(s.snaps, newer)
	s.mu.Unlock()
	if err != nil {
		return true, err
	}
	s.prune()
	select {
	case s.kick <- struct{}{}:
	default:
	}
	return true, nil
}

// writeManifest writes or replaces a manifest so that it is there whole or not at all.
func (s *Store) writeManifest(m *manifest) (exists bool, err error) {
	b, err := m.encode()
	if err != nil {
		return false, err
	}
	name := s.manifestName(m.seq)
	temp := name + ".tmp"
	err = s.writeFile(temp, b)
	if err == nil {
		err = s.disk.Rename(temp, name)
	}
	if err != nil {
		_ = s.disk.Remove(temp) // the first error is the one to tell; Open removes it otherwise
		return false, explain("write manifest", err)
	}
	if err := s.disk.SyncDir(s.cfg.Dir); err != nil {
		return true, explain("sync "+s.cfg.Dir, err)
	}
	return true, nil
}

func (s *Store) writeFile(name string, b []byte) error {
	f, err := s.disk.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// prune removes the oldest manifests over Retain. The caller holds turn, or is Open.
func (s *Store) prune() {
	for {
		s.mu.Lock()
		var old *manifest
		if len(s.snaps) > s.cfg.Retain {
			old = s.snaps[len(s.snaps)-1]
		}
		s.mu.Unlock()
		if old == nil {
			return
		}
		if err := s.disk.Remove(s.manifestName(old.seq)); err != nil {
			s.log.Warn("cannot remove old snapshot", "id", old.meta.ID, "err", err)
			return
		}
		s.mu.Lock()
		s.snaps = slices.DeleteFunc(s.snaps, func(m *manifest) bool { return m == old })
		s.mu.Unlock()
		// Its pages go only when its name cannot come back.
		if err := s.disk.SyncDir(s.cfg.Dir); err != nil {
			s.log.Warn("cannot sync the snapshots", "dir", s.cfg.Dir, "err", err)
			return
		}
		s.unrefer(old)
	}
}
