package raftgroup_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hcclps/ps/raftgroup"
)

// A snapshot that is put off is no failure, and is taken later.
func TestSnapshotIsPutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const put = 3
		fsm := &counter{}
		fsm.later.Store(put)
		m := newMember(t, t.TempDir(), "a", []string{"a"}, fsm)
		m.awaitLeader()
		if err := m.node.Snapshot(t.Context()); !errors.Is(err, raftgroup.ErrLater) || !strings.Contains(err.Error(), "counting") {
			t.Errorf("a snapshot now: %v", err)
		}
		for range 25 { // 2.5 MB, over half of a log of 4 MiB
			if err := m.add(1, 100<<10); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(time.Minute)
		if left := fsm.later.Load(); left != -1 {
			t.Errorf("asked %d times for a snapshot, want %d", put-left, put+1)
		}
		if n := m.node.Status().LogBytes; n > 2<<20 {
			t.Errorf("the log has %d bytes after a minute", n)
		}
		m.end()
		if strings.Contains(m.said.String(), "snapshot") {
			t.Errorf("said: %s", m.said.String())
		}
	})
}

// Neither is one that is given up while it is written.
func TestSnapshotIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const put = 3
		fsm := &counter{}
		fsm.broken.Store(put)
		m := newMember(t, t.TempDir(), "a", []string{"a"}, fsm)
		m.awaitLeader()
		if err := m.node.Snapshot(t.Context()); !errors.Is(err, raftgroup.ErrLater) || !strings.Contains(err.Error(), "counting on") {
			t.Errorf("a snapshot now: %v", err)
		}
		for range 25 { // as above
			if err := m.add(1, 100<<10); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(time.Minute)
		if left := fsm.broken.Load(); left != -1 {
			t.Errorf("%d snapshots begun, want %d", put-left, put+1)
		}
		if n := m.node.Status().LogBytes; n > 2<<20 {
			t.Errorf("the log has %d bytes after a minute", n)
		}
		m.end()
		if strings.Contains(m.said.String(), "snapshot") {
			t.Errorf("said: %s", m.said.String())
		}
	})
}

// One that is due is taken when what put it off is over, and not at the next look.
func TestSnapshotResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsm := &counter{}
		fsm.later.Store(1 << 40)
		m := newMember(t, t.TempDir(), "a", []string{"a"}, fsm)
		m.awaitLeader()
		for range 25 { // as above
			if err := m.add(1, 100<<10); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		for range 3 { // nothing is applied meanwhile
			before := fsm.later.Load()
			m.node.Resume()
			synctest.Wait()
			if after := fsm.later.Load(); before == 1<<40 || after != before-1 {
				t.Errorf("asked %d times for a snapshot before, %d times after", 1<<40-before, 1<<40-after)
			}
		}
		m.end()
	})
}

// warnings is what has been logged so far.
type warnings struct {
	mu sync.Mutex
	b  strings.Builder
}

func (w *warnings) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func (w *warnings) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}
