package cold

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Bytes that must be left on disk. They are more than is written, since others take some meanwhile; what makes room needs less of it.
const (
	forWrite = 2 * logFile // besides the units
	forSweep = logFile
	forDrop  = 16 * memtable
)

// free is the bytes that the file system of a folder has for whoever is not root.
func free(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(min(st.Bavail, 1<<40)) * st.Bsize, nil
}

// writable says why so many bytes must not be written, or nothing. Badger writes into mapped, sparse files: where the disk is full it does not return
// an error, the system ends the process (SIGBUS).
func (s *Store) writable(bytes int64) error {
	if err := s.broken.Load(); err != nil {
		return *err
	}
	s.mu.RLock()
	closed := s.closed
	s.mu.RUnlock()
	if closed {
		return ErrClosed
	}
	have, err := s.cfg.Free(s.cfg.Dir)
	if err != nil {
		return fmt.Errorf("look at the disk of %s: %w", s.cfg.Dir, err)
	}
	if have < bytes {
		return fmt.Errorf("the disk of %s has %d bytes left, and cold rows need %d: make room there, or give the server another folder: %w", s.cfg.Dir, have, bytes, unix.ENOSPC)
	}
	return nil
}
