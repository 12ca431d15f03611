package worker

import (
	"hcclps/internal/vec"
	"hcclps/ps/wire"
)

// body is what a shard gets of a step: the sections that wire.AppendPicked would write one after another, whose values are copied from
// the gradients only when they are sent. It is a p2p.Source that nobody changes while it is sent.
type body struct {
	sections []section
	heads    []byte // of all sections, with their keys
	size     int
	raw      int // what it would be without codes
	plain    int // of that, what codes decode to
}

// section is some rows of a table's gradient.
type section struct {
	start  int // offset in the body
	head   int // where its head begins in heads
	values int // offset in the body
	end    int // offset in the body; up to 7 zeros behind the values
	dim    int
	all    []float32 // of which these are the rows
	at     []int32
	code   []byte // instead of rows
}

func (b *body) reset() {
	clear(b.sections)
	b.sections, b.heads, b.size, b.raw, b.plain = b.sections[:0], b.heads[:0], 0, 0, 0
}

// add appends the section of the rows of s at the given positions, at least one. The last row of s may be short: zeros
// follow.
func (b *body) add(s wire.Section, at []int32) {
	n := section{start: b.size, head: len(b.heads), dim: s.Dim, all: s.Values, at: at}
	b.heads = wire.AppendPickedKeys(b.heads, s, at)
	n.values = n.start + len(b.heads) - n.head
	n.end = n.start + wire.SectionSize(len(at), s.Dim)
	b.sections = append(b.sections, n)
	b.size = n.end
	b.raw += n.end - n.start
}

// addCode appends a section with a code, of so many rows, which must not change before the step has been acknowledged.
func (b *body) addCode(s wire.Section) {
	n := section{start: b.size, head: len(b.heads), code: s.Code}
	b.heads = wire.AppendCodedHead(b.heads, s)
	n.values = n.start + len(b.heads) - n.head
	n.end = n.start + wire.CodedSize(len(s.Code))
	b.sections = append(b.sections, n)
	b.size = n.end
	b.raw += wire.SectionSize(s.Rows, s.Dim)
	b.plain += wire.PlainSize(s.Rows, s.Dim)
}

// Len implements p2p.Source.
func (b *body) Len() int { return b.size }

// Fill implements p2p.Source.
func (b *body) Fill(off int, p []byte) error {
	for i := range b.sections {
		s := &b.sections[i]
		if len(p) == 0 {
			break
		}
		if off >= s.end {
			continue
		}
		if off < s.values {
			n := copy(p, b.heads[s.head+off-s.start:][:s.values-off])
			p, off = p[n:], off+n
		}
		if off < s.values {
			break
		}
		n := min(len(p), s.end-off)
		s.fill(off-s.values, p[:n])
		p, off = p[n:], off+n
	}
	return nil
}

// Locate implements p2p.Located: the rows of a dense tensor, and those of a table that are wide or neighbours.
func (b *body) Locate(off, n, most int) [][]byte {
	var places [][]byte
	for i := range b.sections {
		s := &b.sections[i]
		if n == 0 || len(places) > most {
			break
		}
		if off >= s.end {
			continue
		}
		if off < s.values {
			head := b.heads[s.head+off-s.start:][:min(n, s.values-off)]
			places = append(places, head)
			off, n = off+len(head), n-len(head)
		}
		if n == 0 {
			break
		}
		part := min(n, s.end-off)
		places = s.locate(places, off-s.values, part, most)
		off, n = off+part, n-part
	}
	if len(places) > most {
		return nil
	}
	return places
}

// locate appends where n of the values from byte off on are, and of what is behind them. It may stop when there are more than most places.
func (s *section) locate(places [][]byte, off, n, most int) [][]byte {
	if s.code != nil {
		if off < len(s.code) {
			places = append(places, s.code[off:][:min(n, len(s.code)-off)])
			n -= min(n, len(s.code)-off)
		}
		return zeros(places, n)
	}
	all, row := vec.BytesOfFloats(s.all), 4*s.dim
	for n > 0 && off < row*len(s.at) && len(places) <= most {
		i := off / row
		last := i + 1
		for last < len(s.at) && s.at[last] == s.at[last-1]+1 && row*last < off+n {
			last++
		}
		size := min(n, row*last-off) // of neighbours
		first := int(s.at[i])*row + off%row
		have := min(size, max(0, len(all)-first))
		if have > 0 {
			places = append(places, all[first:][:have])
		}
		places = zeros(places, size-have)
		off, n = off+size, n-size
	}
	if len(places) > most {
		return places
	}
	return zeros(places, n)
}

// zeros appends n of them.
func zeros(places [][]byte, n int) [][]byte {
	if n == 0 {
		return places
	}
	return append(places, make([]byte, n))
}

// wideRow is the bytes of a row from which on the next one is asked for while one is copied: a large gradient is not in the cache, and its rows
// are dealt out to shards and parts, so that the CPU does not see where they go on.
const wideRow = 1 << 10

// row is a row; the last of the table may be short.
func (s *section) row(i int) []float32 {
	first := int(s.at[i]) * s.dim
	return s.all[first:min(first+s.dim, len(s.all))]
}

// fill writes the values from byte off on, and what is behind them.
func (s *section) fill(off int, p []byte) {
	if s.code != nil {
		n := 0
		if off < len(s.code) {
			n = copy(p, s.code[off:])
		}
		clear(p[n:])
		return
	}
	row := 4 * s.dim
	for len(p) > 0 && off < row*len(s.at) {
		at := off / row
		if row >= wideRow && len(p) > row && at+1 < len(s.at) {
			vec.Expect(s.row(at + 1))
		}
		values := vec.BytesOfFloats(s.row(at))
		now := p[:min(len(p), row-off%row)]
		n := 0
		if off%row < len(values) {
			n = copy(now, values[off%row:])
		}
		clear(now[n:])
		p, off = p[len(now):], off+len(now)
	}
	clear(p)
}
