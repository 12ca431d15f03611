package raftgroup_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"hcclps/ps/raftgroup"
)

func TestLogStaysWithinItsBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		m := newMember(t, dir, "a", []string{"a"}, &counter{})
		m.awaitLeader()
		var highest int64
		for range 300 { // 30 MB through a log of 4 MiB
			for {
				err := m.add(1, 100<<10)
				if err == nil {
					break
				}
				t.Fatal(err)
			}
			highest = max(highest, m.node.Status().LogBytes)
			for m.node.Full() {
				<-time.After(10 * time.Millisecond)
			}
		}
		if highest > 4<<20 {
			t.Errorf("log grew to %d bytes, over its budget of %d", highest, 4<<20)
		}
		m.end()
		again := newMember(t, dir, "a", nil, &counter{})
		again.awaitLeader()
		if got := again.fsm.sum.Load(); got != 300 {
			t.Errorf("after a restart the sum is %d, want 300", got)
		}
		if got := again.fsm.entries.Load(); got >= 300 {
			t.Errorf("%d entries were applied again: the snapshot was not used", got)
		}
		again.end()
	})
}

// TestLogGrowsWithTheState lets a log have a tenth of its group's state, from its first snapshot on and after a restart.
func TestLogGrowsWithTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		for _, c := range []struct {
			state int
			want  int64
		}{{10 << 20, 4 << 20}, {50 << 20, 5 << 20}, {80 << 20, 6 << 20}} {
			m := newMember(t, dir, "a", []string{"a"}, &counter{bulk: c.state})
			m.awaitLeader()
			if err := m.add(1, 100); err != nil {
				t.Fatal(err)
			}
			if err := m.node.Snapshot(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, budget := m.log.Bytes(); budget>>10 != c.want>>10 {
				t.Errorf("with %d bytes of state the log may have %d, want %d", c.state, budget, c.want)
			}
			m.end()
		}
		m := newMember(t, dir, "a", nil, &counter{})
		m.awaitLeader()
		if _, budget := m.log.Bytes(); budget != 6<<20 {
			t.Errorf("after a restart the log may have %d bytes", budget)
		}
		m.end()
	})
}

func TestSilentPeerDoesNotHoldTheShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ids := []string{"a", "b", "c"}
		a := newMember(t, t.TempDir(), "a", ids, &counter{}, func(tr raft.Transport) raft.Transport {
			return &deaf{Transport: tr, to: "c", closed: make(chan struct{})}
		})
		b := newMember(t, t.TempDir(), "b", nil, &counter{})
		a.trans.Connect("b", b.trans)
		b.trans.Connect("a", a.trans)
		a.awaitLeader()
		if err := a.add(1, 10); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		a.end()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("ended after %v", took)
		}
		b.end()
	})
}

func TestPanicInTheStateMachineEndsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMember(t, t.TempDir(), "a", []string{"a"}, &counter{panicsAt: 3})
		m.awaitLeader()
		for range 5 {
			_ = m.add(1, 1) // the third fails, or those after it
		}
		err := <-m.ended
		if err == nil || !strings.Contains(err.Error(), "shard 0") || !strings.Contains(err.Error(), "cannot count on") {
			t.Errorf("run: %v", err)
		}
		if got := m.fsm.sum.Load(); got != 2 {
			t.Errorf("sum %d, want 2: nothing may be applied after a failure", got)
		}
	})
}

func TestFailEndsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMember(t, t.TempDir(), "a", []string{"a"}, &counter{})
		m.awaitLeader()
		cause := errors.New("diverged")
		m.node.Fail(cause)
		if err := <-m.ended; !errors.Is(err, cause) {
			t.Errorf("run: %v, want the cause", err)
		}
	})
}

// hashicorp/raft leaves futures unresolved at a shutdown; ours never are.
func TestEveryProposalIsAnsweredAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMember(t, t.TempDir(), "a", []string{"a"}, &counter{})
		m.awaitLeader()
		var wg sync.WaitGroup
		var good atomic.Uint64
		for range 200 {
			wg.Go(func() {
				for range 20 {
					if m.add(1, 1000) != nil {
						return
					}
					good.Add(1)
				}
			})
		}
		<-time.After(time.Millisecond)
		m.end()
		wg.Wait()
		if sum := m.fsm.sum.Load(); sum != good.Load() {
			t.Errorf("%d proposals were answered well, %d were applied", good.Load(), sum)
		}
		if err := m.add(1, 1); !errors.Is(err, raftgroup.ErrStopped) {
			t.Errorf("a proposal after the end: %v, want ErrStopped", err)
		}
	})
}

func TestLeaderHandsOverUnlessItCrashes(t *testing.T) {
	for _, crash := range []bool{false, true} {
		t.Run(fmt.Sprintf("crash=%v", crash), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ms := trio(t)
				old := leaderOf(ms)
				if err := old.add(1, 1); err != nil {
					t.Fatal(err)
				}
				others := slices.DeleteFunc(slices.Clone(ms), func(m *member) bool { return m == old })
				begin := time.Now()
				if crash {
					old.store.Freeze()
					old.cancel(raftgroup.ErrCrash)
					if err := <-old.ended; err != nil {
						t.Errorf("run: %v", err)
					}
				} else {
					old.end()
				}
				next := leaderOf(others)
				took := time.Since(begin)
				if crash == (took < raftgroup.DefaultHeartbeat/2) {
					t.Errorf("the next leader was there after %v", took)
				}
				if err := next.add(1, 1); err != nil {
					t.Error(err)
				}
				if got := next.fsm.sum.Load(); got != 2 {
					t.Errorf("sum %d, want 2", got)
				}
				if got := others[0].node.Leader(); got == "" {
					t.Error("a follower does not know the leader")
				}
				for _, m := range others {
					m.end()
				}
				linger()
				if got := old.leads; len(got) != 2 || !strings.HasPrefix(got[0], "began") || !strings.HasPrefix(got[1], "ended") {
					t.Errorf("the leader's work: %v, want begun and ended once", got)
				}
			})
		})
	}
}

func TestLeadEndsWithTheQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ms := trio(t)
		old := leaderOf(ms)
		for _, m := range ms {
			if m != old {
				old.trans.Disconnect(m.trans.LocalAddr())
				m.trans.Disconnect(old.trans.LocalAddr())
			}
		}
		<-time.After(2 * time.Second)
		if old.node.IsLeader() {
			t.Error("a leader without quorum says it may answer")
		}
		old.mu.Lock()
		if got := old.leads; len(got) != 2 {
			t.Errorf("the leader's work: %v, want it ended", got)
		}
		old.mu.Unlock()
		if err := old.node.Barrier(t.Context()); err == nil {
			t.Error("a barrier without quorum passed")
		}
		for _, m := range ms {
			m.end()
		}
		linger()
	})
}

func TestConfigFaults(t *testing.T) {
	_, err := raftgroup.New(raftgroup.Config{Group: 3, Heartbeat: time.Millisecond})
	for _, want := range []string{"shard 2", "server id", "heartbeat 1ms", "state machine"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error does not name %q: %v", want, err)
		}
	}
}
