package checkpoint

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// disk is what a store does to the file system. Tests put one in its place that
// fails or stops at the n-th operation.
type disk interface {
	Create(name string) (file, error) // new, for writing at its end; must not exist
	Open(name string) (source, error)
	List(dir string) ([]string, error)
	Rename(from, to string) error // to must not exist
	Remove(name string) error
	SyncDir(name string) error
}

type file interface {
	io.WriteCloser
	Sync() error
}

type source interface {
	io.ReaderAt
	io.Closer
	Size() (int64, error)
}

// osDisk is the real one.
type osDisk struct{}

func (osDisk) Create(name string) (file, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	return &osFile{File: f}, nil
}

func (osDisk) Open(name string) (source, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return osSource{f}, nil
}

func (osDisk) List(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	names, err := d.Readdirnames(-1)
	return names, errors.Join(err, d.Close())
}

// Rename falls back to a link where a rename cannot refuse to replace, as on NFS.
func (osDisk) Rename(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		if err := os.Link(from, to); err != nil {
			return err
		}
		return os.Remove(from)
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

func (osDisk) Remove(name string) error { return os.Remove(name) }

func (osDisk) SyncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// writeback is after how many bytes the system is told to begin writing them,
// so that a sync at the end does not find all of them.
const writeback = 16 << 20

type osFile struct {
	*os.File
	end, told int64
}

func (f *osFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	f.end += int64(n)
	if f.end-f.told >= writeback {
		// A hint: file systems that do not know it are as good without.
		_ = unix.SyncFileRange(int(f.Fd()), f.told, f.end-f.told, unix.SYNC_FILE_RANGE_WRITE)
		f.told = f.end
	}
	return n, err
}

type osSource struct{ *os.File }

func (s osSource) Size() (int64, error) {
	info, err := s.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
