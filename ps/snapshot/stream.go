package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"hcclps/internal/vec"
	"hcclps/ps/corrupt"
)

// Kind says what a record of the stream is.
type Kind uint8

// The kinds that Reader.Next yields.
const (
	Head Kind = 2 // the small state
	Page Kind = 3
)

const (
	kindBegin Kind = 1
	kindEnd   Kind = 4

	streamMagic   = "hclpsnap"
	streamVersion = 1
	recordHeader  = 20
	beginData     = 12
	endData       = 20
	maxRecord     = 256 << 20
)

var le = binary.LittleEndian

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// streamSize is the length of the stream of a snapshot whose pages have so many bytes of data.
func streamSize(head int, pages int, pageBytes int64) int64 {
	return recordHeader + beginData + recordHeader + int64(head) + int64(pages)*recordHeader + pageBytes + recordHeader + endData
}

// appendHeader appends a record's header whose CRC field is already known.
func appendHeader(dst []byte, kind Kind, id uint64, n int, crc uint32) []byte {
	dst = le.AppendUint32(dst, uint32(n))
	dst = append(dst, byte(kind), 0, 0, 0)
	dst = le.AppendUint64(dst, id)
	return le.AppendUint32(dst, crc)
}

// recordCRC is what stands in the header of that record.
func recordCRC(kind Kind, id uint64, data []byte) uint32 {
	var h [recordHeader]byte
	appendHeader(h[:0], kind, id, len(data), 0)
	return vec.CRC32C(crc32.Checksum(h[:recordHeader-4], castagnoli), data)
}

func appendRecord(dst []byte, kind Kind, id uint64, data []byte) []byte {
	return append(appendHeader(dst, kind, id, len(data), recordCRC(kind, id, data)), data...)
}

func appendBegin(dst []byte) []byte {
	return appendRecord(dst, kindBegin, 0, le.AppendUint32([]byte(streamMagic), streamVersion))
}

func appendEnd(dst []byte, pages, before uint64, chain uint32) []byte {
	data := le.AppendUint64(nil, pages)
	data = le.AppendUint64(data, before)
	return appendRecord(dst, kindEnd, 0, le.AppendUint32(data, chain))
}

// chainCRC continues the CRC over the CRC fields of records.
func chainCRC(chain, crc uint32) uint32 {
	var b [4]byte
	le.PutUint32(b[:], crc)
	return crc32.Update(chain, castagnoli, b[:])
}

// record is a decoded header.
type record struct {
	kind Kind
	n    int
	id   uint64
	crc  uint32
}

// checker follows a stream and says the first thing that is wrong with it. The zero value stands before the first record.
type checker struct {
	offset int64 // of the record that comes next
	last   Kind  // of the record before, 0 at the start
	lastID uint64
	pages  uint64
	chain  uint32
}

func (c *checker) bad(format string, args ...any) error {
	return &corrupt.Error{File: "snapshot stream", Offset: c.offset, Reason: fmt.Sprintf(format, args...)}
}

// header judges a record by its 20 bytes, before its data are read.
func (c *checker) header(h []byte) (record, error) {
	r := record{kind: Kind(h[4]), n: int(le.Uint32(h)), id: le.Uint64(h[8:]), crc: le.Uint32(h[16:])}
	if h[5]|h[6]|h[7] != 0 || le.Uint32(h) > maxRecord {
		return r, c.bad("not a record's header")
	}
	ok := false
	switch r.kind {
	case kindBegin:
		ok = c.last == 0 && r.n == beginData
	case Head:
		ok = c.last == kindBegin
	case Page:
		ok = c.last == Head || c.last == Page && r.id > c.lastID
	case kindEnd:
		ok = (c.last == Head || c.last == Page) && r.n == endData
	}
	if !ok || r.kind != Page && r.id != 0 {
		return r, c.bad("a record of kind %d, id %d, length %d cannot follow one of kind %d, id %d", r.kind, r.id, r.n, c.last, c.lastID)
	}
	return r, nil
}

