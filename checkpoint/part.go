package checkpoint

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"unicode/utf8"
)

const (
	partMagic   = "hclppart"
	partVersion = 1
	partFixed   = 56 // bytes before the table of packs
	entryBytes  = 64
	pieceBytes  = 56
	maxPartFile = 1 << 40
	maxBlobName = 255
	noPack      = math.MaxUint32 // of a page that is gone
)

// place says where a chunk is.
type place struct {
	pack uint32 // in the table of packs of its part
	n    uint32 // bytes
	off  int64  // of the record
	sum  sum
}

// entry is a page of a part. One without bytes says that the base's page is gone.
type entry struct {
	table uint32
	page  uint64 // PageID.packed
	place
}

func (e *entry) gone() bool { return e.n == 0 }

func compareEntries(a, b *entry) int {
	return cmp.Or(cmp.Compare(a.table, b.table), cmp.Compare(a.page, b.page))
}

// packRef is a pack that a part needs, and how many bytes of it at least.
type packRef struct {
	name string
	size int64
}

// blob is a named piece of opaque state, in chunks of blobChunk.
type blob struct {
	name   string
	bytes  int64
	pieces []place
}

// partFile is what one writer wrote, or found to be there: the pages of a group.
type partFile struct {
	id     uint64 // of the checkpoint
	group  uint32
	shards uint32
	base   uint64 // 0: the part is full
	packs  []packRef
	pages  []entry // ascending
	blobs  []blob
}

func (p *partFile) encode() ([]byte, error) {
	b := make([]byte, partFixed, partFixed+64*len(p.packs)+entryBytes*len(p.pages)+1024)
	copy(b, partMagic)
	le.PutUint32(b[8:], partVersion)
	le.PutUint32(b[12:], p.group)
	le.PutUint64(b[16:], p.id)
	le.PutUint64(b[24:], p.base)
	le.PutUint32(b[32:], p.shards)
	le.PutUint32(b[36:], uint32(len(p.packs)))
	le.PutUint64(b[40:], uint64(len(p.pages)))
	le.PutUint32(b[48:], uint32(len(p.blobs)))
	for _, k := range p.packs {
		b = append(le.AppendUint16(b, uint16(len(k.name))), k.name...)
		b = le.AppendUint64(b, uint64(k.size))
	}
	if len(b) > math.MaxUint32-4 {
		return nil, fmt.Errorf("encode part: %d packs", len(p.packs))
	}
	le.PutUint32(b[52:], uint32(len(b)+4))
	b = le.AppendUint32(b, crc32.Checksum(b, castagnoli))
	body := len(b)
	for i := range p.pages {
		e := &p.pages[i]
		b = le.AppendUint32(b, e.table)
		b = le.AppendUint64(b, e.page)
		b = append(appendPlace(b, &e.place), 0, 0, 0, 0)
	}
	for i := range p.blobs {
		o := &p.blobs[i]
		b = append(le.AppendUint16(b, uint16(len(o.name))), o.name...)
		b = le.AppendUint64(b, uint64(o.bytes))
		b = le.AppendUint32(b, uint32(len(o.pieces)))
		for j := range o.pieces {
			b = append(appendPlace(b, &o.pieces[j]), 0, 0, 0, 0, 0, 0, 0, 0)
		}
	}
	return le.AppendUint32(b, crc32.Checksum(b[body:], castagnoli)), nil
}

// appendPlace writes 48 bytes.
func appendPlace(b []byte, p *place) []byte {
	b = le.AppendUint32(b, p.pack)
	b = le.AppendUint32(b, p.n)
	b = le.AppendUint64(b, uint64(p.off))
	return append(b, p.sum[:]...)
}

// cursor reads fields and remembers that there were too few bytes.
type cursor struct {
	b    []byte
	off  int
	fail bool
}

func (c *cursor) take(n int) []byte {
	if c.fail || n > len(c.b)-c.off {
		c.fail = true
		return make([]byte, min(n, sumBytes))
	}
	c.off += n
	return c.b[c.off-n : c.off]
}

const sumBytes = len(sum{})

func (c *cursor) u16() uint16 { return le.Uint16(c.take(2)) }
func (c *cursor) u32() uint32 { return le.Uint32(c.take(4)) }
func (c *cursor) u64() uint64 { return le.Uint64(c.take(8)) }

func (c *cursor) text() string {
	n := int(c.u16())
	if b := c.take(n); !c.fail {
		return string(b)
	}
	return ""
}

func (c *cursor) place() (p place) {
	p.pack, p.n, p.off = c.u32(), c.u32(), int64(c.u64())
	copy(p.sum[:], c.take(sumBytes))
	return p
}

// zero demands n zero bytes.
func (c *cursor) zero(n int) {
	if !bytes.Equal(c.take(n), make([]byte, n)) {
		c.fail = true
	}
}

