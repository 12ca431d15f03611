package snapshot

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// disk is what the store does to the file system. Tests put one in its place that fails or stops at the n-th operation.
type disk interface {
	Create(name string) (file, error) // new, for appending; must not exist
	Append(name string) (file, error) // existing, at its end
	Rename(from, to string) error
	Remove(name string) error
	SyncDir(name string) error
}

type file interface {
	Write(b []byte) (int, error)
	Sync() error
	Truncate(size int64) error
	Close() error
}

// osDisk is the real one.
type osDisk struct{}

func (osDisk) Create(name string) (file, error) {
	return os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
}

func (osDisk) Append(name string) (file, error) {
	return os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
}

func (osDisk) Rename(from, to string) error { return os.Rename(from, to) }

func (osDisk) Remove(name string) error { return os.Remove(name) }

func (osDisk) SyncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// explain gives a full disk its name.
func explain(op string, err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("%s: %w (free some, or move the data directory): %w", op, ErrFull, err)
	}
	return fmt.Errorf("%s: %w", op, err)
}
