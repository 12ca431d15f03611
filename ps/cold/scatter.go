package cold

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// scatter tells the system that files of the value log are read here and there. Badger maps them into memory, and by default a read of one
// unit that is not cached brings a whole readahead with it, 128 KiB to 8 MiB. Where the cache is small those drive out each other, and a
// snapshot that read 80 MB of units was seen to read 30 GB from disk. It is advice: what goes wrong costs time alone.
func (s *Store) scatter() {
	s.scatterMu.Lock()
	defer s.scatterMu.Unlock()
	fresh := false
	for ; isThere(s.logName(s.nextLog)); s.nextLog++ {
		fresh = true
	}
	if !fresh {
		return
	}
	maps, err := mappings(s.cfg.Dir, ".vlog")
	for _, m := range maps {
		if _, _, no := unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, unix.MADV_RANDOM); no != 0 && err == nil {
			err = no // it may have been removed in the meantime
		}
	}
	if err != nil {
		s.cfg.Logger.Debug("cold rows are read with what lies around them", "dir", s.cfg.Dir, "err", err)
	}
}

// logName is Badger's name of a file of the value log.
func (s *Store) logName(n int) string { return filepath.Join(s.cfg.Dir, fmt.Sprintf("%06d.vlog", n)) }

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// mapping is addresses of this process.
type mapping struct{ start, end uintptr }

// mappings finds where the files of a folder with such names are mapped.
func mappings(dir, suffix string) (out []mapping, err error) {
	if dir, err = filepath.Abs(dir); err == nil {
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
	for lines := bufio.NewScanner(f); ; {
		if !lines.Scan() {
			return out, lines.Err()
		}
		// start-end flags offset device inode path
		where, _, _ := strings.Cut(lines.Text(), " ")
		_, path, ok := strings.Cut(lines.Text(), dir+"/")
		if !ok || !strings.HasSuffix(path, suffix) {
			continue
		}
		from, to, _ := strings.Cut(where, "-")
		a, errA := strconv.ParseUint(from, 16, 64)
		b, errB := strconv.ParseUint(to, 16, 64)
		if errA == nil && errB == nil {
			out = append(out, mapping{uintptr(a), uintptr(b)})
		}
	}
}
