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

	"golang.org/x/sys/unix"
)

// Leftover is a folder of logs in memory, a temporary data directory, or a file of the last operations of a worker.
type Leftover struct {
	Path  string
	Bytes int64
	InUse bool // a process of its cluster has files open
	Young bool // its cluster may be just starting
	Gone  bool // nobody can ever need it again
	Read  bool // by people, until then: the last operations of a worker that failed
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

// A cluster without a folder of its own draws eight letters, which never come again; one with a folder draws sixteen,
// and writes them down there.
var (
	drawnCluster = regexp.MustCompile(`^hcclps-((?:launch|bench|local)-[a-z2-7]{8})(?:-s\d+)?$`)
	temporaryDir = regexp.MustCompile(`^hcclps-(?:launch|local)-\d+$`)
	flightFile   = regexp.MustCompile(`^hcclps-flight-.+-\d+\.json$`)
)

// Leftovers lists the log folders in memory and the temporary data directories. Those of clusters in use have InUse; a
// folder is Gone when its cluster was a temporary one, which no start can find again. All others may belong to a server
// that is stopped and will be started again, which could not be without them.
func (p Places) Leftovers() ([]Leftover, error) {
	entries, err := os.ReadDir(p.Memory)
	if err != nil {
		return nil, fmt.Errorf("list logs in memory: %w", err)
	}
	busy := map[string]bool{} // clusters of which a process lives
	var out []Leftover
	var clusters []string
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), "hcclps-") {
			continue
		}
		l, cluster := p.look(p.Memory, e), e.Name()
		if m := drawnCluster.FindStringSubmatch(cluster); m != nil {
			cluster, l.Gone = m[1], true
		}
		busy[cluster] = busy[cluster] || l.InUse
		out, clusters = append(out, l), append(clusters, cluster)
	}
	for i := range out {
		// A server that is being started again has no lock for a moment; the others of its cluster have.
		out[i].InUse = busy[clusters[i]]
		out[i].Gone = out[i].Gone && !out[i].InUse && !out[i].Young
	}
	return append(out, p.temporaries()...), nil
}

// temporaries are the temporary data directories of clusters that are gone, and what workers have left that failed.
func (p Places) temporaries() (out []Leftover) {
	entries, err := os.ReadDir(p.Temporary)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		flight := e.Type().IsRegular() && flightFile.MatchString(e.Name())
		folder := e.IsDir() && temporaryDir.MatchString(e.Name())
		if !flight && !folder {
			continue
		}
		if l := p.look(p.Temporary, e); !l.InUse && !l.Young {
			l.Gone, l.Read = true, flight
			out = append(out, l)
		}
	}
	return out
}

// look measures a folder.
func (p Places) look(in string, e fs.DirEntry) Leftover {
	l := Leftover{Path: filepath.Join(in, e.Name())}
	var err error
	if l.Bytes, l.InUse, err = measure(l.Path); err != nil {
		l.InUse = true // of another user, or going away just now: leave it alone
	}
	info, err := e.Info()
	l.Young = err != nil || time.Since(info.ModTime()) < p.Age
	return l
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
		if err := os.RemoveAll(l.Path); err != nil {
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
	var flights []string
	for _, l := range all {
		switch {
		case l.Read:
			flights = append(flights, l.Path)
		case l.Gone:
			out = append(out, found(Warn, fmt.Sprintf("%s takes %s, its cluster is gone for good", l.Path, size(l.Bytes)), "doctor --clean removes it"))
		case !l.InUse && !l.Young:
			out = append(out, found(OK, fmt.Sprintf("%s takes %s of memory for a server that does not run, which needs it to start again; if it never will: rm -r %s", l.Path, size(l.Bytes), l.Path), ""))
		}
	}
	switch len(flights) {
	case 0:
	case 1:
		out = append(out, found(OK, flights[0]+" has the last operations of a worker that failed: ps-worker profile reads it, doctor --clean removes it", ""))
	default:
		out = append(out, found(OK, fmt.Sprintf("%d files such as %s have the last operations of workers that failed: ps-worker profile reads them, doctor --clean removes them", len(flights), flights[len(flights)-1]), ""))
	}
	if out == nil {
		return []Finding{good("no abandoned logs in memory")}
	}
	return out
}
