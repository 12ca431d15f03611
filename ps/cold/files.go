package cold

import (
	"bufio"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// spot is where the value of a segment was last seen: a file of the value log, and a place in it. File 0: nowhere.
type spot struct{ file, at uint32 }

// files reads units out of the value log by itself. Badger maps its files into memory: a read of what is not cached there is a page fault, which holds up a
// thread of Go's scheduler, one unit after another. Here the system is told of all units of a call first, and reads them at the same time.
//
// What it knows is a hint. Badger moves values and removes files as it likes; a unit is taken only if its number and its checksum, which is over the key of
// its segment too, are right. All else is read through Badger.
type files struct {
	dir    string
	logger *slog.Logger

	mu   sync.RWMutex        // held for reading by who reads
	next int                 // the first file that was not seen yet
	open map[uint32]vlogFile // by number
}

// vlogFile is a file of the value log: a descriptor of our own, and where Badger has mapped it.
type vlogFile struct {
	fd         int
	start, end uintptr
}

func newFiles(dir string, logger *slog.Logger) *files {
	return &files{dir: dir, logger: logger, next: 1, open: map[uint32]vlogFile{}}
}

// where is the spot of bytes that Badger shows.
func (f *files) where(shown []byte) spot {
	addr := reflect.ValueOf(shown).Pointer()
	f.mu.RLock()
	defer f.mu.RUnlock()
	for number, l := range f.open {
		if l.start <= addr && addr < l.end {
			return spot{number, uint32(addr - l.start)}
		}
	}
	return spot{}
}

// look opens files that are new, and closes those that are gone. What goes wrong costs time alone.
func (f *files) look() {
	f.mu.RLock()
	fresh := isThere(filepath.Join(f.dir, logName(f.next)))
	f.mu.RUnlock()
	if !fresh {
		return // and nobody who reads has been waited for
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for isThere(filepath.Join(f.dir, logName(f.next))) {
		f.next++
	}
	f.refresh()
}

// removed looks for files anew, and returns what says of a spot that its file is gone.
func (f *files) removed() func(spot) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refresh()
	there := map[uint32]bool{0: true}
	for number := range f.open {
		there[number] = true
	}
	return func(at spot) bool { return !there[at.file] }
}

func (f *files) refresh() {
	if err := f.reopen(); err != nil {
		f.logger.Debug("cold rows are read one by one", "dir", f.dir, "err", err)
	}
}

func (f *files) reopen() error {
	maps, err := mappings(f.dir, ".vlog")
	if err != nil {
		return err
	}
	for number, l := range f.open {
		if _, ok := maps[number]; !ok {
			_ = unix.Close(l.fd)
			delete(f.open, number)
		}
	}
	for number, m := range maps {
		l, ok := f.open[number]
		if !ok {
			if l.fd, err = unix.Open(filepath.Join(f.dir, logName(int(number))), unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
				return fmt.Errorf("open %s: %w", logName(int(number)), err)
			}
			_ = unix.Fadvise(l.fd, 0, 0, unix.FADV_RANDOM) // a unit brings nothing else with it
		}
		if int(number)+1 < f.next { // it is full: until then, what is read has just been written
			// Badger's own reads, which are few, shall not bring the system's whole readahead with them either: that can be megabytes.
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, unix.MADV_RANDOM)
		}
		l.start, l.end = m.start, m.end
		f.open[number] = l
	}
	return nil
}

// close forgets all files.
func (f *files) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.open {
		_ = unix.Close(l.fd)
	}
	clear(f.open)
}

// wanted is a unit to be read: its number, the key of its segment, where it was seen, and where it goes.
type wanted struct {
	id  uint32
	key []byte
	at  spot
	to  []byte
}

// read reads units, and returns those that are not where they were seen.
func (f *files) read(units []wanted) (missing []wanted) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	var late []wanted
	for _, u := range units {
		l, ok := f.open[u.at.file]
		switch {
		case !ok:
			missing = append(missing, u)
		case !l.read(u, unix.RWF_NOWAIT):
			_ = unix.Fadvise(l.fd, int64(u.at.at), int64(entryBytes+len(u.to)), unix.FADV_WILLNEED)
			late = append(late, u)
		}
	}
	for _, u := range late {
		if !f.open[u.at.file].read(u, 0) {
			missing = append(missing, u)
		}
	}
	return missing
}

// ahead tells the system of bytes that will be read soon.
func (f *files) ahead(at spot, n int) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	l, ok := f.open[at.file]
	if !ok {
		return
	}
	const atOnce = 1 << 20 // it takes no more than its readahead from one call
	for from, end := int64(at.at), int64(at.at)+int64(n); from < end; from += atOnce {
		_ = unix.Fadvise(l.fd, from, min(atOnce, end-from), unix.FADV_WILLNEED)
	}
}

// whole fills value with what is at a spot.
func (f *files) whole(at spot, value []byte) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	l, ok := f.open[at.file]
	if !ok {
		return false
	}
	n, err := unix.Pread(l.fd, value, int64(at.at))
	return err == nil && n == len(value)
}

// read says whether it has found a unit.
func (l vlogFile) read(u wanted, flags int) bool {
	var entry [entryBytes]byte
	n, err := unix.Preadv2(l.fd, [][]byte{entry[:], u.to}, int64(u.at.at), flags)
	return err == nil && n == len(entry)+len(u.to) && le.Uint32(entry[:]) == u.id && le.Uint32(entry[4:]) == checksum(u.key, u.id, u.to)
}

// logName is Badger's name of a file of the value log.
func logName(n int) string { return fmt.Sprintf("%06d.vlog", n) }

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// mapping is addresses of this process.
type mapping struct{ start, end uintptr }

// mappings finds where the numbered files of a folder are mapped.
func mappings(dir, suffix string) (map[uint32]mapping, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("find mapped files: %w", err)
	}
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil, fmt.Errorf("find mapped files: %w", err)
	}
	defer func() { _ = f.Close() }()
	out := map[uint32]mapping{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		// start-end flags offset device inode path
		where, rest, _ := strings.Cut(lines.Text(), " ")
		_, name, ok := strings.Cut(rest, dir+"/")
		name, isLog := strings.CutSuffix(name, suffix)
		if fields := strings.Fields(rest); !ok || !isLog || len(fields) < 2 || strings.Trim(fields[1], "0") != "" {
			continue // another file, or a part of one that is not its beginning
		}
		from, to, _ := strings.Cut(where, "-")
		start, errStart := strconv.ParseUint(from, 16, 64)
		end, errEnd := strconv.ParseUint(to, 16, 64)
		number, errNumber := strconv.ParseUint(name, 10, 32)
		if errStart == nil && errEnd == nil && errNumber == nil {
			out[uint32(number)] = mapping{uintptr(start), uintptr(end)}
		}
	}
	return out, lines.Err()
}
