package cold

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	badger "github.com/dgraph-io/badger/v4"
	"golang.org/x/sys/unix"

	"hcclps/ps/table"
)

const keyBytes = 8

// units are those of one table.
type units struct {
	s      *Store
	number uint32

	mu      sync.Mutex // guards the rest; nothing is waited for under it
	closed  bool
	places  places
	counted int64 // bytes of places in the memory of tables
}

// Table is a store of a table's own.
func (s *Store) Table() table.Cold {
	u := &units{s: s, number: s.tables.Add(1), places: places{segments: map[uint32]occupancy{}}}
	s.listMu.Lock()
	defer s.listMu.Unlock()
	s.list[u.number] = u
	return u
}

// key names a segment.
func (u *units) key(segment uint32) []byte { return u.appendKey(make([]byte, 0, keyBytes), segment) }

func (u *units) appendKey(to []byte, segment uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(to, u.number), segment)
}

// Write implements table.Cold.
func (u *units) Write(ctx context.Context, ids []uint32, data []byte) error {
	if err := u.write(ids, data, nil); err != nil {
		if errors.Is(err, unix.ENOSPC) {
			u.s.garbage.Store(true)
			u.s.ask() // it may make room
		}
		return fmt.Errorf("write %d units of table %d: %w", len(ids), u.number, err)
	}
	u.s.wrote(ctx, len(ids), len(data))
	return nil
}

// write writes segments. A unit goes to its new place if it is still in the segment that from says, where that is given.
func (u *units) write(ids []uint32, data []byte, from []uint32) (err error) {
	need := int64(forWrite)
	if from != nil {
		need = forSweep
	}
	if err := u.s.writable(need + int64(len(data))); err != nil {
		return err
	}
	u.s.dropMu.RLock()
	defer u.s.dropMu.RUnlock()
	db, err := u.s.use()
	if err != nil {
		return err
	}
	defer u.s.mu.RUnlock()
	per, size := perSegment(len(data)/len(ids)), len(data)/len(ids)
	first, dead, err := u.reserve(uint32((len(ids) + per - 1) / per))
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			u.mu.Lock()
			u.places.dead = append(u.places.dead, dead...)
			u.mu.Unlock()
		}
	}()

	batch := db.NewWriteBatch()
	defer batch.Cancel()
	for _, segment := range dead {
		if err := batch.Delete(u.key(segment)); err != nil {
			return err
		}
	}
	buf := u.s.buffers.get(len(data) + len(ids)*(headBytes+entryBytes))
	values := (*buf)[:0]
	for at, segment := 0, first; at < len(ids); at, segment = at+per, segment+1 {
		end, key, begin := min(at+per, len(ids)), u.key(segment), len(values)
		values = appendSegment(values, key, ids[at:end], data[at*size:end*size])
		if err := batch.Set(key, values[begin:len(values):len(values)]); err != nil {
			return err
		}
	}
	if err := batch.Flush(); err != nil {
		return err // and Badger may still have the buffer
	}
	u.s.buffers.put(buf)
	u.s.files.look()
	return u.place(ids, first, per, size, from, u.shown(db, first, (len(ids)+per-1)/per))
}

// shown is where Badger has n segments, which it has just written.
func (u *units) shown(db *badger.DB, first uint32, n int) []spot {
	out := make([]spot, n)
	for i := range out {
		_ = u.segment(db, first+uint32(i), func(s segment) error { // else it is read through Badger
			out[i] = u.s.files.where(s.value)
			return nil
		})
	}
	return out
}

// reserve gives out numbers of n segments, and those that are to be deleted.
func (u *units) reserve(n uint32) (first uint32, dead []uint32, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return 0, nil, ErrClosed
	}
	p := &u.places
	first, dead = p.last+1, p.dead
	p.last += n
	p.dead = nil
	return first, dead, nil
}

// place notes where units are now.
func (u *units) place(ids []uint32, first uint32, per, size int, from []uint32, spots []spot) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return ErrClosed // they are dropped with the others, which waits for this write
	}
	p := &u.places
	p.size = size
	for at := 0; at < len(ids); at += per {
		end, segment := min(at+per, len(ids)), first+uint32(at/per)
		o := occupancy{units: uint16(end - at), spot: spots[at/per]}
		for i := at; i < end; i++ {
			if from == nil || p.of(ids[i]) == from[i] {
				p.put(ids[i], segment, i-at)
				o.live++
			}
		}
		if p.segments[segment] = o; o.live == 0 {
			delete(p.segments, segment)
			p.dead = append(p.dead, segment)
		}
	}
	now := p.bytes()
	u.s.cfg.Memory.Add(now - u.counted)
	u.counted = now
	if len(p.sparse) > 0 {
		u.s.ask()
	}
	return nil
}

