package wire

import (
	"errors"
	"fmt"
)

// EntryVersion is the first byte of every log entry.
const EntryVersion = 2

// ErrEntryVersion says that another version of the program wrote an entry of a log. To skip it would lose what it holds.
var ErrEntryVersion = errors.New("log entry of another version: start the program that wrote it on this data directory; to change versions, restore a checkpoint")

// Kinds of log entries of a shard: the second byte. A fence, a finish, a
// hold, a release, a put and a sweep are logged as they were asked for; pushes are logged
// as steps.
const (
	entrySteps   = 1
	entryMessage = 2 // a message behind the two bytes: see Entry.Message
	entryCheck   = 3
)

// Entry is one entry of a shard's log: exactly one of its fields is set.
type Entry struct {
	Steps   []Item  // pushes
	Message Message // *Fence, *Finish, *Hold, *Release, *Put, *Checkpoint, *Restore or *Sweep
	Check   *Check
}

// Item is what one update of the tables is made of. Under bsp it is one part
// of one step of all workers; under ssp and asp one part of one worker's step.
// Payloads holds either one body (a single contribution, or the float32 sum of
// all in ascending rank) or one body a contributor, in ascending rank: apply
// adds in that order, so both give the same bits.
type Item struct {
	Job          string
	Step         uint64
	Part         uint32
	Contributors []Contributor // ascending rank
	Divisor      uint64        // rows behind all contributors; gradients are divided by it (1: sum)
	Rate         float32       // multiplies every table's learning rate at this step
	Rates        []TableRate   // and that of these tables, by what their schedules say; ascending table
	Payloads     [][]byte
}

// TableRate is what a table's schedule says at an item's step.
type TableRate struct {
	Table uint32
	Rate  float32
}

// RateOf is what a table's learning rate is multiplied by.
func (it *Item) RateOf(table uint32) float32 {
	for _, r := range it.Rates {
		if r.Table == table {
			return float32(it.Rate * r.Rate)
		}
	}
	return it.Rate
}

// Contributor is one worker's share of an item.
type Contributor struct {
	Worker      string
	Incarnation uint64
	Rows        uint32
	Cursor      []byte // closing part only
}

// Check is the leader's digest of state at a log index; a replica whose own
// digest at that index differs has diverged and stops.
type Check struct {
	Index  uint64
	Digest uint64
}

func (it *Item) fields(c *coder) {
	c.str(&it.Job)
	c.u64(&it.Step)
	c.u32(&it.Part)
	list(c, &it.Contributors, 20, func(w *Contributor) {
		c.str(&w.Worker)
		c.u64(&w.Incarnation)
		c.u32(&w.Rows)
		c.bytes(&w.Cursor)
	})
	c.u64(&it.Divisor)
	c.f32(&it.Rate)
	list(c, &it.Rates, 8, func(r *TableRate) {
		c.u32(&r.Table)
		c.f32(&r.Rate)
	})
	list(c, &it.Payloads, 4, func(p *[]byte) {
		n := uint32(len(*p))
		c.u32(&n)
		c.pad() // so that the sections can be read in place
		if c.read {
			*p = c.take(int(n))
		} else {
			c.buf = append(c.buf, *p...)
		}
	})
}

// AppendEntry writes a log entry. dst should be empty: payloads are aligned
// relative to its start.
func AppendEntry(dst []byte, e Entry) []byte {
	c := coder{buf: append(dst, EntryVersion, 0)}
	switch {
	case e.Message != nil:
		c.buf[len(dst)+1] = entryMessage
		return Append(c.buf, e.Message)
	case e.Check != nil:
		c.buf[len(dst)+1] = entryCheck
		c.u64(&e.Check.Index)
		c.u64(&e.Check.Digest)
	default:
		c.buf[len(dst)+1] = entrySteps
		list(&c, &e.Steps, 1, func(it *Item) { it.fields(&c) })
	}
	return c.buf
}

// DecodeEntry reads a log entry; payloads and cursors alias b.
func DecodeEntry(b []byte) (Entry, error) {
	var e Entry
	if len(b) < 2 {
		return e, fmt.Errorf("%w: entry of %d bytes", ErrMalformed, len(b))
	}
	if b[0] != EntryVersion {
		return e, fmt.Errorf("version %d, this program reads %d: %w", b[0], EntryVersion, ErrEntryVersion)
	}
	c := coder{buf: b, off: 2, read: true}
	switch b[1] {
	case entryMessage:
		m, err := Decode(b[2:])
		if err != nil {
			return e, err
		}
		switch m.(type) {
		case *Fence, *Finish, *Hold, *Release, *Put, *Checkpoint, *Restore, *Sweep:
			e.Message = m
			return e, nil
		}
		return e, fmt.Errorf("%w: kind %d is never logged", ErrMalformed, m.kind())
	case entryCheck:
		e.Check = &Check{}
		c.u64(&e.Check.Index)
		c.u64(&e.Check.Digest)
	case entrySteps:
		list(&c, &e.Steps, 1, func(it *Item) { it.fields(&c) })
	default:
		c.fail("entry kind %d", b[1])
	}
	return e, c.end()
}
