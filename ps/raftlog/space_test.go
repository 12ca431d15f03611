package raftlog

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"
)

func TestMemoryRoom(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	mem := file("MemTotal: 100 kB\nMemAvailable:    1000 kB\n")
	for name, c := range map[string]struct {
		fs   fstest.MapFS
		room int64
		what string
	}{
		"machine": {fstest.MapFS{"proc/meminfo": mem}, 1000 << 10, "machine"},
		"group, version 2": {fstest.MapFS{
			"proc/meminfo": mem, "proc/self/cgroup": file("0::/a/b\n"),
			"sys/fs/cgroup/a/b/memory.max": file("max\n"), "sys/fs/cgroup/a/b/memory.current": file("5000\n"),
			"sys/fs/cgroup/a/memory.max": file("70000\n"), "sys/fs/cgroup/a/memory.current": file("5000\n"),
			"sys/fs/cgroup/a/memory.stat": file("anon 1\ninactive_file 1000\n"),
		}, 66000, "/sys/fs/cgroup/a"},
		"container's root": {fstest.MapFS{
			"proc/meminfo": mem, "proc/self/cgroup": file("0::/\n"),
			"sys/fs/cgroup/memory.max": file("6000\n"), "sys/fs/cgroup/memory.current": file("7000\n"),
		}, 0, "/sys/fs/cgroup"},
		"group, version 1": {fstest.MapFS{
			"proc/meminfo": mem, "proc/self/cgroup": file("5:cpu:/x\n4:memory:/docker\n"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes": file("9223372036854771712\n"), "sys/fs/cgroup/memory/memory.usage_in_bytes": file("1\n"),
			"sys/fs/cgroup/memory/docker/memory.limit_in_bytes": file("20000\n"), "sys/fs/cgroup/memory/docker/memory.usage_in_bytes": file("8000\n"),
		}, 12000, "memory/docker"},
	} {
		room, what, err := memoryRoom(c.fs)
		if err != nil || room != c.room || !strings.Contains(what, c.what) {
			t.Errorf("%s: %d bytes of %s, %v; want %d of %s", name, room, what, err, c.room, c.what)
		}
	}
	if _, _, err := memoryRoom(fstest.MapFS{}); err == nil {
		t.Error("no meminfo, no error")
	}
}

func TestCheckSpace(t *testing.T) {
	for _, dir := range []string{t.TempDir(), tempDir(t)} {
		must(t, CheckSpace(dir, 1<<20))
		if err := CheckSpace(dir, 1<<60); !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "--log-budget") {
			t.Errorf("an exabyte fits: %v", err)
		}
	}
	if err := CheckSpace(filepath.Join(tempDir(t), "none"), 1); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// TestFullTmpfsNeedsRoot fills a small tmpfs: opening, growing and writing to what is allocated.
func TestFullTmpfsNeedsRoot(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting a tmpfs needs root")
	}
	dir := tempDir(t)
	if err := unix.Mount("raftlog-test", dir, "tmpfs", 0, "size=6m"); err != nil {
		t.Skip("mounting a tmpfs is not allowed here:", err)
	}
	t.Cleanup(func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	n := newNode(t, func(c *Config) { c.Dir, c.Prefault = filepath.Join(dir, "log"), true })
	n.close()
	n.cfg.Budget = 16 << 20
	err := n.open()
	if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "remount,size=") || !strings.Contains(err.Error(), "--shm-size") {
		t.Fatalf("opening: %v", err)
	}
	n.cfg.Budget = testBudget
	n.mustOpen()
	// The rest of the file system is taken by others.
	must(t, errors.Join(os.WriteFile(filepath.Join(dir, "other"), make([]byte, 1<<20), 0o600)))
	_ = os.WriteFile(filepath.Join(dir, "other2"), make([]byte, 2<<20), 0o600)
	last := uint64(0)
	for err = nil; err == nil && last < 1000; last++ {
		err = n.log.StoreLog(entry(last+1, 1, 100_000))
	}
	if !errors.Is(err, ErrFull) || !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "remount,size=") {
		t.Fatalf("growing: %v", err)
	}
	n.want(1, last-1)
	must(t, n.log.DeleteRange(1, last-3)) // the log goes on when there is room again
	n.put(last, last+5, 1, 100_000)
	n.reopen()
	got, _ := n.log.LastIndex()
	if got != last+5 {
		t.Fatalf("log ends at %d, want %d", got, last+5)
	}
	n.log.cfg.Most = 16 << 20
	if err := n.log.Grow(16 << 20); !errors.Is(err, ErrFull) {
		t.Fatalf("growing the budget: %v", err)
	}
	if _, budget := n.log.Bytes(); budget != testBudget {
		t.Fatalf("the budget is %d bytes after it could not grow", budget)
	}
}
