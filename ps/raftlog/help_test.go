package raftlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
)

const (
	testBudget  = 4 << 20
	testSegment = 1 << 20
)

// node is one server's store and one group's log in a folder.
type node struct {
	tb    testing.TB
	root  string
	cfg   Config
	store *Store
	log   *Log
}

// tempDir is a folder in memory where there is one: what is synced there costs nothing.
func tempDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "raftlog-test-") //nolint:usetesting // TempDir is on a disk
	if err != nil {
		return tb.TempDir()
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	})
	return dir
}

func newNode(tb testing.TB, change ...func(*Config)) *node {
	tb.Helper()
	n := &node{tb: tb, root: tempDir(tb), cfg: Config{Group: 7, Budget: testBudget, SegmentSize: testSegment}}
	n.cfg.Dir = filepath.Join(n.root, "log")
	for _, c := range change {
		c(&n.cfg)
	}
	n.mustOpen()
	tb.Cleanup(n.close)
	return n
}

func (n *node) storeDir() string { return filepath.Join(n.root, "store") }

func (n *node) open() error {
	s, err := OpenStore(n.storeDir(), Options{})
	if err != nil {
		return err
	}
	n.cfg.Store = s
	l, err := Open(n.cfg)
	if err != nil {
		return errors.Join(err, s.Close())
	}
	n.store, n.log = s, l
	return nil
}

func (n *node) mustOpen() {
	n.tb.Helper()
	if err := n.open(); err != nil {
		n.tb.Fatal(err)
	}
}

func (n *node) close() {
	n.tb.Helper()
	if n.log == nil {
		return
	}
	if err := errors.Join(n.log.Close(), n.store.Close()); err != nil {
		n.tb.Error(err)
	}
	n.log, n.store = nil, nil
}

// crash leaves the files as a kill -9 would.
func (n *node) crash() {
	n.tb.Helper()
	n.store.Freeze()
	n.close()
}

func (n *node) reopen() {
	n.tb.Helper()
	n.close()
	n.mustOpen()
}

// payload is a pure function of index and term.
func payload(index, term uint64, size int) []byte {
	b := make([]byte, size)
	r := rand.New(rand.NewPCG(index, term))
	for i := 0; i < size; i += 8 {
		var w [8]byte
		binary.LittleEndian.PutUint64(w[:], r.Uint64())
		copy(b[i:], w[:])
	}
	return b
}

func entry(index, term uint64, size int) *raft.Log {
	return &raft.Log{Index: index, Term: term, Type: raft.LogCommand, Data: payload(index, term, size)}
}

func entries(from, to, term uint64, size int) (es []*raft.Log) {
	for i := from; i <= to; i++ {
		es = append(es, entry(i, term, size))
	}
	return es
}

func (n *node) put(from, to, term uint64, size int) {
	n.tb.Helper()
	if err := n.log.StoreLogs(entries(from, to, term, size)); err != nil {
		n.tb.Fatal(err)
	}
}

func (n *node) want(first, last uint64) {
	n.tb.Helper()
	f, err1 := n.log.FirstIndex()
	l, err2 := n.log.LastIndex()
	if f != first || l != last || err1 != nil || err2 != nil {
		n.tb.Fatalf("log holds %d to %d (%v, %v), want %d to %d", f, l, err1, err2, first, last)
	}
}

// wantEntry compares an entry with the one put wrote.
func (n *node) wantEntry(index, term uint64, size int) {
	n.tb.Helper()
	var e raft.Log
	if err := n.log.GetLog(index, &e); err != nil {
		n.tb.Fatalf("get entry %d: %v", index, err)
	}
	if e.Index != index || e.Term != term || !bytes.Equal(e.Data, payload(index, term, size)) {
		n.tb.Fatalf("entry %d is (%d, %d, %d bytes), want term %d and %d bytes", index, e.Index, e.Term, len(e.Data), term, size)
	}
}

// copyDir replaces to by a copy of from; zero pages become holes.
func copyDir(tb testing.TB, from, to string) {
	tb.Helper()
	err := os.RemoveAll(to)
	if err == nil {
		err = filepath.WalkDir(from, func(p string, d os.DirEntry, err error) error {
			rel, err2 := filepath.Rel(from, p)
			if err = errors.Join(err, err2); err != nil {
				return err
			}
			if d.IsDir() {
				return os.MkdirAll(filepath.Join(to, rel), 0o700)
			}
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			return writeSparse(filepath.Join(to, rel), b)
		})
	}
	if err != nil {
		tb.Fatal(err)
	}
}

func writeSparse(path string, b []byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer closeFiles(f)
	zero := make([]byte, 4096)
	for at := 0; at < len(b); at += len(zero) {
		if p := b[at:min(at+len(zero), len(b))]; !bytes.Equal(p, zero[:len(p)]) {
			if _, err := f.WriteAt(p, int64(at)); err != nil {
				return err
			}
		}
	}
	return f.Truncate(int64(len(b)))
}
