package rafttransport_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"hcclps/ps/snapshot"
)

// heapLog is a Log over hashicorp/raft's in-memory store that counts what is held.
type heapLog struct {
	*raft.InmemStore
	allocs, pins atomic.Int64 // held now
	calls        atomic.Int64 // of Alloc so far
	refusePins   atomic.Int64 // so many next Pins fail
	limit        int          // of Alloc, 0: none
}

func newHeapLog() *heapLog { return &heapLog{InmemStore: raft.NewInmemStore()} }

func (l *heapLog) held() (allocs, pins int64) { return l.allocs.Load(), l.pins.Load() }

func (l *heapLog) Alloc(n int) ([]byte, func(), error) {
	if l.limit > 0 && n > l.limit {
		return nil, nil, fmt.Errorf("%d bytes are over the limit of %d", n, l.limit)
	}
	l.calls.Add(1)
	l.allocs.Add(1)
	return make([]byte, n), func() { l.allocs.Add(-1) }, nil
}

func (l *heapLog) Pin([]*raft.Log) (func(), bool) {
	if l.refusePins.Add(-1) >= 0 {
		return nil, false
	}
	l.pins.Add(1)
	return func() { l.pins.Add(-1) }, true
}

func (l *heapLog) Checksum(e *raft.Log) (uint32, bool) {
	if len(e.Extensions) != 4 {
		return 0, false
	}
	return binary.LittleEndian.Uint32(e.Extensions), true
}

// chain is a state machine: the number of entries and a CRC over all of them.
type chain struct {
	mu    sync.Mutex
	count uint64
	sum   uint32
	last  int // length of the last entry
}

func (c *chain) state() (uint64, uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count, c.sum
}

func (c *chain) Apply(l *raft.Log) any {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
	c.sum = crc32.Update(c.sum, castagnoli, l.Data)
	c.last = len(l.Data)
	return nil
}

func (c *chain) Snapshot() (raft.FSMSnapshot, error) {
	count, sum := c.state()
	return frozen{count, sum}, nil
}

func (c *chain) Restore(in io.ReadCloser) error {
	r := snapshot.NewReader(in)
	for {
		kind, _, data, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return in.Close()
		case err != nil:
			return err
		case kind == snapshot.Head:
			c.mu.Lock()
			c.count, c.sum = binary.LittleEndian.Uint64(data), binary.LittleEndian.Uint32(data[8:])
			c.mu.Unlock()
		}
	}
}

type frozen struct {
	count uint64
	sum   uint32
}

func (f frozen) Persist(sink raft.SnapshotSink) error {
	k := sink.(*snapshot.Sink)
	head := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(nil, f.count), f.sum)
	if err := errors.Join(k.Full(), k.WriteHead(head)); err != nil {
		return err
	}
	page := make([]byte, 100<<10) // so that the transfer takes many pieces
	for id := range uint64(30) {
		if err := k.WritePage(id, page); err != nil {
			return err
		}
	}
	return k.Close()
}

func (frozen) Release() {}
