package table

import (
	"errors"
	"math/bits"
	"unsafe"

	"hcclps/internal/vec"
)

// The index of a partition is extendible hashing: a directory of chunks, each a small open-addressing table of its own, so that growth is
// the split of one chunk of a few hundred rows and nothing is ever rehashed as a whole. The mix of a key is used from the top:
// 10 bits partition, then the directory; from the bottom: 8 bits tag, 24 bits line.
//
// All chunks of a hash would fill at the same time and the whole index would be half empty just after. So partition p starts with chunks
// of 16 + p mod 16 lines: at any count some partitions have just split and others are about to, and the average stays near 70 % full.
//
// A partition of up to scanRows rows has no index: its rows are looked at one by one.
const (
	scanRows = 8
	minLines = 16
	maxDepth = 22 // directory bits: those between partition and line
	none     = ^uint32(0)
	// lineSlots fill a cache line: a tag of one byte and a row number of four each, and four bytes to count.
	lineSlots = 12
)

// line is one cache line of an index. Slots fill from the first; nothing is deleted, so a line with a free slot ends a search.
type line struct {
	tags  [lineSlots]uint8
	used  uint8
	chunk [3]uint8 // rows of the chunk, little endian; in its first line only
	rows  [lineSlots]uint32
}

// chunkRef is a directory entry: number of the first line 32 bits, lines 24, depth 8.
type chunkRef uint64

func newChunkRef(first uint32, lines, depth int) chunkRef {
	return chunkRef(first)<<32 | chunkRef(lines)<<8 | chunkRef(depth)
}

func (c chunkRef) first() uint32 { return uint32(c >> 32) }
func (c chunkRef) lines() uint32 { return uint32(c) >> 8 }
func (c chunkRef) depth() uint   { return uint(c & 0xff) }

// start is the line of the chunk at which the search for a hash begins.
func (c chunkRef) start(h uint64) uint32 {
	return uint32((h >> 8 & 0xffffff) * uint64(c.lines()) >> 24)
}

// capacity is the number of rows at which the chunk splits.
func (c chunkRef) capacity() uint32 { return c.lines() * lineSlots * 7 / 8 }

func (l *line) chunkRows() uint32 {
	return uint32(l.chunk[0]) | uint32(l.chunk[1])<<8 | uint32(l.chunk[2])<<16
}

func (l *line) setChunkRows(n uint32) { l.chunk = [3]uint8{uint8(n), uint8(n >> 8), uint8(n >> 16)} }

// match returns a bit (of weight 0x80 in a byte) for each slot that may hold the tag; borrow may add a false one above a true one.
func (l *line) match(tag uint8) (low, high uint64) {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	words := (*[2]uint64)(unsafe.Pointer(l))
	pattern := uint64(tag) * ones
	a, b := words[0]^pattern, words[1]^pattern
	low, high = (a-ones)&^a&tops, (b-ones)&^b&tops&0xffffffff
	if n := uint(l.used); n < 8 {
		return low & (1<<(8*n) - 1), 0
	} else if n < lineSlots {
		high &= 1<<(8*(n-8)) - 1
	}
	return low, high
}

// slotOf takes the lowest slot out of a match.
func slotOf(low, high *uint64) int {
	if *low != 0 {
		i := bits.TrailingZeros64(*low) >> 3
		*low &= *low - 1
		return i
	}
	i := bits.TrailingZeros64(*high) >> 3
	*high &= *high - 1
	return i + 8
}

func (t *Table) line(i uint32) *line { return (*line)(t.lines.at(i)) }

// chunkOf is the directory's entry for a hash; p has an index.
func (p *partition) chunkOf(h uint64) *chunkRef { return &p.dir[h>>p.shift&uint64(len(p.dir)-1)] }

// find returns the number of a key's row, or none.
func (t *Table) find(h, key uint64) uint32 {
	p := &t.parts[h>>54]
	if p.dir == nil {
		return t.scanUnindexed(p, key)
	}
	c := *p.chunkOf(h)
	at, n := c.start(h), c.lines()
	for range n {
		l := t.line(c.first() + at)
		low, high := l.match(uint8(h))
		for low|high != 0 {
			if row := l.rows[slotOf(&low, &high)]; t.record(row).key() == key {
				return row
			}
		}
		if l.used < lineSlots {
			return none
		}
		if at++; at == n {
			at = 0
		}
	}
	return none
}

func (t *Table) scanUnindexed(p *partition, key uint64) uint32 {
	for i := range p.rows {
		if row := t.rowNumber(p, i); t.record(row).key() == key {
			return row
		}
	}
	return none
}

