package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// PageID names one page of a table: partition, and place in the partition's order of arrival.
type PageID struct {
	Partition uint16
	Page      uint32
}

// Uint64 packs the id; ids sort as their packed form.
func (p PageID) Uint64() uint64 { return uint64(p.Partition)<<32 | uint64(p.Page) }

// String is partition/page.
func (p PageID) String() string { return fmt.Sprintf("%d/%d", p.Partition, p.Page) }

const (
	batchBytes   = 256 << 10 // of pages gathered under one hold of the lock
	batchVisited = 4096      // pages looked at under one hold of the lock
	leastCopies  = 1 << 20   // bytes mapped at once for copies; those not used take no memory
)

// Capture is the table as it was at one moment. Epoch, Pages and Close may be called while the table is read and applied to.
type Capture struct {
	t     *Table
	epoch uint32
	rows  [Partitions]uint32 // of each partition at the moment
	pages [Partitions]uint32 // as in partition
	cut   [Partitions]uint32 // as in partition

	mu      sync.Mutex // guards the rest; nothing is waited for under it
	copies  map[uint64]savedUnit
	units   slabs  // of the copies, outside of the heap: its collector would let it grow to twice of them
	held    int64  // bytes charged to the budget
	next    PageID // first page not yet gathered
	started bool
	all     bool
	since   uint32
	closed  bool
}

// savedUnit is a copy unit as it was, and when it had been written.
type savedUnit struct {
	epoch uint32
	block uint32 // of Capture.units
}

// Capture holds the table as of now, at once and without copying a row: it begins an epoch, and from here on Apply sets a unit aside before its
// first write to it. It is called under the owner's write lock. It returns nil while an earlier capture is open: there is at most one.
func (t *Table) Capture() *Capture {
	if t.capture.Load() != nil {
		return nil
	}
	c := &Capture{t: t, epoch: t.epoch, copies: make(map[uint64]savedUnit), units: newSlabs(t.units.block, 0)}
	c.units.least = leastCopies
	for i := range t.parts {
		p := &t.parts[i]
		c.rows[i], c.pages[i], c.cut[i] = p.rows, p.pages, p.cut
	}
	t.epoch++
	if c.closed = t.closed; !c.closed {
		t.capture.Store(c)
	}
	return c
}

// Epoch is the epoch that the capture ended: give it as since to the Pages of a later capture, and only what changed in between is emitted.
func (c *Capture) Epoch() uint32 { return c.epoch }

// Close frees the copies; Pages under way ends with ErrClosed. It may be called at any time, more than once.
func (c *Capture) Close() {
	units := c.over()
	_ = units.close() // mappings of our own
}

// over is Close but for unmapping the copies, which it returns: no Apply is to wait for that.
func (c *Capture) over() slabs {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return slabs{}
	}
	c.closed = true
	units := c.units
	c.copies, c.units = nil, slabs{}
	c.t.budget.release(c.held, 0)
	c.held = 0
	c.t.capture.CompareAndSwap(c, nil)
	return units
}

func (c *Capture) bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held
}

// save sets a unit aside before its first write since the capture, unless its page is out already or will not be asked for.
// The caller holds the owner's write lock.
func (c *Capture) save(unit uint32, head *unitHead, number int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	t := c.t
	first := head.ordinal << t.ushift
	page := PageID{uint16(number), head.ordinal / pageUnits}
	if first >= c.rows[number] || page.Uint64() < c.next.Uint64() || c.started && !c.wanted(page) {
		return nil
	}
	block, err := c.units.take(1)
	if err != nil {
		return fmt.Errorf("set a unit aside for a capture: %w", err)
	}
	copy(c.units.bytesOf(block), t.unitBytes(unit))
	c.copies[unitKey(number, head.ordinal)] = savedUnit{head.epoch, block}
	size := int64(t.units.block)
	c.held += size
	reserved := min(size, t.reserved)
	t.reserved -= reserved
	t.budget.charge(size, reserved)
	return nil
}

func unitKey(number int, ordinal uint32) uint64 { return uint64(number)<<32 | uint64(ordinal) }

