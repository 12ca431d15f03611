package checkpoint

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Config describes a store.
type Config struct {
	// Dir is the folder of packs, parts and manifests. Several servers may share
	// it; it is made if it is missing.
	Dir string
	// Owner is in the names of the files this store writes: the server's id, of
	// letters, digits, '-', '_' and '.', at most 64. No two stores that are open on
	// one folder have the same.
	Owner string
	// Catalogue is a folder for the index of chunks, on a disk of this host; it
	// belongs to this store alone. Empty: the index is kept in memory.
	Catalogue string
	// Local says that Dir holds only what this server writes, and that the parts of
	// other groups are in the folders of other servers: Commit does not look for
	// them. A restore needs them in one folder.
	Local  bool
	Logger *slog.Logger // nil = discard

	// For tests.
	disk      disk
	catalogue catalogue
	packLimit int64
	blobChunk int
	tag       func() string
	now       func() time.Time
}

// Store reads and writes the checkpoints of a folder. All methods may be called
// concurrently.
type Store struct {
	cfg  Config
	disk disk
	log  *slog.Logger
	cat  catalogue

	mu      sync.Mutex     // never held over I/O
	writing map[uint64]int // writers of this store, by checkpoint
	reading map[uint64]int // open checkpoints, those their deltas stand on included
	closed  bool
}

// Open makes the folder if it is missing, and opens the catalogue, which is built
// anew if it is damaged. ErrInUse: another process has the catalogue.
func Open(cfg Config) (*Store, error) {
	if cfg.Dir == "" {
		return nil, errors.New("open checkpoints: no folder given")
	}
	if cfg.Owner == "" {
		cfg.Owner = "local"
	}
	if !validOwner(cfg.Owner) {
		return nil, fmt.Errorf("open checkpoints: owner %q: want letters, digits, '-', '_' and '.', at most 64", cfg.Owner)
	}
	s := &Store{cfg: cfg, disk: cfg.disk, log: cfg.Logger, cat: cfg.catalogue, writing: map[uint64]int{}, reading: map[uint64]int{}}
	s.defaults()
	if cfg.disk == nil {
		if err := makeDir(cfg.Dir); err != nil {
			return nil, fmt.Errorf("open checkpoints: %w", err)
		}
	}
	if _, err := s.disk.List(cfg.Dir); err != nil {
		return nil, fmt.Errorf("open checkpoints: %w", err)
	}
	switch {
	case s.cat != nil:
	case cfg.Catalogue == "":
		s.cat = newMemoryCatalogue()
	default:
		cat, err := openCatalogue(cfg.Catalogue, s.log)
		if err != nil {
			return nil, fmt.Errorf("open checkpoints: %w", err)
		}
		s.cat = cat
	}
	return s, nil
}

// makeDir makes the folder, durably, with those above it that are missing.
func makeDir(dir string) error {
	err := os.Mkdir(dir, 0o755)
	if errors.Is(err, os.ErrNotExist) {
		if err := makeDir(filepath.Dir(dir)); err != nil {
			return err
		}
		err = os.Mkdir(dir, 0o755)
	}
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return cmp.Or(err, osDisk{}.SyncDir(filepath.Dir(filepath.Clean(dir))))
}

func (s *Store) defaults() {
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.disk == nil {
		s.disk = osDisk{}
	}
	if s.cfg.packLimit == 0 {
		s.cfg.packLimit = packLimit
	}
	if s.cfg.blobChunk == 0 {
		s.cfg.blobChunk = blobChunk
	}
	if s.cfg.tag == nil {
		s.cfg.tag = func() string { return strings.ToLower(rand.Text()[:8]) }
	}
	if s.cfg.now == nil {
		s.cfg.now = time.Now
	}
}

// Close closes the catalogue. Writers and open checkpoints are of no use
// afterwards.
func (s *Store) Close() error {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return nil
	}
	if err := s.cat.close(); err != nil {
		return fmt.Errorf("close checkpoints: %w", err)
	}
	return nil
}

func (s *Store) path(name string) string { return filepath.Join(s.cfg.Dir, name) }

