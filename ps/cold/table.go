package cold

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sync/atomic"

	badger "github.com/dgraph-io/badger/v4"

	"hcclps/ps/table"
)

// trailer is what stands behind a unit: CRC and length.
const trailer = 8

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// counters count units and bytes.
type counters struct{ writes, written, reads, read, sweeps atomic.Int64 }

// Stats is what a store has done, in units and in bytes of units; Disk and Vlog are what it takes on disk now.
type Stats struct {
	Writes, Written int64
	Reads, Read     int64
	Disk            int64 // bytes of sorted tables
	Vlog            int64 // bytes of value logs
	Memory          int64 // bytes, counted in table.Memory
	Sweeps          int64 // files of the value log written anew
}

// Stats counts.
func (s *Store) Stats() Stats {
	out := Stats{Writes: s.stats.writes.Load(), Written: s.stats.written.Load(), Reads: s.stats.reads.Load(), Read: s.stats.read.Load(), Sweeps: s.stats.sweeps.Load()}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.db != nil {
		out.Disk, out.Vlog = s.db.Size()
		out.Memory = s.bytes
	}
	return out
}

// units are those of one table.
type units struct {
	s      *Store
	number uint32
}

// Table is a store of a table's own.
func (s *Store) Table() table.Cold { return &units{s, s.tables.Add(1)} }

func (u *units) key(id uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(make([]byte, 0, 8), u.number), id)
}

// seal appends a unit's value.
func seal(dst, key, unit []byte) []byte {
	dst = append(dst, unit...)
	dst = binary.LittleEndian.AppendUint32(dst, checksum(key, unit))
	return binary.LittleEndian.AppendUint32(dst, uint32(len(unit)))
}

func checksum(key, unit []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, unit)
}

// unseal checks a value of a unit of the length of to, and copies it.
func unseal(to, key, value []byte) error {
	if len(value) != len(to)+trailer {
		return fmt.Errorf("%d bytes, want %d", len(value), len(to)+trailer)
	}
	unit, end := value[:len(to)], value[len(to):]
	if n := binary.LittleEndian.Uint32(end[4:]); int(n) != len(to) {
		return fmt.Errorf("length %d, want %d", n, len(to))
	}
	if have, want := checksum(key, unit), binary.LittleEndian.Uint32(end); have != want {
		return fmt.Errorf("checksum %08x, want %08x", have, want)
	}
	copy(to, unit)
	return nil
}

// Write implements table.Cold.
func (u *units) Write(ids []uint32, data []byte) error {
	db, err := u.s.use()
	if err != nil {
		return fmt.Errorf("write %d units: %w", len(ids), err)
	}
	defer u.s.mu.RUnlock()
	batch := db.NewWriteBatch()
	defer batch.Cancel()
	size := len(data) / len(ids)
	values := make([]byte, 0, len(data)+trailer*len(ids))
	for i, id := range ids {
		key, from := u.key(id), len(values)
		values = seal(values, key, data[i*size:][:size])
		if err := batch.Set(key, values[from:len(values):len(values)]); err != nil {
			return fmt.Errorf("write unit %d of table %d: %w", id, u.number, err)
		}
	}
	if err := batch.Flush(); err != nil {
		return fmt.Errorf("write %d units of table %d: %w", len(ids), u.number, err)
	}
	u.s.stats.writes.Add(int64(len(ids)))
	u.s.wrote(len(data))
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
	err = db.View(func(txn *badger.Txn) error {
		for i, id := range ids {
			key := u.key(id)
			item, err := txn.Get(key)
			if err == nil {
				err = item.Value(func(v []byte) error { return unseal(data[i*size:][:size], key, v) })
			}
			if err != nil {
				return fmt.Errorf("read unit %d of table %d: %w", id, u.number, err)
			}
		}
		return nil
	})
	u.s.stats.reads.Add(int64(len(ids)))
	u.s.stats.read.Add(int64(len(data)))
	return err
}

// Close implements table.Cold: the units are removed.
func (u *units) Close() error {
	s := u.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db == nil {
		return nil
	}
	err := s.db.DropPrefix(binary.BigEndian.AppendUint32(nil, u.number))
	if err != nil && !errors.Is(err, badger.ErrDBClosed) {
		return fmt.Errorf("remove units of table %d: %w", u.number, err)
	}
	return nil
}
