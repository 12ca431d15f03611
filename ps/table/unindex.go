package table

import "hcclps/internal/vec"

// spot is a place in the index: a slot of a line of a chunk.
type spot struct {
	chunk chunkRef
	line  uint32 // of the chunk
	slot  int
}

// spotOf finds where the index holds a row; h is the mix of its key, and p has an index.
func (t *Table) spotOf(p *partition, h uint64, row uint32) (s spot, ok bool) {
	s.chunk = *p.chunkOf(h)
	s.line = s.chunk.start(h)
	for range s.chunk.lines() {
		l := t.line(s.chunk.first() + s.line)
		low, high := l.match(uint8(h))
		for low|high != 0 {
			if s.slot = slotOf(&low, &high); l.rows[s.slot] == row {
				return s, true
			}
		}
		if l.used < lineSlots {
			break
		}
		if s.line++; s.line == s.chunk.lines() {
			s.line = 0
		}
	}
	return s, false
}

// unindex takes a row out of the index, and reports whether it was there. Every search ends at a line with a free slot, so where a full line gets
// one, a row whose search went past it moves in, and so on: the backward shift of Knuth, The Art of Computer Programming 3, 6.4, algorithm R, by lines.
func (t *Table) unindex(p *partition, h uint64, row uint32) bool {
	s, ok := t.spotOf(p, h, row)
	if !ok {
		return false
	}
	first := s.chunk.first()
	head := t.line(first)
	head.setChunkRows(head.chunkRows() - 1)
	for {
		l := t.line(first + s.line)
		full := l.used == lineSlots
		l.used--
		l.tags[s.slot], l.rows[s.slot] = l.tags[l.used], l.rows[l.used]
		if !full {
			return true
		}
		next, ok := t.passer(s)
		if !ok {
			return true
		}
		from := t.line(first + next.line)
		l.tags[l.used], l.rows[l.used] = from.tags[next.slot], from.rows[next.slot]
		l.used++
		s = next
	}
}

// passer finds a row beyond a line that was full, the search for which goes past that line.
func (t *Table) passer(hole spot) (s spot, ok bool) {
	n := hole.chunk.lines()
	s = hole
	for ahead := uint32(1); ahead < n; ahead++ {
		if s.line++; s.line == n {
			s.line = 0
		}
		l := t.line(s.chunk.first() + s.line)
		for i, row := range l.rows[:l.used] {
			h := vec.Mix64(t.record(row).key(), t.spec.HashSeed)
			if (s.line+n-s.chunk.start(h))%n >= ahead {
				s.slot = i
				return s, true
			}
		}
		if l.used < lineSlots {
			break
		}
	}
	return s, false
}

// reindex gives a row that is in the index another number.
func (t *Table) reindex(p *partition, h uint64, row, number uint32) {
	if s, ok := t.spotOf(p, h, row); ok {
		t.line(s.chunk.first() + s.line).rows[s.slot] = number
	}
}
