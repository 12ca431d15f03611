package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/sys/unix"
)

// Leftover is a folder of logs in memory.
type Leftover struct {
	Path  string
	Bytes int64
	InUse bool   // a process of its cluster has logs open
	Young bool   // its cluster may be just starting
	Gone  bool   // nobody can ever need it again
	Also  string // a temporary data directory that goes with it
}

// Places are where leftovers are looked for.
type Places struct {
	Memory    string        // the file system in memory, /dev/shm
	Temporary string        // where temporary data directories are made
	Age       time.Duration // a younger folder may be of a cluster that is just starting
}

// DefaultPlaces are those that the programs use.
func DefaultPlaces() Places {
	return Places{Memory: memoryFiles, Temporary: os.TempDir(), Age: time.Minute}
}

var (
	// A launch without a folder of its own draws eight letters, which never come again; on a folder the name is its hash, of sixteen digits.
	drawnLaunch = regexp.MustCompile(`^hcclps-(launch-[a-z2-7]{8})-s\d+$`)
	localName   = regexp.MustCompile(`^hcclps-(local-[0-9a-f]{16})$`)
)

// Leftovers lists the log folders in memory. Those of clusters in use have InUse; a folder is Gone when its cluster was
// a temporary one, which no start can find again. All others may belong to a server that is stopped and will be started
// again, which could not be without them.
func (p Places) Leftovers() ([]Leftover, error) {
	entries, err := os.ReadDir(p.Memory)
	if err != nil {
		return nil, fmt.Errorf("list logs in memory: %w", err)
	}
	temporary := p.temporaryLocals()
	busy := map[string]bool{} // clusters of which a process lives
	var out []Leftover
	var clusters []string
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), "hcclps-") {
			continue
		}
		l := Leftover{Path: filepath.Join(p.Memory, e.Name())}
		cluster := e.Name()
		if m := drawnLaunch.FindStringSubmatch(cluster); m != nil {
			cluster, l.Gone = m[1], true
		} else if m := localName.FindStringSubmatch(cluster); m != nil {
			l.Also = temporary[m[1]]
			cluster, l.Gone = m[1], l.Also != ""
		}
		if l.Bytes, l.InUse, err = measure(l.Path); err != nil {
			l.InUse = true // of another user, or going away just now: leave it alone
		}
		info, err := e.Info()
		l.Young = err != nil || time.Since(info.ModTime()) < p.Age
		busy[cluster] = busy[cluster] || l.InUse
		out, clusters = append(out, l), append(clusters, cluster)
	}
	for i := range out {
		// A server that is being started again has no lock for a moment; the others of its cluster have.
		out[i].InUse = busy[clusters[i]]
		out[i].Gone = out[i].Gone && !out[i].InUse && !out[i].Young
	}
	return out, nil
}

// temporaryLocals are the temporary data directories of clusters inside one process, by the cluster's name in memory.
func (p Places) temporaryLocals() map[string]string {
	out := map[string]string{}
	dirs, err := filepath.Glob(filepath.Join(p.Temporary, "hcclps-local-*"))
	if err != nil {
		return out
	}
	for _, d := range dirs {
		if abs, err := filepath.Abs(d); err == nil {
			out[fmt.Sprintf("local-%016x", xxhash.Sum64String(abs))] = abs
		}
	}
	return out
}

// measure adds up the files of a folder and tries their locks.
func measure(dir string) (bytes int64, inUse bool, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode().IsRegular() {
			bytes += info.Size()
		}
		if d.Name() == "LOCK" {
			locked, err := isLocked(path)
			inUse = inUse || locked
			return err
		}
		return nil
	})
	return bytes, inUse, err
}

// isLocked says whether a process holds a lock file.
func isLocked(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, fmt.Errorf("look at lock: %w", err)
	}
	defer f.Close() //nolint:errcheck // opened for reading
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}

// Clean removes what is Gone and returns it.
func (p Places) Clean() ([]Leftover, error) {
	all, err := p.Leftovers()
	if err != nil {
		return nil, err
	}
	var removed []Leftover
	var errs []error
	for _, l := range all {
		if !l.Gone {
			continue
		}
		err := os.RemoveAll(l.Path)
		if err == nil && l.Also != "" {
			err = os.RemoveAll(l.Also)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("remove leftover: %w", err))
			continue
		}
		removed = append(removed, l)
	}
	return removed, errors.Join(errs...)
}

// checkLeftovers looks for memory that dead processes still hold.
func checkLeftovers(_ context.Context, p *patient) []Finding {
	if p.Leftovers == nil {
		return nil
	}
	all, err := p.Leftovers()
	if err != nil {
		return []Finding{found(OK, fmt.Sprintf("not looked for: %v", err), "")}
	}
	var out []Finding
	for _, l := range all {
		switch {
		case l.Gone:
			out = append(out, found(Warn, fmt.Sprintf("%s takes %s of memory, its cluster is gone for good", l.Path, size(l.Bytes)), "doctor --clean removes it"))
		case !l.InUse && !l.Young:
			out = append(out, found(OK, fmt.Sprintf("%s takes %s of memory for a server that does not run, which needs it to start again; if it never will: rm -r %s", l.Path, size(l.Bytes), l.Path), ""))
		}
	}
	if out == nil {
		return []Finding{good("no abandoned logs in memory")}
	}
	return out
}
