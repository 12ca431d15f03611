package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"

	"hcclps/ps/corrupt"
)

// openWitness returns how many commits the witness file saw. It exists, durably, before the database does; later
// writes to it need no sync, as the database is never behind what they say.
func (s *Store) openWitness(fresh bool) (uint64, error) {
	path := filepath.Join(s.dir, witnessName)
	flag := os.O_RDWR
	if fresh {
		flag |= os.O_CREATE
	}
	f, err := os.OpenFile(path, flag, 0o600)
	if errors.Is(err, os.ErrNotExist) {
		return 0, &corrupt.Error{File: path, Reason: "file is gone"}
	}
	if err != nil {
		return 0, fmt.Errorf("open witness: %w", err)
	}
	s.witness = f
	var b [16]byte
	n, err := f.ReadAt(b[:], 0)
	if n == 0 && fresh {
		if _, err := f.WriteAt(encodeWitness(0), 0); err != nil {
			return 0, fmt.Errorf("write witness: %w", err)
		}
		return 0, errors.Join(f.Sync(), syncDir(s.dir))
	}
	count, ok := decodeWitness(b[:n])
	if !ok {
		return 0, &corrupt.Error{File: path, Reason: fmt.Sprintf("counter fails its checksum (%d bytes read: %v)", n, err)}
	}
	if fresh && count > 0 {
		return 0, &corrupt.Error{File: filepath.Join(s.dir, "badger"), Reason: fmt.Sprintf("database is gone, %d commits were made", count)}
	}
	return count, nil
}

func encodeWitness(count uint64) []byte {
	b := binary.LittleEndian.AppendUint64(nil, count)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	return binary.LittleEndian.AppendUint32(b, 0)
}

func decodeWitness(b []byte) (uint64, bool) {
	if len(b) != 16 || binary.LittleEndian.Uint32(b[8:]) != crc32.Checksum(b[:8], castagnoli) {
		return 0, false
	}
	return binary.LittleEndian.Uint64(b), true
}