func (s *Store) alive() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("checkpoints in %s: %w", s.cfg.Dir, ErrClosed)
	}
	return nil
}

// List reads the manifests, oldest first. Those that cannot be read are left out,
// and the error names them.
func (s *Store) List(ctx context.Context) ([]*Manifest, error) {
	names, err := s.disk.List(s.cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("list checkpoints: %w", err)
	}
	ids := manifestIDs(names)
	all := make([]*Manifest, 0, len(ids))
	var errs []error
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return all, fmt.Errorf("list checkpoints: %w", err)
		}
		m, _, err := s.manifest(id)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, m)
	}
	if err := errors.Join(errs...); err != nil {
		return all, fmt.Errorf("list checkpoints: %w", err)
	}
	return all, nil
}

// Newest describes the newest checkpoint of a job, or is ErrNotFound. A newer one
// that cannot be read is an error: nothing older is used instead of it.
func (s *Store) Newest(ctx context.Context, job string) (*Manifest, error) {
	names, err := s.disk.List(s.cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("find newest checkpoint of job %q: %w", job, err)
	}
	for _, id := range slices.Backward(manifestIDs(names)) {
		err := context.Cause(ctx)
		var m *Manifest
		if err == nil {
			m, _, err = s.manifest(id)
		}
		switch {
		case errors.Is(err, ErrNotFound): // deleted meanwhile
		case err != nil:
			return nil, fmt.Errorf("find newest checkpoint of job %q: %w", job, err)
		case m.Job == job:
			return m, nil
		}
	}
	return nil, fmt.Errorf("find newest checkpoint of job %q in %s: %w", job, s.cfg.Dir, ErrNotFound)
}

// manifestIDs lists the checkpoints among the names of a folder, oldest first.
func manifestIDs(names []string) []uint64 {
	var ids []uint64
	for _, n := range names {
		if f, ok := parseName(n); ok && f.kind == kindManifest && !f.temp {
			ids = append(ids, f.id)
		}
	}
	slices.Sort(ids)
	return ids
}

// manifest reads one, and says what its digest is.
func (s *Store) manifest(id uint64) (m *Manifest, digest string, err error) {
	path := s.path(manifestName(id))
	b, err := s.readFile(path, manifestMax)
	if errors.Is(err, ErrMissing) {
		return nil, "", fmt.Errorf("read checkpoint %d: %w: %w", id, ErrNotFound, err)
	}
	if err == nil {
		m, err = decodeManifest(b)
	}
	if err == nil && m.ID != id {
		err = &DamageError{Reason: fmt.Sprintf("it is the manifest of checkpoint %d", m.ID)}
	}
	if err != nil {
		return nil, "", fmt.Errorf("read checkpoint %d: %w", id, inFile(err, path))
	}
	return m, digestOf(b), nil
}

func digestOf(b []byte) string {
	d := sha256.Sum256(b)
	return hex.EncodeToString(d[:])
}

// readFile reads a file of a bounded size.
func (s *Store) readFile(path string, limit int64) ([]byte, error) {
	f, size, err := openSource(s.disk, path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	if size > limit {
		return nil, &DamageError{File: path, Offset: limit, Reason: fmt.Sprintf("it has %d bytes, at most %d can be", size, limit)}
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); err != nil && (!errors.Is(err, io.EOF) || n < len(b)) {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return b, nil
}

// writeFile writes a file whole or not at all, and makes it durable. It is there
// with an error when the folder could not be synced.
func (s *Store) writeFile(name, temp string, b []byte) error {
	from, to := s.path(temp), s.path(name)
	f, err := s.disk.Create(from)
	if err != nil {
		return explain("make "+from, err)
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = cmp.Or(err, f.Close()); err == nil {
		err = s.disk.Rename(from, to)
	}
	if err != nil {
		_ = s.disk.Remove(from) // the first error is the one to tell; Collect removes it otherwise
		return explain("write "+to, err)
	}
	return s.syncDir()
}

func (s *Store) syncDir() error {
	if err := s.disk.SyncDir(s.cfg.Dir); err != nil {
		return explain("sync "+s.cfg.Dir, err)
	}
	return nil
}