// Read implements table.Cold.
func (u *units) Read(ids []uint32, data []byte) error {
	db, err := u.s.use()
	if err != nil {
		return fmt.Errorf("read %d units: %w", len(ids), err)
	}
	defer u.s.mu.RUnlock()
	u.s.stats.reads.Add(int64(len(ids)))
	u.s.stats.read.Add(int64(len(data)))
	room := u.s.lists.Get().(*list)
	defer u.s.lists.Put(room)
	defer func() { clear(room.units) }() // whose memory is the caller's
	units, err := u.wanted(room, ids, data)
	if err != nil {
		return fmt.Errorf("read %d units of table %d: %w", len(ids), u.number, err)
	}
	for _, w := range u.s.files.read(units) {
		if err := u.search(db, w); err != nil {
			return fmt.Errorf("read unit %d of table %d: %w", w.id, u.number, err)
		}
	}
	return nil
}

// wanted says in room where units were seen.
func (u *units) wanted(room *list, ids []uint32, data []byte) ([]wanted, error) {
	room.units, room.keys = slices.Grow(room.units[:0], len(ids))[:len(ids)], slices.Grow(room.keys[:0], len(ids)*keyBytes)
	out, keys, size := room.units, room.keys, len(data)/max(1, len(ids))
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return nil, ErrClosed
	}
	for i, id := range ids {
		keys = u.appendKey(keys, u.places.of(id))
		out[i] = wanted{id: id, key: keys[i*keyBytes:][:keyBytes], at: u.places.seen(id, size), to: data[i*size:][:size]}
	}
	return out, nil
}

// search reads a unit through Badger, and notes where its segment is.
func (u *units) search(db *badger.DB, w wanted) error {
	u.s.stats.searched.Add(1)
	where := []uint32{0}
	if err := u.locate([]uint32{w.id}, where); err != nil {
		return err
	}
	for {
		at := spot{}
		err := u.segment(db, where[0], func(s segment) error {
			at = u.s.files.where(s.value)
			return s.find(w.id, w.to)
		})
		if errors.Is(err, badger.ErrKeyNotFound) && u.moved([]uint32{w.id}, where) {
			continue // while it was looked for
		}
		if err != nil {
			return fmt.Errorf("segment %d: %w", where[0], err)
		}
		u.mu.Lock()
		u.places.see(where[0], at)
		u.mu.Unlock()
		return nil
	}
}

// locate finds the segments of units.
func (u *units) locate(ids, where []uint32) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return ErrClosed
	}
	for i, id := range ids {
		where[i] = u.places.of(id)
	}
	return nil
}

// moved finds the segments anew, and says whether that of the first has changed.
func (u *units) moved(ids, where []uint32) bool {
	old := where[0]
	return u.locate(ids, where) == nil && where[0] != old
}

// segment shows one, which is valid until visit returns.
func (u *units) segment(db *badger.DB, number uint32, visit func(segment) error) error {
	txn := db.NewTransaction(false)
	defer txn.Discard()
	key := u.key(number)
	item, err := txn.Get(key)
	if err != nil {
		return err
	}
	return item.Value(func(v []byte) error {
		s, err := decodeSegment(key, v)
		if err != nil {
			return err
		}
		return visit(s)
	})
}

// Close implements table.Cold: the units cannot be used any more, and Run removes them. It waits for nothing, since a table's owner is locked.
func (u *units) Close() error {
	s := u.s
	u.mu.Lock()
	wrote := u.places.last > 0
	u.closed = true
	u.places = places{}
	u.mu.Unlock()
	u.uncount()
	s.listMu.Lock()
	delete(s.list, u.number)
	if wrote {
		s.gone = append(s.gone, u.number)
	}
	s.listMu.Unlock()
	s.ask()
	return nil
}

// uncount takes the places out of the memory of tables.
func (u *units) uncount() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.s.cfg.Memory.Add(-u.counted)
	u.counted = 0
}
