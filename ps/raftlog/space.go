package raftlog

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// CheckSpace reports whether the file system of dir, an existing folder, can take need more bytes, and, when it keeps its files in memory,
// whether the machine and the memory limit of this process can. The error says what is short and how to raise it.
func CheckSpace(dir string, need int64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("ask file system of %s for its size: %w", dir, err)
	}
	if free := int64(st.Bavail) * st.Bsize; free < need {
		return fmt.Errorf("log needs %d bytes in %s, %d are free: %w; %s", need, dir, free, ErrFull, spaceHint(dir))
	}
	if !inMemory(st) {
		return nil
	}
	room, what, err := FreeMemory()
	if err != nil {
		return err
	}
	if room < need {
		return fmt.Errorf("log needs %d bytes of memory in %s, %s leaves %d: %w; raise the memory limit, lower the log budget (LogBudget, --log-budget) or give a log directory (LogDir, --log-dir) on a disk", need, dir, what, room, ErrFull)
	}
	return nil
}

func inMemory(st unix.Statfs_t) bool {
	return st.Type == unix.TMPFS_MAGIC || st.Type == unix.RAMFS_MAGIC
}

// spaceHint tells how large the file system of dir is and how to get more.
func spaceHint(dir string) string {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "its file system does not tell its size"
	}
	total, free := int64(st.Blocks)*st.Bsize, int64(st.Bavail)*st.Bsize
	if !inMemory(st) {
		return fmt.Sprintf("its file system has %d bytes, %d free: free some, lower the log budget (LogBudget, --log-budget) or give another log directory (LogDir, --log-dir)", total, free)
	}
	return fmt.Sprintf("its tmpfs has %d bytes, %d free: mount -o remount,size=..., start the container with a larger --shm-size, lower the log budget (LogBudget, --log-budget) or give a log directory (LogDir, --log-dir) on a disk", total, free)
}

// FreeMemory is the memory in bytes that this process may still take, and whose it is: the least of what the machine and every control group
// above the process leave.
func FreeMemory() (free int64, of string, err error) { return memoryRoom(os.DirFS("/")) }

// memoryRoom is FreeMemory of a machine whose files are in root.
func memoryRoom(root fs.FS) (room int64, what string, err error) {
	kb, err := field(root, "proc/meminfo", "MemAvailable:")
	if err != nil {
		return 0, "", fmt.Errorf("read memory of the machine: %w", err)
	}
	room, what = kb<<10, "the machine"
	for _, dir := range groupDirs(root) {
		limit, used, ok := groupMemory(root, dir)
		if !ok {
			continue
		}
		// The kernel gives up clean file pages before it refuses memory.
		cache, err := field(root, path.Join(dir, "memory.stat"), "inactive_file")
		if err != nil {
			cache = 0
		}
		if left := limit - used + cache; left < room {
			room, what = max(left, 0), "the control group /"+dir
		}
	}
	return room, what, nil
}

// groupMemory reads limit and use of a control group, version 2 or 1.
func groupMemory(root fs.FS, dir string) (limit, used int64, ok bool) {
	for _, names := range [][2]string{{"memory.max", "memory.current"}, {"memory.limit_in_bytes", "memory.usage_in_bytes"}} {
		limit, err := number(root, path.Join(dir, names[0]))
		if err != nil {
			continue
		}
		if used, err := number(root, path.Join(dir, names[1])); err == nil {
			return limit, used, true
		}
	}
	return 0, 0, false
}

// groupDirs lists the folders of the process's memory control group and those above it.
func groupDirs(root fs.FS) []string {
	dirs := []string{"sys/fs/cgroup", "sys/fs/cgroup/memory"}
	b, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return dirs
	}
	for line := range strings.Lines(string(b)) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) != 3 {
			continue
		}
		base := dirs[0]
		switch {
		case part[0] == "0" && part[1] == "":
		case strings.Contains(","+part[1]+",", ",memory,"):
			base = dirs[1]
		default:
			continue
		}
		for p := path.Clean("/" + part[2]); p != "/"; p = path.Dir(p) {
			dirs = append(dirs, base+p)
		}
	}
	return dirs
}

func number(root fs.FS, name string) (int64, error) {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, fmt.Errorf("read limit: %w", err)
	}
	s := strings.TrimSpace(string(b))
	if s == "max" {
		return math.MaxInt64 / 2, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read limit %s: %w", filepath.Base(name), err)
	}
	return min(n, math.MaxInt64/2), nil
}

// field returns the number after a word at the start of a line.
func field(root fs.FS, name, key string) (int64, error) {
	f, err := root.Open(name)
	if err != nil {
		return 0, fmt.Errorf("open: %w", err)
	}
	defer f.Close() //nolint:errcheck // opened for reading
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if w := strings.Fields(sc.Text()); len(w) >= 2 && w[0] == key {
			n, err := strconv.ParseInt(w[1], 10, 64)
			if err != nil {
				return 0, fmt.Errorf("read %s of %s: %w", key, name, err)
			}
			return n, nil
		}
	}
	return 0, errors.New(name + " has no " + key)
}
