package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func openStore(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := OpenStore(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

func TestStableContract(t *testing.T) {
	dir := tempDir(t)
	s := openStore(t, dir)
	a, b := s.Group(1), s.Group(2)
	if _, err := a.Get([]byte("LastVoteCand")); err == nil || err.Error() != "not found" {
		t.Fatalf("a miss is %v, Raft wants exactly \"not found\"", err)
	}
	if v, err := a.GetUint64([]byte("CurrentTerm")); v != 0 || err == nil || err.Error() != "not found" {
		t.Fatalf("a miss is %d, %v", v, err)
	}
	must(t, a.SetUint64([]byte("CurrentTerm"), 1<<63+5))
	must(t, b.SetUint64([]byte("CurrentTerm"), 6))
	must(t, a.Set([]byte("LastVoteCand"), []byte("server")))
	must(t, a.Set([]byte("empty"), nil))
	must(t, s.Set("identity", []byte("me")))
	must(t, s.Close())
	s = openStore(t, dir)
	if v, err := s.Group(1).GetUint64([]byte("CurrentTerm")); v != 1<<63+5 || err != nil {
		t.Errorf("term %d, %v", v, err)
	}
	if v, err := s.Group(2).GetUint64([]byte("CurrentTerm")); v != 6 || err != nil {
		t.Errorf("term %d, %v", v, err)
	}
	if v, err := s.Group(1).Get([]byte("LastVoteCand")); string(v) != "server" || err != nil {
		t.Errorf("vote %q, %v", v, err)
	}
	if v, err := s.Group(1).Get([]byte("empty")); len(v) != 0 || err != nil {
		t.Errorf("empty value %q, %v", v, err)
	}
	if v, err := s.Get("identity"); string(v) != "me" || err != nil {
		t.Errorf("identity %q, %v", v, err)
	}
	if _, err := s.Get("CurrentTerm"); !errors.Is(err, ErrNotFound) {
		t.Errorf("groups and server share keys: %v", err)
	}
	if err := s.Set("big", make([]byte, maxValue+1)); err == nil {
		t.Error("a value above the limit was taken")
	}
}

func TestStoreHasOneOwner(t *testing.T) {
	dir := tempDir(t)
	openStore(t, dir)
	if _, err := OpenStore(dir, Options{}); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), dir) {
		t.Fatalf("second owner got %v", err)
	}
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Fatalf("directory is %v, %v", st.Mode(), err)
	}
	file := filepath.Join(tempDir(t), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	if _, err := OpenStore(file, Options{}); err == nil {
		t.Fatal("a file was opened as a store")
	}
}

func TestConcurrentWritesShareCommits(t *testing.T) {
	s := openStore(t, tempDir(t))
	var wg sync.WaitGroup
	const writers, each = 16, 20
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if err := s.Set(fmt.Sprint(w, i), fmt.Append(nil, i)); err != nil {
					t.Error(err)
				}
				if v, err := s.Get(fmt.Sprint(w, i)); err != nil || string(v) != fmt.Sprint(i) {
					t.Errorf("got %q, %v", v, err)
				}
			}
		})
	}
	wg.Wait()
	if s.count >= writers*each {
		t.Errorf("%d writes took %d commits", writers*each, s.count)
	}
}

// TestDamagedDatabase changes single bytes all over the store's files: it is refused, or every value is right. A
// vote that silently went back must never be served.
func TestDamagedDatabase(t *testing.T) {
	dir := tempDir(t)
	s := openStore(t, dir)
	value := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, 100) }
	for i := range 40 {
		must(t, s.Set(fmt.Sprint(i%20), value(i)))
	}
	s.Freeze()
	crashed := filepath.Join(tempDir(t), "crashed")
	copyDir(t, dir, crashed)
	must(t, s.Close())
	clean := filepath.Join(tempDir(t), "clean")
	copyDir(t, dir, clean)
	refused, served := 0, 0
	for _, from := range []string{crashed, clean} {
		var files []string
		must(t, filepath.WalkDir(from, func(p string, d os.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && d.Name() != lockName {
				files = append(files, p)
			}
			return err
		}))
		for _, f := range files {
			st, err := os.Stat(f)
			must(t, err)
			for k := range int64(4) {
				at := min(st.Size(), 6000) * k / 4
				if st.Size() == 0 || at >= st.Size() {
					continue
				}
				to := filepath.Join(tempDir(t), "store")
				copyDir(t, from, to)
				rel, err := filepath.Rel(from, f)
				must(t, err)
				spoil(t, filepath.Join(to, rel), at)
				s, err := OpenStore(to, Options{})
				if err != nil {
					refused++
					continue
				}
				for i := 20; i < 40; i++ {
					switch v, err := s.Get(fmt.Sprint(i % 20)); {
					case err != nil && !errors.Is(err, ErrNotFound):
						refused++
					case err != nil || !bytes.Equal(v, value(i)):
						t.Errorf("%s byte %d changed: value %d is %.8x, %v", rel, at, i, v, err)
					default:
						served++
					}
				}
				must(t, s.Close())
			}
		}
	}
	t.Logf("refused %d, served %d right values", refused, served)
	if refused == 0 || served == 0 {
		t.Error("test proves nothing")
	}
}

// TestStoreFolderGone: a store whose folder is taken away under it comes to its end, and nobody else gets it meanwhile.
func TestStoreFolderGone(t *testing.T) {
	dir := tempDir(t)
	s, err := OpenStore(dir, Options{})
	must(t, err)
	must(t, s.Set("identity", []byte("me")))
	must(t, os.RemoveAll(filepath.Join(dir, "badger")))
	over := make(chan error, 1)
	go func() { over <- s.Close() }()
	select {
	case err := <-over:
		if err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("close: %v, want an error that names %s", err, dir)
		}
	case <-time.After(time.Minute):
		t.Fatal("close does not end")
	}
	if _, err := OpenStore(dir, Options{}); !errors.Is(err, ErrInUse) {
		t.Errorf("open what is not closed: %v", err)
	}
}