// unitsOf is the range of a page's units that the capture has.
func (c *Capture) unitsOf(id PageID) (first, end uint32) {
	units := (c.rows[id.Partition] + 1<<c.t.ushift - 1) >> c.t.ushift
	first = id.Page * pageUnits
	return first, min(units, first+pageUnits)
}

// end is the first page that is not to be looked at: behind the last, and behind those that have become empty after since.
func (c *Capture) end(partition uint16) uint32 {
	pageRows := uint32(c.t.spec.PageRows())
	pages := (c.rows[partition] + pageRows - 1) / pageRows
	if !c.all && c.cut[partition] > c.since {
		pages = max(pages, c.pages[partition])
	}
	return pages
}

// wanted reports whether the page is to be emitted: it has a unit that was written after since and before the capture.
// A unit written after the capture counts by its copy; one without a copy was found unwanted before.
func (c *Capture) wanted(id PageID) bool {
	if c.all {
		return true
	}
	p := &c.t.parts[id.Partition]
	first, end := c.unitsOf(id)
	for ordinal := first; ordinal < end; ordinal++ {
		epoch := c.written(p, ordinal)
		if epoch > c.epoch {
			epoch = c.copies[unitKey(int(id.Partition), ordinal)].epoch
		}
		if epoch > c.since {
			return true
		}
	}
	return first >= end // the page has become empty
}

// written is the epoch in which a unit of a partition was written last, one that is gone after the capture.
func (c *Capture) written(p *partition, ordinal uint32) uint32 {
	if int(ordinal) >= len(p.units) {
		return c.epoch + 1
	}
	return c.t.headOf(p.units[ordinal]).epoch
}

// copyOf is the copy of a unit, if it was written after the capture.
func (c *Capture) copyOf(id PageID, ordinal uint32) (savedUnit, bool) {
	if len(c.copies) == 0 || c.written(&c.t.parts[id.Partition], ordinal) <= c.epoch {
		return savedUnit{}, false
	}
	saved, ok := c.copies[unitKey(int(id.Partition), ordinal)]
	return saved, ok
}

// Pages emits every page as it was when the capture was made, by ascending id: all of them, or those with a row written after epoch since.
// lock is the reader's side of the owner's lock: it is held for a few pages at a time and never during emit. data is the emitter's
// until it returns. A page that has become empty after since comes without a row, maybe more than once. Pages runs once a capture; an error of emit ends it and is returned as it is.
func (c *Capture) Pages(all bool, since uint32, emit func(id PageID, data []byte) error, lock sync.Locker) error {
	c.mu.Lock()
	if c.started {
		c.mu.Unlock()
		return errors.New("emit pages: the capture was emitted before: make another")
	}
	c.started, c.all, c.since = true, all, since
	c.mu.Unlock()

	var b pageBatch
	for done := false; !done; {
		var err error
		lock.Lock()
		done, err = c.gather(&b)
		lock.Unlock()
		if err != nil {
			return err
		}
		at := 0
		for i, id := range b.ids {
			if err := emit(id, b.data[at:b.ends[i]:b.ends[i]]); err != nil {
				return err
			}
			at = b.ends[i]
		}
		if err := b.fetch(c.t); err != nil {
			return err
		}
	}
	return nil
}

// pageBatch is the pages gathered under one hold of the lock.
type pageBatch struct {
	ids  []PageID
	ends []int // of each page in data
	data []byte
	need []uint32          // cold units of the pages that come next
	have map[uint32][]byte // those that were read, until they are in data
}

// fetch reads the cold units that are needed. No lock is held: a unit that changes after the capture was copied before, so while there is no copy of
// it, what is read is what it was.
func (b *pageBatch) fetch(t *Table) error {
	if len(b.need) == 0 {
		return nil
	}
	slices.Sort(b.need)
	data := make([]byte, len(b.need)*t.units.block)
	if err := t.tier.store.Read(b.need, data); err != nil {
		return t.fail(fmt.Errorf("read cold rows: %w", err))
	}
	t.tier.read.Add(int64(len(b.need)))
	if b.have == nil {
		b.have = map[uint32][]byte{}
	}
	for i, unit := range b.need {
		b.have[unit] = data[i*t.units.block:][:t.units.block]
	}
	b.need = b.need[:0]
	return nil
}

