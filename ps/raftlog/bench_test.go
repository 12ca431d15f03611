package raftlog

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/hashicorp/raft"
)

// ring is the plain twin in memory: a slice of entries under a lock.
type ring struct {
	mu    sync.RWMutex
	first uint64
	logs  []*raft.Log
}

func (r *ring) StoreLogs(es []*raft.Log) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.logs) == 0 {
		r.first = es[0].Index
	}
	r.logs = append(r.logs, es...)
	return nil
}

func (r *ring) GetLog(i uint64, e *raft.Log) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	*e = *r.logs[i-r.first]
	return nil
}

func (r *ring) DeleteRange(_, hi uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := hi + 1 - r.first
	r.logs = append([]*raft.Log(nil), r.logs[n:]...)
	r.first = hi + 1
	return nil
}

type benchStore interface {
	StoreLogs(es []*raft.Log) error
	GetLog(i uint64, e *raft.Log) error
	DeleteRange(lo, hi uint64) error
}

// BenchmarkStore appends an entry and reads it back, keeping about half of a 64 MiB budget. The ring copies the
// payload, as a state machine that hands out its own memory must.
func BenchmarkStore(b *testing.B) {
	for _, kind := range []string{"ring", "tmpfs", "tmpfs-alloc", "disk", "disk-sync"} {
		for _, size := range []int{1 << 10, 64 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%s/%d", kind, size), func(b *testing.B) { benchStoreLogs(b, kind, size) })
		}
	}
}

func benchStoreLogs(b *testing.B, kind string, size int) {
	b.Helper()
	var s benchStore = &ring{}
	var l *Log
	if kind != "ring" {
		n := newNode(b, func(c *Config) {
			c.Budget, c.SegmentSize = 64<<20, 16<<20
			if kind == "disk" || kind == "disk-sync" {
				c.Dir = filepath.Join(b.TempDir(), "log")
			} else if _, err := os.Stat("/dev/shm"); err != nil {
				b.Skip("no /dev/shm")
			}
			c.Prefault, c.Sync = true, kind == "disk-sync"
		})
		l, s = n.log, n.log
	}
	keep := uint64(32<<20) / uint64(size)
	data := payload(1, 1, size)
	carried := []byte{0, 0, 0, 0}
	var out raft.Log
	b.SetBytes(int64(size))
	b.ReportAllocs()
	i := uint64(0)
	for b.Loop() {
		i++
		e := &raft.Log{Index: i, Term: 1, Data: data}
		release := func() {}
		switch kind {
		case "ring":
			e.Data = append([]byte(nil), data...)
		case "tmpfs-alloc": // a follower: bytes land in the segment, the checksum comes along
			buf, r, err := l.Alloc(size)
			if err != nil {
				b.Fatal(err)
			}
			copy(buf, data)
			e.Data, e.Extensions, release = buf, carried, r
		}
		if err := s.StoreLogs([]*raft.Log{e}); err != nil {
			b.Fatal(err)
		}
		release()
		if err := s.GetLog(i, &out); err != nil {
			b.Fatal(err)
		}
		if i%keep == 0 && i > keep {
			if err := s.DeleteRange(1, i-keep); err != nil {
				b.Fatal(err)
			}
		}
	}
}
