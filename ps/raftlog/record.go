package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// castagnoli is the table of CRC-32C, the checksum of everything this package writes.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const (
	sealSize   = 8         // length and CRC before every value in Badger
	maxValue   = 512 << 10 // bytes of one value; above it Badger would use its value log, whose checks are weak
	recordHead = 24        // log record: version, count, id
	recordFile = 12        // log record: number and size of a file
	markSize   = 32
)

// logID is the random name of one log.
type logID [16]byte

// mark is what Badger remembers of a log's progress: a log found on disk must reach it.
type mark struct {
	seq         uint64 // newest segment
	first, last uint64 // 0, 0: empty
	chain       uint32 // chained CRC of the header at last
}

// fileRef is a segment file Badger knows of.
type fileRef struct {
	no   uint32
	size int64
}

// logRecord is a log's identity: its id and the files it may use.
type logRecord struct {
	id    logID
	files []fileRef
}

// seal frames a value for Badger: length u32, CRC-32C u32 over key and value, value.
func seal(key string, value []byte) []byte {
	b := make([]byte, sealSize, sealSize+len(value))
	binary.LittleEndian.PutUint32(b, uint32(len(value)))
	binary.LittleEndian.PutUint32(b[4:], sealSum(key, value))
	return append(b, value...)
}

// unseal returns the value of a frame made by seal under the same key.
func unseal(key string, b []byte) ([]byte, error) {
	if len(b) < sealSize {
		return nil, fmt.Errorf("value of %d bytes is shorter than its frame", len(b))
	}
	v := b[sealSize:]
	if n := binary.LittleEndian.Uint32(b); uint64(n) != uint64(len(v)) {
		return nil, fmt.Errorf("value has %d bytes, its frame says %d", len(v), n)
	}
	if binary.LittleEndian.Uint32(b[4:]) != sealSum(key, v) {
		return nil, errors.New("value fails its checksum")
	}
	return v, nil
}

func sealSum(key string, value []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte(key), castagnoli), castagnoli, value)
}

func (r logRecord) encode() []byte {
	b := make([]byte, recordHead, recordHead+recordFile*len(r.files))
	binary.LittleEndian.PutUint32(b, formatVersion)
	binary.LittleEndian.PutUint32(b[4:], uint32(len(r.files)))
	copy(b[8:], r.id[:])
	for _, f := range r.files {
		b = binary.LittleEndian.AppendUint32(b, f.no)
		b = binary.LittleEndian.AppendUint64(b, uint64(f.size))
	}
	return b
}

func decodeRecord(b []byte) (logRecord, error) {
	var r logRecord
	if len(b) < recordHead {
		return r, fmt.Errorf("log record of %d bytes is too short", len(b))
	}
	if v := binary.LittleEndian.Uint32(b); v != formatVersion {
		return r, fmt.Errorf("log record has version %d, this program knows %d", v, formatVersion)
	}
	n := binary.LittleEndian.Uint32(b[4:])
	copy(r.id[:], b[8:])
	b = b[recordHead:]
	if uint64(len(b)) != uint64(n)*recordFile {
		return r, fmt.Errorf("log record names %d files in %d bytes", n, len(b))
	}
	for ; len(b) > 0; b = b[recordFile:] {
		f := fileRef{no: binary.LittleEndian.Uint32(b), size: int64(binary.LittleEndian.Uint64(b[4:]))}
		if f.size < minSegment || f.size > maxSegment {
			return r, fmt.Errorf("log record gives file %d a size of %d bytes", f.no, f.size)
		}
		r.files = append(r.files, f)
	}
	return r, nil
}

func (m mark) encode() []byte {
	b := make([]byte, 0, markSize)
	b = binary.LittleEndian.AppendUint32(b, formatVersion)
	b = binary.LittleEndian.AppendUint32(b, m.chain)
	b = binary.LittleEndian.AppendUint64(b, m.seq)
	b = binary.LittleEndian.AppendUint64(b, m.first)
	return binary.LittleEndian.AppendUint64(b, m.last)
}

func decodeMark(b []byte) (mark, error) {
	if len(b) != markSize {
		return mark{}, fmt.Errorf("mark of %d bytes, want %d", len(b), markSize)
	}
	if v := binary.LittleEndian.Uint32(b); v != formatVersion {
		return mark{}, fmt.Errorf("mark has version %d, this program knows %d", v, formatVersion)
	}
	m := mark{
		chain: binary.LittleEndian.Uint32(b[4:]),
		seq:   binary.LittleEndian.Uint64(b[8:]),
		first: binary.LittleEndian.Uint64(b[16:]),
		last:  binary.LittleEndian.Uint64(b[24:]),
	}
	if (m.first == 0) != (m.last == 0) || m.first > m.last {
		return mark{}, fmt.Errorf("mark from %d to %d", m.first, m.last)
	}
	return m, nil
}