// data judges the data of the record that header has let pass, and moves on.
func (c *checker) data(r record, data []byte) error {
	if crc := recordCRC(r.kind, r.id, data); crc != r.crc {
		return c.bad("CRC is %08x, its header says %08x", crc, r.crc)
	}
	switch r.kind {
	case kindBegin:
		if string(data[:8]) != streamMagic {
			return c.bad("not a snapshot")
		}
		if v := le.Uint32(data[8:]); v != streamVersion {
			return c.bad("format version %d, this program reads %d", v, streamVersion)
		}
	case Page:
		c.pages++
	case kindEnd:
		if pages, before, chain := le.Uint64(data), le.Uint64(data[8:]), le.Uint32(data[16:]); pages != c.pages || before != uint64(c.offset) || chain != c.chain {
			return c.bad("the end says %d pages in %d bytes with CRC %08x, there were %d in %d with %08x", pages, before, chain, c.pages, c.offset, c.chain)
		}
	case Head:
	}
	c.chain = chainCRC(c.chain, r.crc)
	c.last, c.lastID = r.kind, r.id
	c.offset += recordHeader + int64(r.n)
	return nil
}

// done reports whether the end record has passed.
func (c *checker) done() bool { return c.last == kindEnd }

// Reader takes the stream of a snapshot apart, checking every byte. It may be used by one goroutine at a time.
type Reader struct {
	in    io.Reader
	check checker
	buf   []byte
	err   error
}

// NewReader reads from in and not beyond the end record.
func NewReader(in io.Reader) *Reader { return &Reader{in: in} }

// Next yields the head and then every page, ids ascending, and io.EOF when the end record has been seen and agrees. data is valid until
// the next call. A stream that ends early, is damaged or out of order gives a *corrupt.Error with the offset of the record. After an
// error Next repeats it.
func (r *Reader) Next() (kind Kind, id uint64, data []byte, err error) {
	for r.err == nil {
		var rec record
		if rec, r.err = r.record(); r.err != nil {
			break
		}
		switch rec.kind {
		case Head, Page:
			return rec.kind, rec.id, r.buf, nil
		case kindEnd:
			r.err = io.EOF
		case kindBegin:
		}
	}
	return 0, 0, nil, r.err
}

func (r *Reader) record() (record, error) {
	var h [recordHeader]byte
	if err := r.fill(h[:]); err != nil {
		return record{}, err
	}
	rec, err := r.check.header(h[:])
	if err != nil {
		return rec, err
	}
	// The length is not verified before the data: memory grows with what really arrives.
	const step = 1 << 20
	r.buf = r.buf[:0]
	for len(r.buf) < rec.n {
		have, more := len(r.buf), min(step, rec.n-len(r.buf))
		r.buf = slices.Grow(r.buf, more)[:have+more]
		if err := r.fill(r.buf[have:]); err != nil {
			return rec, err
		}
	}
	return rec, r.check.data(rec, r.buf)
}

func (r *Reader) fill(p []byte) error {
	_, err := io.ReadFull(r.in, p)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return r.check.bad("the stream ends early")
	default:
		return fmt.Errorf("read snapshot stream at byte %d: %w", r.check.offset, err)
	}
}

// parser is the push form of Reader: it is fed pieces of any size and calls emit for the head and the pages.
type parser struct {
	check checker
	buf   []byte
	rec   record
	emit  func(kind Kind, id uint64, data []byte) error
}

func (p *parser) write(b []byte) error {
	for len(b) > 0 {
		if p.check.done() {
			return p.check.bad("%d bytes follow the end", len(b))
		}
		need := recordHeader
		if len(p.buf) >= recordHeader {
			need += p.rec.n
		}
		n := min(len(b), need-len(p.buf))
		p.buf = append(p.buf, b[:n]...)
		b = b[n:]
		if err := p.step(); err != nil {
			return err
		}
	}
	return nil
}

// step handles what has become complete: the header, and the record (at once when it has no data).
func (p *parser) step() (err error) {
	if len(p.buf) == recordHeader {
		if p.rec, err = p.check.header(p.buf); err != nil {
			return err
		}
	}
	if len(p.buf) < recordHeader || len(p.buf) < recordHeader+p.rec.n {
		return nil
	}
	data := p.buf[recordHeader:]
	if err := p.check.data(p.rec, data); err != nil {
		return err
	}
	if p.rec.kind == Head || p.rec.kind == Page {
		if err := p.emit(p.rec.kind, p.rec.id, data); err != nil {
			return err
		}
	}
	p.buf = p.buf[:0]
	return nil
}
