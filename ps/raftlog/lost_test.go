package raftlog

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/ps/corrupt"
)

// spoil changes one byte of a file.
func spoil(t testing.TB, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer closeFiles(f)
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x10
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
}

func firstSegment(n *node) *segment {
	n.log.mu.RLock()
	defer n.log.mu.RUnlock()
	return n.log.segs[0]
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestLostWhileStopped: every way in which a log can go missing is refused with the cause, twice, and the refusal
// changes nothing: with the right files back the log opens.
func TestLostWhileStopped(t *testing.T) {
	for name, c := range map[string]struct {
		harm func(n *node, older string)
		kind error
		says string
	}{
		"directory deleted": {func(n *node, _ string) { must(n.tb, os.RemoveAll(n.cfg.Dir)) }, ErrLost, "directory is gone"},
		"files deleted": {func(n *node, _ string) {
			must(n.tb, os.RemoveAll(n.cfg.Dir))
			must(n.tb, os.Mkdir(n.cfg.Dir, 0o700))
		}, ErrLost, "is gone"},
		"one segment deleted": {func(n *node, _ string) { must(n.tb, os.Remove(segPath(n.cfg.Dir, 2))) }, ErrLost, "00000002.seg is gone"},
		"older copy put back": {func(n *node, older string) { copyDir(n.tb, filepath.Join(older, "log"), n.cfg.Dir) }, ErrLost, "older copy"},
		"id changed": {func(n *node, _ string) {
			for no := range uint32(4) {
				spoil(n.tb, segPath(n.cfg.Dir, no), 16)
			}
		}, ErrLost, "belongs to log"},
		"store deleted": {func(n *node, _ string) { must(n.tb, os.RemoveAll(n.storeDir())) }, ErrLost, "has no log id"},
		"older store put back": {func(n *node, older string) {
			copyDir(n.tb, filepath.Join(older, "store"), n.storeDir())
		}, corrupt.Err, "older copy of the store"},
		"database older than its witness": {func(n *node, older string) {
			copyDir(n.tb, filepath.Join(older, "store", "badger"), filepath.Join(n.storeDir(), "badger"))
		}, corrupt.Err, "lost its newest writes"},
		"database deleted": {func(n *node, _ string) {
			must(n.tb, os.RemoveAll(filepath.Join(n.storeDir(), "badger")))
		}, corrupt.Err, "database is gone"},
		"witness deleted": {func(n *node, _ string) {
			must(n.tb, os.Remove(filepath.Join(n.storeDir(), witnessName)))
		}, corrupt.Err, witnessName},
		"segment truncated": {func(n *node, _ string) {
			must(n.tb, os.Truncate(segPath(n.cfg.Dir, 3), 5000))
		}, corrupt.Err, "00000003.seg at offset 5000"},
		"payload changed":    {func(n *node, _ string) { spoil(n.tb, segPath(n.cfg.Dir, 3), testSegment-4096) }, corrupt.Err, "00000003.seg at offset 1040512: payload of entry 2"},
		"descriptor changed": {func(n *node, _ string) { spoil(n.tb, segPath(n.cfg.Dir, 3), 64*5+8) }, corrupt.Err, "00000003.seg at offset 320"},
		"header changed":     {func(n *node, _ string) { spoil(n.tb, segPath(n.cfg.Dir, 3), 33) }, corrupt.Err, "00000003.seg at offset 0"},
		"segment zeroed": {func(n *node, _ string) {
			must(n.tb, os.WriteFile(segPath(n.cfg.Dir, 3), make([]byte, testSegment), 0o600))
		}, ErrLost, "ends at entry 0"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			must(t, n.store.Group(7).SetUint64([]byte("CurrentTerm"), 1))
			n.put(1, 50, 1, 4000)
			n.close()
			older, newer := tempDir(t), tempDir(t)
			copyDir(t, n.root, older)
			n.mustOpen()
			must(t, n.store.Group(7).SetUint64([]byte("CurrentTerm"), 2))
			n.put(51, 100, 2, 4000)
			n.close()
			copyDir(t, n.root, newer)
			c.harm(n, older)
			for range 2 {
				if err := n.open(); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
					if err == nil {
						t.Fatal("opened")
					}
					t.Fatalf("got %v, want %v saying %q", err, c.kind, c.says)
				}
			}
			copyDir(t, newer, n.root)
			n.mustOpen()
			n.want(1, 100)
			n.wantEntry(100, 2, 4000)
		})
	}
}

