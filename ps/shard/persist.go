package shard

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/hashicorp/raft"

	"hcclps/ps/raftgroup"
	"hcclps/ps/snapshot"
	"hcclps/ps/table"
)

// capture is a State at one moment, while entries go on being applied: the
// head encoded, and a capture of each table.
type capture struct {
	lock   sync.Locker // the read side of the lock that guards State
	head   []byte
	tables []captured
	last   *lastSnapshot
}

type captured struct {
	slot  uint32
	id    uint32 // in the checkpoint
	pages *table.Capture
}

// lastSnapshot remembers up to which epoch of each table the newest snapshot
// reaches, so that the next one writes only pages dirtied since.
type lastSnapshot struct {
	mu     sync.Mutex
	id     string
	epochs map[uint32]uint32 // by slot
}

func (l *lastSnapshot) set(id string, epochs map[uint32]uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.id, l.epochs = id, epochs
}

func (l *lastSnapshot) since(base string) map[uint32]uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if base == "" || base != l.id {
		return nil
	}
	return l.epochs
}

// capture is called under the write lock.
func (s *State) capture(lock sync.Locker, last *lastSnapshot) (*capture, error) {
	head, err := s.encode()
	if err != nil {
		return nil, err
	}
	c := &capture{lock: lock, head: head, last: last}
	for _, name := range s.names() {
		for _, t := range storesOf(s.jobs[name].tabs()) {
			pages := t.rows.Capture()
			if pages == nil {
				c.Release()
				return nil, fmt.Errorf("capture table %d of job %q: an earlier snapshot is still being written", t.id, name)
			}
			c.tables = append(c.tables, captured{slot: t.slot, pages: pages})
		}
	}
	return c, nil
}

// pageSink is what Persist writes to: a *snapshot.Sink.
type pageSink interface {
	ID() string
	Base() string
	Full() error
	WriteHead(b []byte) error
	WritePage(id uint64, b []byte) error
}

// Persist implements raft.FSMSnapshot. What is released meanwhile is put off.
func (c *capture) Persist(sink raft.SnapshotSink) error {
	to, ok := sink.(pageSink)
	if !ok {
		return fmt.Errorf("persist state: sink is a %T, want pages", sink)
	}
	since := c.last.since(to.Base())
	if since == nil {
		if err := to.Full(); err != nil {
			return fmt.Errorf("persist state: %w", err)
		}
	}
	if err := to.WriteHead(joinHead(to.ID(), c.head)); err != nil {
		return fmt.Errorf("persist state: %w", err)
	}
	epochs := map[uint32]uint32{}
	for _, t := range c.tables {
		from, known := since[t.slot]
		err := t.pages.Pages(!known, from, func(id table.PageID, data []byte) error {
			page, err := packPage(t.slot, id)
			if err != nil {
				return err
			}
			return to.WritePage(page, data)
		}, c.lock)
		if errors.Is(err, table.ErrClosed) {
			return fmt.Errorf("%w: it was given up for a checkpoint, or for steps that waited for it: persist table %d: %w", raftgroup.ErrLater, t.slot, err)
		}
		if err != nil {
			return fmt.Errorf("persist table %d: %w", t.slot, err)
		}
		epochs[t.slot] = t.pages.Epoch()
	}
	c.last.set(to.ID(), epochs)
	return nil
}

// Release implements raft.FSMSnapshot.
func (c *capture) Release() {
	for _, t := range c.tables {
		t.pages.Close()
	}
}

// joinHead puts the snapshot's id before the head, so that a restore knows
// which snapshot its pages are those of.
func joinHead(id string, state []byte) []byte {
	id = id[:min(len(id), 255)]
	b := append([]byte{headVersion, byte(len(id))}, id...)
	return append(b, state...)
}

func splitHead(b []byte) (id string, state []byte, err error) {
	if len(b) < 2 || b[0] != headVersion {
		return "", nil, fmt.Errorf("head of a snapshot without version %d", headVersion)
	}
	if len(b) < 2+int(b[1]) {
		return "", nil, fmt.Errorf("head of a snapshot has %d bytes", len(b))
	}
	return string(b[2 : 2+b[1]]), b[2+b[1]:], nil
}

// restore reads the stream of a snapshot. last learns where the next snapshot
// can go on.
func restore(r io.Reader, cfg StateConfig, last *lastSnapshot) (*State, error) {
	in := snapshot.NewReader(r)
	kind, _, data, err := in.Next()
	if err != nil {
		return nil, fmt.Errorf("read head: %w", err)
	}
	if kind != snapshot.Head {
		return nil, errors.New("read head: the snapshot begins with a page")
	}
	id, head, err := splitHead(data)
	if err != nil {
		return nil, err
	}
	s, err := decodeState(head, cfg)
	if err != nil {
		return nil, err
	}
	for {
		_, page, data, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = s.load(page, data)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("read pages: %w", err), s.Close())
		}
	}
	last.set(id, s.epochs())
	return s, nil
}

// epochs ends an epoch of every table, so that what was loaded is not dirty.
func (s *State) epochs() map[uint32]uint32 {
	epochs := map[uint32]uint32{}
	for _, name := range s.names() {
		for _, t := range storesOf(s.jobs[name].tabs()) {
			c := t.rows.Capture()
			epochs[t.slot] = c.Epoch()
			c.Close()
		}
	}
	return epochs
}
