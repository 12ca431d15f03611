package raftlog

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A frozen store and its logs play a kill -9 for tests: everything that was
// written so far stays, and nothing written from now on reaches a file.

// Freeze is for crash tests: it freezes every Log opened on the store, then the store. From now on writes are accepted
// and seen by readers, but only in memory: after Close a new OpenStore finds what a kill -9 at this moment would have left.
func (s *Store) Freeze() {
	s.mu.Lock()
	logs := make([]*Log, 0, len(s.logs))
	for l := range s.logs {
		logs = append(logs, l)
	}
	s.mu.Unlock()
	for _, l := range logs {
		l.Freeze()
	}
	s.commit.lock()
	defer s.commit.unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.frozen == nil {
		s.frozen = map[string][]byte{}
	}
}

// Freeze is for crash tests: from now on writes are accepted and seen by readers, but only in memory, so that after
// Close a new Open finds what a kill -9 at this moment would have left. Freeze the Store to freeze all its logs.
func (l *Log) Freeze() {
	l.write.lock()
	defer l.write.unlock()
	l.marking.lock()
	defer l.marking.unlock()
	l.growing.lock()
	defer l.growing.unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.frozen || l.closed {
		return
	}
	l.frozen = true
	for _, g := range l.files() {
		if err := g.detach(); err != nil {
			l.fail(err) //nolint:errcheck // kept as the cause
		}
	}
}

// memorySegment is what a frozen log grows by.
func memorySegment(no uint32, size int64) (*segment, error) {
	m, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("map memory: %w", err)
	}
	return &segment{no: no, path: "memory", m: m, low: len(m)}, nil
}

// detach puts a private copy of the file under the same addresses: what is written from now on stays in memory.
func (g *segment) detach() error {
	if g.file == nil {
		return nil
	}
	_, err := unix.MmapPtr(int(g.file.Fd()), 0, unsafe.Pointer(unsafe.SliceData(g.m)), uintptr(len(g.m)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED)
	if err != nil {
		return fmt.Errorf("detach segment %s: %w", g.path, err)
	}
	closeFiles(g.file)
	g.file = nil
	return nil
}