// gather copies the next pages out of the table and reports whether there are no more. It stops before a page with cold units that are not at hand. The
// caller holds the reader's lock.
func (c *Capture) gather(b *pageBatch) (done bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false, fmt.Errorf("emit pages: %w", ErrClosed)
	}
	b.ids, b.ends, b.data = b.ids[:0], b.ends[:0], b.data[:0]
	for range batchVisited {
		if c.next = c.settled(c.next); c.next.Partition == Partitions {
			return true, nil
		}
		if c.wanted(c.next) {
			if c.lacks(b, c.next) {
				b.need = b.need[:0]
				c.lookAhead(b)
				return false, nil
			}
			b.ids = append(b.ids, c.next)
			b.data = c.appendPage(b, c.next)
			b.ends = append(b.ends, len(b.data))
		}
		c.drop(c.next)
		c.next.Page++
		if len(b.data) >= batchBytes {
			break
		}
	}
	return false, nil
}

// settled is the page itself, or if its partition ends before it, the first page after.
func (c *Capture) settled(id PageID) PageID {
	for int(id.Partition) < Partitions && id.Page >= c.end(id.Partition) {
		id = PageID{Partition: id.Partition + 1}
	}
	return id
}

// lookAhead notes the cold units of the pages that come next.
func (c *Capture) lookAhead(b *pageBatch) {
	id := c.next
	for range batchVisited {
		if id = c.settled(id); id.Partition == Partitions || len(b.need)*c.t.units.block >= batchBytes {
			return
		}
		if c.wanted(id) {
			c.lacks(b, id)
		}
		id.Page++
	}
}

// lacks notes the cold units of a page that are not at hand, and says whether there are any.
func (c *Capture) lacks(b *pageBatch, id PageID) bool {
	t := c.t
	if t.tier == nil {
		return false
	}
	before := len(b.need)
	units := t.parts[id.Partition].units
	first, end := c.unitsOf(id)
	for ordinal := first; ordinal < min(end, uint32(len(units))); ordinal++ {
		unit := units[ordinal]
		if t.tier.at(unit).slot&isCold == 0 || b.have[unit] != nil {
			continue
		}
		if _, saved := c.copyOf(id, ordinal); !saved {
			b.need = append(b.need, unit)
		}
	}
	return len(b.need) > before
}

// appendPage writes a page in the form of the package comment.
func (c *Capture) appendPage(b *pageBatch, id PageID) []byte {
	t, data := c.t, b.data
	p := &t.parts[id.Partition]
	first, end := c.unitsOf(id)
	if first >= end {
		return binary.LittleEndian.AppendUint16(data, 0)
	}
	rows := min(c.rows[id.Partition], end<<t.ushift) - first<<t.ushift
	data = binary.LittleEndian.AppendUint16(data, uint16(rows))
	left := int(rows) * t.stride
	for ordinal := first; ordinal < end; ordinal++ {
		n := min(left, t.units.block)
		left -= n
		if saved, ok := c.copyOf(id, ordinal); ok {
			data = append(data, c.units.bytesOf(saved.block)[:n]...)
		} else if unit := p.units[ordinal]; t.tier != nil && t.tier.at(unit).slot&isCold != 0 {
			data = append(data, b.have[unit][:n]...)
			delete(b.have, unit)
		} else {
			data = append(data, t.unitBytes(unit)[:n]...)
		}
	}
	return data
}

// drop gives back the copies of a page that is out.
func (c *Capture) drop(id PageID) {
	first, end := c.unitsOf(id)
	n := int64(0)
	for ordinal := first; ordinal < end; ordinal++ {
		if saved, ok := c.copyOf(id, ordinal); ok {
			delete(c.copies, unitKey(int(id.Partition), ordinal))
			c.units.give(saved.block)
			n += int64(c.t.units.block)
		}
	}
	c.held -= n
	c.t.budget.release(n, 0)
}
