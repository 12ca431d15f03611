package world

import (
	"encoding/binary"
	"fmt"
	"io"

	"hcclps/p2p"
)

// Limits of what a peer may say. A name is cut nowhere: one that is longer is refused; a text for people is cut.
const (
	maxHello = 4 << 10 // bytes of a hello or an answer
	maxName  = 255     // bytes of a job, an address, a host, the name of a comm
	maxText  = 1 << 10 // bytes of a text for people
)

// fields takes a message apart. After the first fault everything is zero and err says where it was.
type fields struct {
	b   []byte
	off int
	err error
}

func (d *fields) bytes(n int) []byte {
	if d.err != nil {
		return nil
	}
	if n > len(d.b)-d.off {
		d.err = fmt.Errorf("%w: %d bytes wanted at offset %d of %d", p2p.ErrMalformed, n, d.off, len(d.b))
		return nil
	}
	d.off += n
	return d.b[d.off-n : d.off : d.off]
}

func (d *fields) uint(n int) uint64 {
	var x [8]byte
	copy(x[:], d.bytes(n))
	return binary.LittleEndian.Uint64(x[:])
}

func (d *fields) u8() uint8   { return uint8(d.uint(1)) }
func (d *fields) u16() uint16 { return uint16(d.uint(2)) }
func (d *fields) u32() uint32 { return uint32(d.uint(4)) }
func (d *fields) u64() uint64 { return d.uint(8) }

// block reads a u16 length, which is at most limit, and so many bytes.
func (d *fields) block(limit int) []byte {
	n := int(d.u16())
	if d.err == nil && n > limit {
		d.err = fmt.Errorf("%w: %d bytes at offset %d, at most %d", p2p.ErrMalformed, n, d.off, limit)
	}
	return d.bytes(n)
}

func (d *fields) str(limit int) string { return string(d.block(limit)) }

func (d *fields) end() error {
	if d.err == nil && d.off != len(d.b) {
		d.err = fmt.Errorf("%w: %d bytes too many after offset %d", p2p.ErrMalformed, len(d.b)-d.off, d.off)
	}
	return d.err
}

// appendBlock is the inverse of block.
func appendBlock[T string | []byte](b []byte, s T) []byte {
	b = binary.LittleEndian.AppendUint16(b, uint16(len(s)))
	return append(b, s...)
}

// clip bounds a text for people.
func clip(s string) string { return s[:min(len(s), maxText)] }

// sealed puts the length before a message that was begun with four bytes for it.
func sealed(b []byte) []byte {
	binary.LittleEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// readShort reads a message with its length before it, of at most maxHello bytes, and not a byte more.
func readShort(r io.Reader) ([]byte, error) {
	var n [4]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint32(n[:])
	if size > maxHello {
		return nil, fmt.Errorf("read hello: it begins with %q, which is no length up to %d (give both sides the same certificates and token): %w",
			n, maxHello, p2p.ErrMalformed)
	}
	b := make([]byte, size)
	_, err := io.ReadFull(r, b)
	return b, err
}
