package raftgroup_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"hcclps/ps/raftgroup"
	"hcclps/ps/raftlog"
	"hcclps/ps/snapshot"
)

// counter is a state machine that adds up the first bytes of its entries.
type counter struct {
	sum      atomic.Uint64
	entries  atomic.Uint64
	panicsAt uint64       // this entry
	later    atomic.Int64 // so many snapshots are put off
	broken   atomic.Int64 // so many are given up while they are written
}

func (c *counter) Apply(l *raft.Log) any {
	if n := c.entries.Add(1); n == c.panicsAt {
		panic("cannot count on")
	}
	return c.sum.Add(uint64(l.Data[0]))
}

func (c *counter) Snapshot() (raft.FSMSnapshot, error) {
	if c.later.Add(-1) >= 0 {
		return nil, fmt.Errorf("%w: counting", raftgroup.ErrLater)
	}
	b := binary.LittleEndian.AppendUint64(nil, c.sum.Load())
	if c.broken.Add(-1) >= 0 {
		return cutShort(b), nil
	}
	return image(b), nil
}

func (c *counter) Restore(r io.ReadCloser) error {
	defer r.Close()
	_, _, head, err := snapshot.NewReader(r).Next()
	if err != nil {
		return err
	}
	c.sum.Store(binary.LittleEndian.Uint64(head))
	return nil
}

type image []byte

func (b image) Persist(sink raft.SnapshotSink) error { return sink.(*snapshot.Sink).WriteHead(b) }
func (image) Release()                               {}

// cutShort is an image that is given up while it is written.
type cutShort []byte

func (b cutShort) Persist(sink raft.SnapshotSink) error {
	if err := image(b).Persist(sink); err != nil {
		return err
	}
	return fmt.Errorf("%w: counting on", raftgroup.ErrLater)
}

func (cutShort) Release() {}

// member is one replica.
type member struct {
	t      *testing.T
	node   *raftgroup.Node
	fsm    *counter
	store  *raftlog.Store
	trans  *raft.InmemTransport
	said   warnings
	cancel context.CancelCauseFunc
	ended  chan error
	mu     sync.Mutex
	leads  []string // "began 2", "ended 2"
}

func newMember(t *testing.T, dir, id string, ids []string, fsm *counter, wrap ...func(raft.Transport) raft.Transport) *member {
	t.Helper()
	store, err := raftlog.OpenStore(filepath.Join(dir, "store"), raftlog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	log, err := raftlog.Open(raftlog.Config{Dir: filepath.Join(dir, "log"), Group: 1, Store: store, Budget: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	snaps, err := snapshot.Open(snapshot.Config{Dir: filepath.Join(dir, "snapshots")})
	if err != nil {
		t.Fatal(err)
	}
	m := &member{t: t, fsm: fsm, store: store, ended: make(chan error, 1)}
	_, m.trans = raft.NewInmemTransport(raft.ServerAddress(id))
	var trans raft.Transport = apart{m.trans}
	for _, w := range wrap {
		trans = w(trans)
	}
	m.node, err = raftgroup.New(raftgroup.Config{
		Group: 1, Self: id, Log: log, Stable: store.Group(1), Snapshots: snaps, Transport: trans, Bootstrap: ids, FSM: fsm, Lead: m.lead,
		Logger: slog.New(slog.NewTextHandler(&m.said, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { <-time.After(10 * time.Second) }) // of fake time: a transfer of leadership to who has ended outlives raft by its transport's time-out
	ctx, cancel := context.WithCancelCause(context.Background())
	m.cancel = cancel
	go func() {
		err := m.node.Run(ctx)
		_, _ = log.Close(), store.Close()
		m.ended <- err
	}()
	return m
}

func (m *member) lead(ctx context.Context, term uint64) {
	m.note("began", term)
	<-ctx.Done()
	m.note("ended", term)
}

func (m *member) note(what string, term uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leads = append(m.leads, fmt.Sprint(what, " ", term))
}

func (m *member) end() {
	m.t.Helper()
	m.cancel(nil)
	if err := <-m.ended; err != nil {
		m.t.Errorf("run: %v", err)
	}
}

func (m *member) awaitLeader() {
	for !m.node.IsLeader() {
		<-time.After(20 * time.Millisecond)
	}
}

func (m *member) add(n byte, size int) error {
	b := make([]byte, size)
	b[0] = n
	_, err := m.node.Propose(context.Background(), b)
	return err
}

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

// apart is a transport between members that share no memory: entries lie in the sender's log, which may be closed while the receiver reads.
type apart struct{ *raft.InmemTransport }

func (a apart) AppendEntries(id raft.ServerID, to raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	sent := *args
	sent.Entries = make([]*raft.Log, len(args.Entries))
	for i, e := range args.Entries {
		own := *e
		own.Data = slices.Clone(e.Data)
		sent.Entries[i] = &own
	}
	return a.InmemTransport.AppendEntries(id, to, &sent, resp)
}

func (apart) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

// deaf is a transport whose entries for one server are not answered until it is closed.
type deaf struct {
	raft.Transport
	to     raft.ServerAddress
	closed chan struct{}
}

func (d *deaf) AppendEntries(id raft.ServerID, to raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if to != d.to {
		return d.Transport.AppendEntries(id, to, args, resp)
	}
	<-d.closed
	return errors.New("closed")
}

func (d *deaf) Close() error {
	select {
	case <-d.closed:
	default:
		close(d.closed)
	}
	return nil
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

// linger lets raft's requests over its in-memory transport time out: it does not
// wait for them.
func linger() { <-time.After(10 * time.Second) }

func trio(t *testing.T) []*member {
	t.Helper()
	ids := []string{"a", "b", "c"}
	dir := t.TempDir()
	var ms []*member
	for i, id := range ids {
		boot := ids
		if i > 0 {
			boot = nil // only one bootstraps
		}
		ms = append(ms, newMember(t, filepath.Join(dir, id), id, boot, &counter{}))
	}
	for _, m := range ms {
		for _, other := range ms {
			m.trans.Connect(other.trans.LocalAddr(), other.trans)
		}
	}
	return ms
}

func leaderOf(ms []*member) *member {
	for {
		for _, m := range ms {
			if m.node.IsLeader() {
				return m
			}
		}
		<-time.After(20 * time.Millisecond)
	}
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