// decodePartHead reads what is before the pages, from bytes that may hold more or
// fewer. need is how many bytes the head has, once that is known.
func decodePartHead(b []byte) (p *partFile, pages uint64, blobs uint32, need int, err error) {
	bad := func(at int, format string, args ...any) (*partFile, uint64, uint32, int, error) {
		return nil, 0, 0, need, &DamageError{Offset: int64(at), Reason: fmt.Sprintf(format, args...)}
	}
	if len(b) < partFixed+4 || string(b[:8]) != partMagic {
		return bad(0, "it is no part of a checkpoint")
	}
	switch v := le.Uint32(b[8:]); {
	case v > partVersion:
		return nil, 0, 0, 0, fmt.Errorf("part of version %d, this program reads up to %d: %w", v, partVersion, ErrVersion)
	case v == 0:
		return bad(8, "part of version 0")
	}
	need = int(le.Uint32(b[52:]))
	if need < partFixed+4 {
		return bad(52, "a head of %d bytes", need)
	}
	if need > len(b) {
		return bad(len(b), "it ends inside its head of %d bytes", need)
	}
	if got, want := crc32.Checksum(b[:need-4], castagnoli), le.Uint32(b[need-4:]); got != want {
		return bad(need-4, "the CRC of the head is %08x, the file says %08x", got, want)
	}
	c := &cursor{b: b[:need-4], off: 12}
	p = &partFile{group: c.u32(), id: c.u64(), base: c.u64(), shards: c.u32()}
	packs := c.u32()
	pages, blobs = c.u64(), c.u32()
	c.off = partFixed
	for range packs {
		k := packRef{name: c.text(), size: int64(c.u64())}
		if c.fail || !plain(k.name, kindPack) || k.size < packHead {
			return bad(c.off, "pack %q of %d bytes", k.name, k.size)
		}
		p.packs = append(p.packs, k)
	}
	if c.off != len(c.b) || p.id == 0 || p.base >= p.id {
		return bad(c.off, "a head of checkpoint %d, base %d, with %d packs in %d bytes", p.id, p.base, packs, len(c.b))
	}
	return p, pages, blobs, need, nil
}

// decodePart checks everything that can be checked without the packs. Its error
// is a *DamageError without a file, or ErrVersion.
func decodePart(b []byte) (*partFile, error) {
	bad := func(at int, format string, args ...any) (*partFile, error) {
		return nil, &DamageError{Offset: int64(at), Reason: fmt.Sprintf(format, args...)}
	}
	p, pages, blobs, need, err := decodePartHead(b)
	if err != nil {
		return nil, err
	}
	if len(b) < need+4 {
		return bad(len(b), "it ends after its head")
	}
	if got, want := crc32.Checksum(b[need:len(b)-4], castagnoli), le.Uint32(b[len(b)-4:]); got != want {
		return bad(len(b)-4, "CRC is %08x, the file says %08x", got, want)
	}
	c := &cursor{b: b[:len(b)-4], off: need}
	if pages > uint64(len(c.b)-need)/entryBytes {
		return bad(40, "%d pages in %d bytes", pages, len(c.b)-need)
	}
	p.pages = make([]entry, pages)
	for i := range p.pages {
		e := &p.pages[i]
		e.table, e.page, e.place = c.u32(), c.u64(), c.place()
		c.zero(4)
		if i > 0 && compareEntries(&p.pages[i-1], e) >= 0 {
			return bad(c.off-entryBytes, "page %d of table %d is out of order", e.page, e.table)
		}
		if e.gone() && e.pack == noPack && p.base > 0 && !c.fail {
			continue
		}
		if c.fail || !p.holds(&e.place) {
			return bad(c.off-entryBytes, "page %d of table %d is %d bytes at %d of pack %d", e.page, e.table, e.n, e.off, e.pack)
		}
	}
	for range blobs {
		o, ok := c.blob(p)
		if !ok || len(p.blobs) > 0 && p.blobs[len(p.blobs)-1].name >= o.name {
			return bad(c.off, "blob %q of %d bytes in %d pieces", o.name, o.bytes, len(o.pieces))
		}
		p.blobs = append(p.blobs, o)
	}
	if c.off != len(c.b) {
		return bad(c.off, "%d bytes after the last blob", len(c.b)-c.off)
	}
	return p, nil
}

// holds reports whether a record can be there.
func (p *partFile) holds(at *place) bool {
	if int64(at.pack) >= int64(len(p.packs)) || at.n == 0 || at.n > maxChunk || at.off < packHead {
		return false
	}
	return at.off <= p.packs[at.pack].size-recordHead-int64(at.n)
}

func (c *cursor) blob(p *partFile) (o blob, ok bool) {
	o.name, o.bytes = c.text(), int64(c.u64())
	pieces := c.u32()
	if c.fail || !validBlob(o.name) || int64(pieces) > int64(len(c.b)-c.off)/pieceBytes {
		return o, false
	}
	o.pieces = make([]place, pieces)
	total := int64(0)
	for i := range o.pieces {
		o.pieces[i] = c.place()
		c.zero(8)
		if c.fail || !p.holds(&o.pieces[i]) {
			return o, false
		}
		total += int64(o.pieces[i].n)
	}
	return o, total == o.bytes
}

// validBlob bounds what a blob may be called.
func validBlob(name string) bool {
	return name != "" && len(name) <= maxBlobName && utf8.ValidString(name)
}

// merge lays the pages of a delta over those of its base; what is gone is left
// out. Packs of the result are numbered in the table of packs that into grows.
func merge(base []entry, delta *partFile, number func(pack uint32) uint32) []entry {
	all := make([]entry, 0, len(base)+len(delta.pages))
	for i := range delta.pages {
		e := delta.pages[i]
		for len(base) > 0 && compareEntries(&base[0], &e) < 0 {
			all, base = append(all, base[0]), base[1:]
		}
		if len(base) > 0 && compareEntries(&base[0], &e) == 0 {
			base = base[1:]
		}
		if !e.gone() {
			e.pack = number(e.pack)
			all = append(all, e)
		}
	}
	return append(all, base...)
}

// compactEntries sorts, and lets the last of equal pages count.
func compactEntries(pages []entry) []entry {
	slices.SortStableFunc(pages, func(a, b entry) int { return compareEntries(&a, &b) })
	out := pages[:0]
	for i := range pages {
		if i+1 < len(pages) && compareEntries(&pages[i], &pages[i+1]) == 0 {
			continue
		}
		out = append(out, pages[i])
	}
	return out
}
