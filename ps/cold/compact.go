package cold

import (
	"context"
	"errors"
	"fmt"

	badger "github.com/dgraph-io/badger/v4"
)

// compact writes what is left of sparse segments into new ones, until ctx ends. Those that it cannot are left for the next time.
func (u *units) compact(ctx context.Context) (err error) {
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
		if ctx.Err() != nil {
			return fmt.Errorf("compact table %d: %w", u.number, context.Cause(ctx))
		}
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
	u.ahead(segments)
	where, one := make([]uint32, 1), make([]uint32, 1)
	for _, number := range segments {
		err := u.whole(db, number, func(s segment) error {
			for i := range s.n {
				one[0] = s.id(i)
				if err := u.locate(one, where); err != nil {
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

// ahead has segments read that are needed soon.
func (u *units) ahead(segments []uint32) {
	for _, number := range segments {
		u.mu.Lock()
		at, n := u.places.span(number)
		u.mu.Unlock()
		u.s.files.ahead(at, n)
	}
}

// whole shows a segment, all of whose units are wanted, until visit returns.
func (u *units) whole(db *badger.DB, number uint32, visit func(segment) error) error {
	u.mu.Lock()
	at, n := u.places.span(number)
	u.mu.Unlock()
	buf := u.s.buffers.get(n)
	defer u.s.buffers.put(buf)
	value := *buf
	if u.s.files.whole(at, value) {
		if s, err := decodeSegment(u.key(number), value); err == nil && s.sound() {
			return visit(s)
		}
	}
	return u.segment(db, number, visit)
}

// find notes where segments are now that lay in files which are gone.
func (u *units) find(db *badger.DB, gone func(spot) bool) {
	var moved []uint32
	u.mu.Lock()
	for number, o := range u.places.segments {
		if gone(o.spot) {
			moved = append(moved, number)
		}
	}
	u.mu.Unlock()
	for _, number := range moved {
		at := u.shown(db, number, 1)[0]
		u.mu.Lock()
		u.places.see(number, at)
		u.mu.Unlock()
	}
}
