package cold

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	badger "github.com/dgraph-io/badger/v4"
	"golang.org/x/sys/unix"

	"hcclps/ps/table"
)

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
func (u *units) key(segment uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(make([]byte, 0, 8), u.number), segment)
}

// Write implements table.Cold.
func (u *units) Write(ids []uint32, data []byte) error {
	if err := u.write(ids, data, nil); err != nil {
		if errors.Is(err, unix.ENOSPC) {
			u.s.garbage.Store(true)
			u.s.ask() // it may make room
		}
		return fmt.Errorf("write %d units of table %d: %w", len(ids), u.number, err)
	}
	u.s.wrote(len(ids), len(data))
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
	values := make([]byte, 0, len(data)+len(ids)*(headBytes+entryBytes))
	for at, segment := 0, first; at < len(ids); at, segment = at+per, segment+1 {
		end, key, begin := min(at+per, len(ids)), u.key(segment), len(values)
		values = appendSegment(values, key, ids[at:end], data[at*size:end*size])
		if err := batch.Set(key, values[begin:len(values):len(values)]); err != nil {
			return err
		}
	}
	if err := batch.Flush(); err != nil {
		return err
	}
	u.s.scatter()
	return u.place(ids, first, per, from)
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
func (u *units) place(ids []uint32, first uint32, per int, from []uint32) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return ErrClosed // they are dropped with the others, which waits for this write
	}
	p := &u.places
	for at := 0; at < len(ids); at += per {
		end, segment := min(at+per, len(ids)), first+uint32(at/per)
		o := occupancy{units: uint16(end - at)}
		for i := at; i < end; i++ {
			if from == nil || p.of(ids[i]) == from[i] {
				p.put(ids[i], segment)
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
	size := len(data) / max(1, len(ids))
	u.s.stats.reads.Add(int64(len(ids)))
	u.s.stats.read.Add(int64(len(data)))
	where := make([]uint32, len(ids))
	if err := u.locate(ids, where); err != nil {
		return fmt.Errorf("read %d units of table %d: %w", len(ids), u.number, err)
	}
	for at := 0; at < len(ids); {
		end := at + 1
		for end < len(ids) && where[end] == where[at] {
			end++
		}
		err := u.segment(db, where[at], func(s segment) error {
			for i := at; i < end; i++ {
				if err := s.find(ids[i], data[i*size:][:size]); err != nil {
					return err
				}
			}
			return nil
		})
		if errors.Is(err, badger.ErrKeyNotFound) && u.moved(ids[at:], where[at:]) {
			continue // while it was looked for
		}
		if err != nil {
			return fmt.Errorf("read unit %d of table %d: segment %d: %w", ids[at], u.number, where[at], err)
		}
		at = end
	}
	return nil
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

// compact writes what is left of sparse segments into new ones. Those that it cannot are left for the next time.
func (u *units) compact() (err error) {
	u.mu.Lock()
	sparse := u.places.sparse
	u.places.sparse = nil
	u.mu.Unlock()
	rest := sparse
	defer func() {
		if err != nil {
			u.mu.Lock()
			defer u.mu.Unlock()
			u.places.sparse = append(u.places.sparse, rest...)
		}
	}()
	for len(sparse) > 0 {
		now := sparse[:min(len(sparse), sparseBelow*2)]
		rest, sparse = sparse, sparse[len(now):]
		ids, from, data, err := u.left(now)
		if err != nil {
			return fmt.Errorf("read segments of table %d: %w", u.number, err)
		}
		if len(ids) == 0 {
			continue
		}
		if err := u.write(ids, data, from); err != nil {
			return fmt.Errorf("write segments of table %d: %w", u.number, err)
		}
	}
	return nil
}

// left reads the units that are still in segments, ascending.
func (u *units) left(segments []uint32) (ids, from []uint32, data []byte, err error) {
	db, err := u.s.use()
	if err != nil {
		return nil, nil, nil, err
	}
	defer u.s.mu.RUnlock()
	for _, number := range segments {
		err := u.segment(db, number, func(s segment) error {
			for i := range s.n {
				where := []uint32{0}
				if err := u.locate([]uint32{s.id(i)}, where); err != nil {
					return err
				}
				if where[0] != number {
					continue
				}
				unit, err := s.unit(i)
				if err != nil {
					return err
				}
				ids, from, data = append(ids, s.id(i)), append(from, number), append(data, unit...)
			}
			return nil
		})
		if err != nil && !errors.Is(err, badger.ErrKeyNotFound) { // nothing is left of it
			return nil, nil, nil, fmt.Errorf("segment %d: %w", number, err)
		}
	}
	sortUnits(ids, from, data)
	return ids, from, data, nil
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
