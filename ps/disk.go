package ps

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A full disk is kept away from Raft and its store: while less than highWater
// is free no push is taken, and when even that is gone a reserve file is given
// up, so that term, vote and marks can still be written.
const (
	diskReserve   = 32 << 20
	diskHighWater = 64 << 20
	diskPoll      = time.Second
)

// disk watches the file system of a data directory.
type disk struct {
	dir     string
	reserve string // path of the reserve file
	free    func(dir string) (int64, error)
	why     atomic.Pointer[string] // no push is taken, because
	warn    func(msg string, args ...any)
}

func (s *Server) newDisk() *disk {
	return &disk{dir: s.cfg.Dir, reserve: filepath.Join(s.cfg.Dir, "reserve"), free: diskFree, warn: s.log.Warn}
}

func diskFree(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("look at the file system of %s: %w", dir, err)
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// Refuse says why no push can be taken now, or nothing.
func (d *disk) Refuse() string {
	if why := d.why.Load(); why != nil {
		return *why
	}
	return ""
}

// Run looks once a second until ctx ends.
func (d *disk) Run(ctx context.Context) error {
	tick := time.NewTicker(diskPoll)
	defer tick.Stop()
	for {
		if err := d.look(); err != nil {
			d.warn("disk not watched", "err", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// look keeps the reserve while there is room, and gives it up when there is
// none.
func (d *disk) look() error {
	free, err := d.free(d.dir)
	if err != nil {
		return err
	}
	switch {
	case free < diskHighWater/4:
		err = os.Remove(d.reserve)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	case free >= diskHighWater+diskReserve:
		err = d.fill()
	}
	switch full := free < diskHighWater; {
	case full && d.why.Load() == nil:
		why := fmt.Sprintf("the disk of %s has %d MiB left: free some, pushes go on at %d MiB", d.dir, free>>20, diskHighWater>>20)
		d.why.Store(&why)
		d.warn("no push is taken", "because", why)
	case !full && d.why.Swap(nil) != nil:
		d.warn("pushes are taken again", "dir", d.dir, "free", free)
	}
	return err
}

// fill makes the reserve file, with real blocks behind it.
func (d *disk) fill() error {
	if _, err := os.Stat(d.reserve); err == nil {
		return nil
	}
	tmp := d.reserve + ".tmp"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("reserve disk space: %w", err)
	}
	err = errors.Join(unix.Fallocate(int(f.Fd()), 0, 0, diskReserve), f.Close())
	if err == nil {
		err = os.Rename(tmp, d.reserve)
	}
	if err != nil {
		return fmt.Errorf("reserve %d MiB in %s: %w", diskReserve>>20, d.dir, errors.Join(err, os.Remove(tmp)))
	}
	return nil
}
