package raftlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// tally is a state machine that keeps the number of entries and a checksum over them.
type tally struct {
	mu    sync.Mutex
	count uint64
	sum   uint32
}

func (f *tally) Apply(e *raft.Log) any {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	f.sum = crc32.Update(f.sum, castagnoli, e.Data)
	return f.count
}

func (f *tally) state() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(nil, f.count), f.sum)
}

func (f *tally) Snapshot() (raft.FSMSnapshot, error) { return tallySnapshot(f.state()), nil }

func (f *tally) Restore(r io.ReadCloser) error {
	var b [12]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count, f.sum = binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint32(b[8:])
	return r.Close()
}

type tallySnapshot []byte

func (s tallySnapshot) Persist(sink raft.SnapshotSink) error {
	if _, err := sink.Write(s); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}

func (s tallySnapshot) Release() {}

// member is one server of a real Raft group over Log and Stable.
type member struct {
	*node
	id    raft.ServerID
	fsm   *tally
	snaps *raft.InmemSnapshotStore
	trans *raft.InmemTransport
	raft  *raft.Raft
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

func (m *member) start() {
	m.tb.Helper()
	m.mustOpen()
	metas, err := m.snaps.List()
	if err != nil {
		m.tb.Fatal(err)
	}
	for _, s := range metas {
		if err := m.log.CheckSnapshot(s.Index); err != nil {
			m.tb.Fatal(err)
		}
	}
	c := raft.DefaultConfig()
	c.LocalID, c.LogOutput, c.LogLevel = m.id, io.Discard, "OFF"
	c.SnapshotThreshold, c.SnapshotInterval, c.TrailingLogs = 64, time.Second, 32
	c.NoLegacyTelemetry, c.BatchApplyCh = true, true
	m.fsm = &tally{}
	_, m.trans = raft.NewInmemTransport(raft.ServerAddress(m.id))
	m.raft, err = raft.NewRaft(c, m.fsm, m.log, m.store.Group(7), m.snaps, apart{m.trans})
	if err != nil {
		m.tb.Fatal(err)
	}
}

func (m *member) stop(crash bool) {
	m.tb.Helper()
	if crash {
		m.store.Freeze()
	}
	if err := m.raft.Shutdown().Error(); err != nil {
		m.tb.Fatal(err)
	}
	m.close()
}

// TestRaftGroup runs hashicorp/raft over the log: compaction, a crash, catching up by entries and by a snapshot.
func TestRaftGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := tempDir(t)
		var ms []*member
		var servers []raft.Server
		for i := range 3 {
			id := raft.ServerID(fmt.Sprint("s", i))
			dir := filepath.Join(root, string(id))
			ms = append(ms, &member{
				node: &node{tb: t, root: dir, cfg: Config{Group: 7, Dir: filepath.Join(dir, "log"), Budget: testBudget, SegmentSize: testSegment}},
				id:   id, snaps: raft.NewInmemSnapshotStore(),
			})
			servers = append(servers, raft.Server{ID: id, Address: raft.ServerAddress(id)})
			ms[i].start()
		}
		must(t, ms[0].raft.BootstrapCluster(raft.Configuration{Servers: servers}).Error())
		connect(ms)
		<-time.After(5 * time.Second) // a first leader spreads the configuration
		want := &tally{}
		total := 0
		for round := range 6 {
			out := ms[round%3]
			out.stop(round%2 == 0)
			lead := leader(t, ms, out)
			for range 60 * (round%3 + 1) { // few enough to catch up by entries, or too many
				data := payload(uint64(total), 0, total%5*9000)
				want.Apply(&raft.Log{Data: data})
				total++
				must(t, lead.raft.Apply(data, 10*time.Second).Error())
			}
			<-time.After(3 * time.Second) // snapshots and compaction
			out.start()
			connect(ms)
			<-time.After(5 * time.Second)
			for _, m := range ms {
				if got := m.fsm.state(); !bytes.Equal(got, want.state()) {
					t.Fatalf("round %d: %s has state %x, want %x", round, m.id, got, want.state())
				}
			}
		}
		first, _ := ms[0].log.FirstIndex()
		if first < 100 {
			t.Errorf("log was never compacted: it begins at %d", first)
		}
		for _, m := range ms {
			m.stop(false)
		}
	})
}

// connect links all transports that run.
func connect(ms []*member) {
	for _, a := range ms {
		for _, b := range ms {
			if a != b {
				a.trans.Connect(raft.ServerAddress(b.id), b.trans)
			}
		}
	}
}

func leader(t *testing.T, ms []*member, down *member) *member {
	t.Helper()
	for range 100 {
		for _, m := range ms {
			if m != down && m.raft.State() == raft.Leader && m.raft.VerifyLeader().Error() == nil {
				return m
			}
		}
		<-time.After(200 * time.Millisecond)
	}
	t.Fatal("no leader within 20 s")
	return nil
}
