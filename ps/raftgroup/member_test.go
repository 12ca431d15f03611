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
	"sync"
	"sync/atomic"
	"testing"
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
	bulk     int          // bytes of a snapshot, beside the sum
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
	b = append(b, make([]byte, c.bulk)...)
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
	log    *raftlog.Log
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
	log, err := raftlog.Open(raftlog.Config{Dir: filepath.Join(dir, "log"), Group: 1, Store: store, Budget: 4 << 20, Most: 6 << 20})
	if err != nil {
		t.Fatal(err)
	}
	snaps, err := snapshot.Open(snapshot.Config{Dir: filepath.Join(dir, "snapshots")})
	if err != nil {
		t.Fatal(err)
	}
	m := &member{t: t, fsm: fsm, store: store, log: log, ended: make(chan error, 1)}
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
