package raftlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"hcclps/ps/corrupt"
)

const (
	segSuffix = ".seg"
	tmpSuffix = ".tmp"
)

// makeDir creates a folder of ours alone, or makes an existing one private.
func makeDir(dir string) error {
	if dir == "" {
		return errors.New("no directory given")
	}
	st, err := os.Lstat(dir)
	if errors.Is(err, os.ErrNotExist) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
		return syncDir(filepath.Dir(dir))
	}
	if err != nil {
		return fmt.Errorf("look at directory: %w", err)
	}
	if !st.IsDir() {
		return fmt.Errorf("%s is not a directory", dir)
	}
	if st.Mode().Perm()&0o077 != 0 {
		if err := os.Chmod(dir, 0o700); err != nil {
			return fmt.Errorf("make directory private (does it belong to another user?): %w", err)
		}
	}
	return nil
}

// lockDir takes the exclusive lock of a folder. It goes when the file is closed or the process dies.
func lockDir(dir string) (*os.File, error) {
	path := filepath.Join(dir, lockName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		closeFiles(f)
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s: %w; stop that one or give this one a directory of its own", dir, ErrInUse)
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}

// closeFiles closes what is open; there is nothing to flush.
func closeFiles(fs ...*os.File) {
	for _, f := range fs {
		if f != nil {
			_ = f.Close()
		}
	}
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open directory: %w", err)
	}
	defer closeFiles(d)
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return nil
}

func segPath(dir string, no uint32) string {
	return filepath.Join(dir, fmt.Sprintf("%08d%s", no, segSuffix))
}

// listSegments returns the numbers of the segment files in dir and removes unfinished ones.
func listSegments(dir string) (map[uint32]bool, error) {
	es, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list directory: %w", err)
	}
	nos := map[uint32]bool{}
	for _, e := range es {
		if strings.HasSuffix(e.Name(), tmpSuffix) {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return nil, fmt.Errorf("remove unfinished segment: %w", err)
			}
			continue
		}
		name, ok := strings.CutSuffix(e.Name(), segSuffix)
		if !ok {
			continue
		}
		no, err := strconv.ParseUint(name, 10, 32)
		if err != nil || filepath.Base(segPath(dir, uint32(no))) != e.Name() {
			return nil, &corrupt.Error{File: filepath.Join(dir, e.Name()), Reason: "not a name of a segment"}
		}
		nos[uint32(no)] = true
	}
	return nos, nil
}

// createSegment makes a file of allocated zero bytes under its final name. It appears whole or not at all, and is
// never sparse: touching a hole of a full tmpfs through a mapping would kill the process.
func createSegment(dir string, no uint32, size int64) (*segment, error) {
	path := segPath(dir, no)
	tmp := path + tmpSuffix
	f, err := os.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create segment: %w", err)
	}
	err = allocate(f, size, dir)
	if err == nil {
		if err = os.Rename(tmp, path); err != nil {
			err = fmt.Errorf("create segment: %w", err)
		}
	}
	if err != nil {
		closeFiles(f)
		return nil, errors.Join(err, os.Remove(tmp))
	}
	return mapSegment(f, path, no, size)
}

// openSegment maps an existing file, whose size must be the recorded one: touching bytes past its end would kill the
// process. Holes, as a copy may have, are filled.
func openSegment(dir string, no uint32, size int64) (*segment, error) {
	path := segPath(dir, no)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("open segment: %w", err)
	}
	st, err := f.Stat()
	if err == nil && (st.Size() != size || !st.Mode().IsRegular()) {
		err = &corrupt.Error{File: path, Offset: st.Size(), Reason: fmt.Sprintf("file has %d bytes, %d are recorded", st.Size(), size)}
	}
	if err == nil {
		err = allocate(f, size, dir)
	}
	if err != nil {
		closeFiles(f)
		return nil, err
	}
	return mapSegment(f, path, no, size)
}

func mapSegment(f *os.File, path string, no uint32, size int64) (*segment, error) {
	m, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		closeFiles(f)
		return nil, fmt.Errorf("map segment %s: %w", path, err)
	}
	return &segment{no: no, path: path, file: f, m: m, low: len(m)}, nil
}

// allocate gives every byte of the file a place.
func allocate(f *os.File, size int64, dir string) error {
	for {
		err := unix.Fallocate(int(f.Fd()), 0, 0, size)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
			return fmt.Errorf("allocate %d bytes for %s: %w: %w; %s", size, f.Name(), ErrFull, err, spaceHint(dir))
		case err != nil:
			return fmt.Errorf("allocate %d bytes for %s: %w", size, f.Name(), err)
		}
		return nil
	}
}

// sync makes the file's bytes durable, those written through the mapping too.
func (g *segment) sync() error {
	if g.file == nil {
		return nil
	}
	if err := unix.Fdatasync(int(g.file.Fd())); err != nil {
		return fmt.Errorf("sync segment %s: %w", g.path, err)
	}
	return nil
}

// prefault touches every page now, not during an append.
func (g *segment) prefault() error {
	if err := unix.Madvise(g.m, unix.MADV_POPULATE_WRITE); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("prefault segment %s: %w", g.path, err)
	}
	return nil // EINVAL: a kernel before 5.14
}

// ours reports whether path still names the open file.
func ours(f *os.File, path string) error {
	here, err := f.Stat()
	if err != nil {
		return fmt.Errorf("look at %s: %w", path, err)
	}
	there, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s was deleted while in use", path)
	}
	if err != nil {
		return fmt.Errorf("look at %s: %w", path, err)
	}
	if !os.SameFile(here, there) {
		return fmt.Errorf("%s was replaced while in use", path)
	}
	return nil
}
