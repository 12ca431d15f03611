package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	badger "github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"golang.org/x/sys/unix"
)

// Files in the folder of a catalogue. Badger may end the process over a damaged
// file of its own, in a goroutine where nobody can prevent it. So the CRC of each
// file is written when the catalogue is closed, and what does not fit at the next
// Open is removed: what was not closed is built anew.
const (
	catalogueFolder = "chunks" // Badger's
	catalogueSums   = "chunks.json"
	catalogueLock   = "LOCK"
)

// openCatalogue opens or makes the catalogue in a folder. One that another process
// has is ErrInUse.
func openCatalogue(folder string, log *slog.Logger) (*badgerCatalogue, error) {
	fail := func(err error) (*badgerCatalogue, error) {
		return nil, fmt.Errorf("open catalogue %s: %w", folder, err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fail(err)
	}
	lock, err := os.OpenFile(filepath.Join(folder, catalogueLock), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return fail(err)
	}
	c := &badgerCatalogue{folder: folder, log: log, lock: lock, turn: make(chan struct{}, 1)}
	if err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		err = fmt.Errorf("%w by another process", ErrInUse)
	}
	if err == nil {
		err = c.open()
	}
	if err != nil {
		return fail(errors.Join(err, lock.Close()))
	}
	return c, nil
}

// open opens the database that was closed, or an empty one.
func (c *badgerCatalogue) open() error {
	dir := filepath.Join(c.folder, catalogueFolder)
	err := c.checkSums()
	if rerr := removeFile(osDisk{}, filepath.Join(c.folder, catalogueSums)); rerr != nil {
		return rerr
	}
	if err == nil {
		if err = c.openDB(dir); err == nil {
			return nil
		}
	}
	if !errors.Is(err, os.ErrNotExist) {
		c.log.Warn("the catalogue of chunks is built anew", "dir", dir, "err", err)
	}
	c.failed.Store(false)
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return err
	}
	return c.openDB(dir)
}

func (c *badgerCatalogue) openDB(dir string) (err error) {
	o := badger.DefaultOptions(dir)
	o.Logger = catalogueLogger{c}
	o.Compression = options.None
	o.BlockCacheSize, o.IndexCacheSize = 0, 0
	o.ChecksumVerificationMode = options.OnTableRead
	o.DetectConflicts, o.MetricsEnabled = false, false
	o.MemTableSize, o.NumMemtables = 16<<20, 2
	o.ValueLogFileSize, o.NumGoroutines, o.NumCompactors = 16<<20, 1, 2
	if c.db, err = badger.Open(o); err != nil {
		return err
	}
	if err = c.load(); err == nil && c.failed.Load() {
		err = errors.New("the database reported an error")
	}
	if err != nil {
		return errors.Join(err, c.db.Close())
	}
	return nil
}

// close closes the database, and says what it consists of. One that cannot be
// trusted is removed.
func (c *badgerCatalogue) close() error {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	err := c.db.Close()
	if c.failed.Load() {
		err = os.RemoveAll(filepath.Join(c.folder, catalogueFolder))
	} else if err == nil {
		err = c.writeSums()
	}
	if err = errors.Join(err, c.lock.Close()); err != nil {
		return fmt.Errorf("close catalogue %s: %w", c.folder, err)
	}
	return nil
}

// fileSum is a file of the database.
type fileSum struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	CRC   uint32 `json:"crc32c"`
}

func (c *badgerCatalogue) sums() ([]fileSum, error) {
	dir := filepath.Join(c.folder, catalogueFolder)
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	all := []fileSum{}
	for _, d := range names {
		f, err := os.Open(filepath.Join(dir, d.Name()))
		if err != nil {
			return nil, err
		}
		crc := crc32.New(castagnoli)
		n, err := io.CopyBuffer(crc, f, make([]byte, 1<<20))
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		all = append(all, fileSum{d.Name(), n, crc.Sum32()})
	}
	return all, nil
}

func (c *badgerCatalogue) writeSums() error {
	all, err := c.sums()
	if err != nil {
		return err
	}
	b, err := json.Marshal(all)
	if err != nil {
		return err
	}
	// It need not be durable: what does not fit is built anew.
	return os.WriteFile(filepath.Join(c.folder, catalogueSums), b, 0o644)
}

// checkSums says why the database cannot be opened.
func (c *badgerCatalogue) checkSums() error {
	b, err := os.ReadFile(filepath.Join(c.folder, catalogueSums))
	if errors.Is(err, os.ErrNotExist) {
		if _, serr := os.Stat(filepath.Join(c.folder, catalogueFolder)); serr == nil {
			return errors.New("it was not closed")
		}
	}
	if err != nil {
		return err
	}
	var want []fileSum
	if err := json.Unmarshal(b, &want); err != nil {
		return fmt.Errorf("%s: %w", catalogueSums, err)
	}
	got, err := c.sums()
	if err != nil {
		return err
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			return fmt.Errorf("its files are not those that were closed: %d, want %d: number %d differs", len(got), len(want), i)
		}
	}
	return nil
}