func TestCopyWithOtherEntriesIsLost(t *testing.T) {
	n := newNode(t)
	n.put(1, 50, 1, 4000)
	n.close()
	older := tempDir(t)
	copyDir(t, n.cfg.Dir, older)
	n.mustOpen()
	n.put(40, 50, 2, 4000)
	n.close()
	copyDir(t, older, n.cfg.Dir)
	if err := n.open(); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "entry 50 is not the one") {
		t.Fatalf("got %v, want ErrLost for entry 50", err)
	}
}

// TestLostWhileRunning: Run notices within a second that files went away.
func TestLostWhileRunning(t *testing.T) {
	for name, harm := range map[string]func(n *node){
		"directory deleted": func(n *node) { must(n.tb, os.RemoveAll(n.cfg.Dir)) },
		"directory replaced": func(n *node) {
			must(n.tb, os.Rename(n.cfg.Dir, n.cfg.Dir+".old"))
			must(n.tb, os.Mkdir(n.cfg.Dir, 0o700))
		},
		"one segment deleted": func(n *node) { must(n.tb, os.Remove(segPath(n.cfg.Dir, 1))) },
		"segment replaced": func(n *node) {
			path := segPath(n.cfg.Dir, 3)
			b, err := os.ReadFile(path)
			must(n.tb, errors.Join(err, os.Remove(path), os.WriteFile(path, b, 0o600)))
		},
		"lock deleted": func(n *node) { must(n.tb, os.Remove(filepath.Join(n.cfg.Dir, lockName))) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t)
				n.put(1, 10, 1, 4000)
				harm(n)
				err := n.log.Run(t.Context())
				var lost *LostError
				if !errors.As(err, &lost) || lost.Group != 7 || lost.Dir != n.cfg.Dir {
					t.Fatalf("got %v, want a LostError", err)
				}
				if err := n.log.StoreLog(entry(11, 1, 10)); !errors.Is(err, ErrLost) {
					t.Fatalf("a failed log took a write: %v", err)
				}
				n.wantEntry(10, 1, 4000)
			})
		})
	}
}

func TestRunMarksOnceASecondAndAtSegments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- n.log.Run(ctx) }()
		stored := func() mark {
			b, err := n.store.read(n.log.key("mark"))
			if errors.Is(err, ErrNotFound) {
				return mark{}
			}
			must(t, err)
			m, err := decodeMark(b)
			must(t, err)
			return m
		}
		n.put(1, 3, 1, 1000)
		synctest.Wait() // the first segment was begun
		n.put(4, 5, 1, 1000)
		before := stored()
		<-time.After(markEvery + time.Millisecond)
		synctest.Wait()
		after := stored()
		if before.last > 3 || after.last != 5 || after.first != 1 {
			t.Errorf("mark went from %+v to %+v", before, after)
		}
		stop()
		must(t, <-done)
	})
}

func TestFailedSyncIsFinal(t *testing.T) {
	n := newNode(t, func(c *Config) { c.Sync = true })
	n.put(1, 5, 1, 1000)
	must(t, n.log.putMark())
	closeFiles(firstSegment(n).file)
	err1 := n.log.StoreLog(entry(6, 1, 1000))
	err2 := n.log.StoreLog(entry(6, 1, 1000))
	if err1 == nil || err2 == nil || err1.Error() != err2.Error() {
		t.Fatalf("got %v, then %v", err1, err2)
	}
	if err := n.log.Run(t.Context()); err == nil || err.Error() != err1.Error() {
		t.Fatalf("Run returned %v", err)
	}
	if err := n.log.DeleteRange(1, 2); err == nil {
		t.Fatal("a failed log was truncated")
	}
	n.reopen()
	last, _ := n.log.LastIndex()
	if last < 5 {
		t.Fatalf("log ends at %d", last)
	}
}

func TestCrashKeepsWhatWasThere(t *testing.T) {
	n := newNode(t)
	n.put(1, 30, 1, 9000)
	n.store.Freeze()
	n.put(31, 60, 1, 90_000) // grows, too
	n.wantEntry(60, 1, 90_000)
	must(t, n.log.DeleteRange(1, 40))
	must(t, n.log.DeleteRange(55, 60))
	must(t, n.store.Set("late", []byte("x")))
	if v, err := n.store.Get("late"); err != nil || !bytes.Equal(v, []byte("x")) {
		t.Fatal(v, err)
	}
	n.close()
	n.mustOpen()
	n.want(1, 30)
	n.wantEntry(1, 1, 9000)
	n.wantEntry(30, 1, 9000)
	if _, err := n.store.Get("late"); !errors.Is(err, ErrNotFound) {
		t.Fatalf("a write after the crash was kept: %v", err)
	}
}