// insert adds a row that find did not return. It is called after the row is in its partition.
func (t *Table) insert(h uint64, row uint32) error {
	p := &t.parts[h>>54]
	if p.dir == nil {
		if p.rows <= scanRows {
			return nil
		}
		return t.startIndex(p, int(h>>54))
	}
	for {
		c := *p.chunkOf(h)
		if t.line(c.first()).chunkRows() < c.capacity() {
			t.put(c, h, row)
			return nil
		}
		if err := t.growChunk(p, h, c); err != nil {
			return err
		}
	}
}

// put writes a row into a chunk with room.
func (t *Table) put(c chunkRef, h uint64, row uint32) {
	at, n := c.start(h), c.lines()
	l := t.line(c.first() + at)
	for l.used == lineSlots {
		if at++; at == n {
			at = 0
		}
		l = t.line(c.first() + at)
	}
	l.tags[l.used], l.rows[l.used] = uint8(h), row
	l.used++
	head := t.line(c.first())
	head.setChunkRows(head.chunkRows() + 1)
}

// startIndex gives a partition its first chunk, with all its rows.
func (t *Table) startIndex(p *partition, number int) error {
	n := minLines + number%minLines
	first, err := t.lines.take(n)
	if err != nil {
		return err
	}
	p.dir, p.shift = []chunkRef{newChunkRef(first, n, 0)}, 54
	t.spec.Memory.Add(8)
	for i := range p.rows {
		row := t.rowNumber(p, i)
		t.put(p.dir[0], vec.Mix64(t.record(row).key(), t.spec.HashSeed), row)
	}
	return nil
}

// growChunk makes room in a full chunk: it splits in two by the next bit of the hash. Keys chosen to share those bits could blow up the
// directory without end; where it would be out of proportion to the rows, the chunk gets twice the lines instead.
func (t *Table) growChunk(p *partition, h uint64, c chunkRef) error {
	depth := 54 - p.shift
	deepen := c.depth() == depth
	if deepen && (depth == maxDepth || len(p.dir) > 16+int(p.rows)/16) {
		return t.widen(p, h, c)
	}
	fresh, err := t.lines.take(int(c.lines()))
	if err != nil {
		return err
	}
	if deepen {
		dir := make([]chunkRef, 2*len(p.dir))
		for i, e := range p.dir {
			dir[2*i], dir[2*i+1] = e, e
		}
		t.spec.Memory.Add(8 * int64(len(dir)-len(p.dir)))
		p.dir = dir
		p.shift--
	}
	rows := t.empty(c)
	d := c.depth() + 1
	zero := newChunkRef(c.first(), int(c.lines()), int(d))
	one := newChunkRef(fresh, int(c.lines()), int(d))
	span := len(p.dir) >> c.depth()
	base := int(h>>p.shift&uint64(len(p.dir)-1)) &^ (span - 1)
	for i := range span {
		if i < span/2 {
			p.dir[base+i] = zero
		} else {
			p.dir[base+i] = one
		}
	}
	for _, row := range rows {
		h := vec.Mix64(t.record(row).key(), t.spec.HashSeed)
		t.put(*p.chunkOf(h), h, row)
	}
	return nil
}

// widen moves a chunk to twice the lines. The old lines are not used again: only hostile keys come here.
func (t *Table) widen(p *partition, h uint64, c chunkRef) error {
	n := 2 * int(c.lines())
	if n*lineSlots >= 1<<24 {
		return errors.New("grow table: millions of keys share 32 bits of their hash: change the table's hash seed")
	}
	first, err := t.lines.take(n)
	if err != nil {
		return err
	}
	wide := newChunkRef(first, n, int(c.depth()))
	span := len(p.dir) >> c.depth()
	base := int(h>>p.shift&uint64(len(p.dir)-1)) &^ (span - 1)
	for i := range span {
		p.dir[base+i] = wide
	}
	for _, row := range t.empty(c) {
		t.put(wide, vec.Mix64(t.record(row).key(), t.spec.HashSeed), row)
	}
	return nil
}

// empty takes all rows out of a chunk, and asks for their records ahead, since their keys are read next. The result is valid until the next call.
func (t *Table) empty(c chunkRef) []uint32 {
	t.moved, t.ahead = t.moved[:0], t.ahead[:0]
	for i := range c.lines() {
		l := t.line(c.first() + i)
		for _, row := range l.rows[:l.used] {
			t.moved = append(t.moved, row)
			t.ahead = append(t.ahead, uintptr(t.rowAt(row)))
		}
		*l = line{}
	}
	vec.Prefetch(t.ahead, 1)
	return t.moved
}
