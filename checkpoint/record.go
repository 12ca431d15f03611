package checkpoint

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
)

var (
	le         = binary.LittleEndian
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

const (
	packMagic   = "hclppack"
	packVersion = 1
	packHead    = 32 // bytes before the first record

	recordHead = 64
	maxChunk   = 64 << 20 // bytes of one chunk

	chunkPage = 1 // a page of a table
	chunkBlob = 2 // a piece of a blob
)

// sum is the SHA-256 of a chunk, the name under which it is found.
type sum [sha256.Size]byte

func (s sum) String() string { return hex.EncodeToString(s[:]) }

// record is a chunk in a pack, as its head says.
type record struct {
	kind  uint8
	table uint32
	page  uint64 // packed, or the number of the piece of a blob
	n     uint32 // bytes of data
	crc   uint32 // of the data
	sum   sum
}

// appendRecord writes the head of a record; the data follow it.
func appendRecord(b []byte, r *record) []byte {
	at := len(b)
	b = le.AppendUint32(b, r.n)
	b = append(b, r.kind, 0, 0, 0)
	b = le.AppendUint32(b, r.table)
	b = le.AppendUint32(b, 0)
	b = le.AppendUint64(b, r.page)
	b = append(b, r.sum[:]...)
	b = le.AppendUint32(b, r.crc)
	return le.AppendUint32(b, crc32.Checksum(b[at:], castagnoli))
}

// decodeRecord reads the head of a record. Its error is a *DamageError without a file
// and with the offset inside the record.
func decodeRecord(b []byte) (record, error) {
	var r record
	if len(b) < recordHead {
		return r, &DamageError{Reason: fmt.Sprintf("the head of a record has %d bytes, want %d", len(b), recordHead)}
	}
	if got, want := crc32.Checksum(b[:60], castagnoli), le.Uint32(b[60:]); got != want {
		return r, &DamageError{Reason: fmt.Sprintf("the CRC of a record's head is %08x, it says %08x", got, want)}
	}
	r = record{n: le.Uint32(b), kind: b[4], table: le.Uint32(b[8:]), page: le.Uint64(b[16:]), crc: le.Uint32(b[56:])}
	copy(r.sum[:], b[24:])
	switch {
	case r.kind != chunkPage && r.kind != chunkBlob || b[5]|b[6]|b[7] != 0 || le.Uint32(b[12:]) != 0:
		return r, &DamageError{Offset: 4, Reason: fmt.Sprintf("a record of kind %x", b[4:8])}
	case r.n == 0 || r.n > maxChunk:
		return r, &DamageError{Reason: fmt.Sprintf("a chunk of %d bytes, want 1 to %d", r.n, maxChunk)}
	}
	return r, nil
}

// check compares data with what the head of its record says.
func (r *record) check(data []byte) error {
	if got := crc32.Checksum(data, castagnoli); got != r.crc {
		return &DamageError{Offset: recordHead, Chunk: r.sum.String(), Reason: fmt.Sprintf("CRC-32C is %08x, the record says %08x", got, r.crc)}
	}
	return nil
}

// appendPackHead begins a pack.
func appendPackHead(b []byte, id uint64, group uint32) []byte {
	at := len(b)
	b = append(b, packMagic...)
	b = le.AppendUint32(b, packVersion)
	b = le.AppendUint32(b, group)
	b = le.AppendUint64(b, id)
	b = le.AppendUint32(b, 0)
	return le.AppendUint32(b, crc32.Checksum(b[at:], castagnoli))
}

// checkPackHead proves that b begins a pack that this program reads.
func checkPackHead(b []byte) error {
	if len(b) < packHead || string(b[:8]) != packMagic {
		return &DamageError{Reason: "it is no pack"}
	}
	if got, want := crc32.Checksum(b[:28], castagnoli), le.Uint32(b[28:]); got != want {
		return &DamageError{Reason: fmt.Sprintf("the CRC of the head is %08x, it says %08x", got, want)}
	}
	switch v := le.Uint32(b[8:]); {
	case v > packVersion:
		return fmt.Errorf("pack of version %d, this program reads up to %d: %w", v, packVersion, ErrVersion)
	case v == 0:
		return &DamageError{Offset: 8, Reason: "pack of version 0"}
	}
	return nil
}
