package rafttransport

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// kind is the kind of a frame.
type kind uint8

const (
	kindAppend kind = iota + 1
	kindVote
	kindPreVote
	kindTimeoutNow
	kindInstall
	kindWorking kind = 127
	answered    kind = 128 // added to the kind of a request
)

const (
	frameHeader    = 24
	maxHead        = 1 << 20
	maxControlHead = 64<<10 - frameHeader // nothing over 64 KiB travels on a control connection
)

var le = binary.LittleEndian

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errMalformed is in every error about bytes that do not follow the format.
var errMalformed = errors.New("malformed raft message")

// beginFrame appends a header whose length and CRC sealFrame fills in.
func beginFrame(b []byte, k kind, id uint64, group uint32) []byte {
	b = append(b, 0, 0, 0, 0, byte(k), 0, 0, 0)
	b = le.AppendUint64(b, id)
	b = le.AppendUint32(b, group)
	return append(b, 0, 0, 0, 0)
}

// sealFrame completes the frame that is all of b.
func sealFrame(b []byte) error {
	if len(b)-frameHeader > maxHead {
		return fmt.Errorf("raft message with a head of %d bytes, the limit is %d", len(b)-frameHeader, maxHead)
	}
	le.PutUint32(b, uint32(len(b)-frameHeader))
	le.PutUint32(b[20:], frameCRC(b[:20], b[frameHeader:]))
	return nil
}

func frameCRC(header, head []byte) uint32 {
	return crc32.Update(crc32.Checksum(header, castagnoli), castagnoli, head)
}

// frame is a verified header and its head, which is valid until the next read.
type frame struct {
	kind  kind
	id    uint64
	group uint32
	head  []byte
}

// frameReader reads frames, and what follows them, from one connection.
type frameReader struct {
	r    *bufio.Reader
	most int // bytes of a head
	buf  []byte
}

func newFrameReader(r io.Reader, most int) *frameReader {
	return &frameReader{r: bufio.NewReaderSize(r, 16<<10), most: most}
}

func (r *frameReader) next() (frame, error) {
	var h [frameHeader]byte
	if _, err := io.ReadFull(r.r, h[:]); err != nil {
		return frame{}, err
	}
	n := le.Uint32(h[:])
	if int64(n) > int64(r.most) || h[5]|h[6]|h[7] != 0 {
		return frame{}, fmt.Errorf("%w: not a header: % x", errMalformed, h)
	}
	if cap(r.buf) < int(n) || cap(r.buf) > 64<<10 && n < 4<<10 {
		r.buf = make([]byte, n)
	}
	r.buf = r.buf[:n]
	if _, err := io.ReadFull(r.r, r.buf); err != nil {
		return frame{}, fmt.Errorf("%w: %w", errMalformed, err)
	}
	if crc := frameCRC(h[:20], r.buf); crc != le.Uint32(h[20:]) {
		return frame{}, fmt.Errorf("%w: CRC is %08x, the header says %08x", errMalformed, crc, le.Uint32(h[20:]))
	}
	return frame{kind: kind(h[4]), id: le.Uint64(h[8:]), group: le.Uint32(h[16:]), head: r.buf}, nil
}

// cursor reads fields and remembers that there were too few bytes.
type cursor struct {
	b    []byte
	fail bool
}

func (c *cursor) take(n int) []byte {
	if c.fail || n > len(c.b) {
		c.fail = true
		return make([]byte, min(n, 8))
	}
	b := c.b[:n]
	c.b = c.b[n:]
	return b
}

func (c *cursor) u8() uint8   { return c.take(1)[0] }
func (c *cursor) u32() uint32 { return le.Uint32(c.take(4)) }
func (c *cursor) u64() uint64 { return le.Uint64(c.take(8)) }

// bytes copies n bytes out; nil when they are missing.
func (c *cursor) bytes(n int) []byte {
	b := c.take(n)
	if c.fail {
		return nil
	}
	return append([]byte(nil), b...)
}

// short reads what has its length in one byte.
func (c *cursor) short() []byte { return c.bytes(int(c.u8())) }

// end is the verdict: all fields were there, and nothing else.
func (c *cursor) end() error {
	if c.fail || len(c.b) > 0 {
		return fmt.Errorf("%w: the head is too short or too long", errMalformed)
	}
	return nil
}
