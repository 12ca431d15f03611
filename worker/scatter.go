package worker

import (
	"hcclps/internal/vec"
	"hcclps/p2p"
)

// scatter is a p2p.Sink that puts a shard's rows where the reads want them, while they arrive. Its memory serves one pull after another.
type scatter struct {
	rows []landing
	size int // bytes of an answer with all rows
	came int // bytes of the answer at hand

	at  int // the landing of the next byte
	row int // the row of it
	off int // the byte of that
}

// landing is where rows of one table go.
type landing struct {
	out []float32 // the last row may be short: what comes for it beyond is left out
	dim int
	at  []int32
}

func (s *scatter) reset() {
	clear(s.rows)
	s.rows, s.size = s.rows[:0], 0
}

// add says where the next rows of an answer go: at least one.
func (s *scatter) add(out []float32, dim int, at []int32) {
	s.rows = append(s.rows, landing{out, dim, at})
	s.size += 4 * dim * len(at)
}

// begin gets ready for an answer of n bytes, also for another one after it. One of another size is not what was asked for.
func (s *scatter) begin(n int) (p2p.Sink, error) {
	s.came, s.at, s.row, s.off = n, 0, 0, 0
	return s, nil
}

// Len implements p2p.Sink.
func (s *scatter) Len() int { return s.came }

// Place implements p2p.Placer: rows that are neighbours in one read.
func (s *scatter) Place(off, n int) []byte {
	if s.came != s.size {
		return nil
	}
	for i := range s.rows {
		l := &s.rows[i]
		width := 4 * l.dim
		if size := width * len(l.at); off >= size {
			off -= size
			continue
		} else if n > size-off {
			return nil
		}
		first, last := int(l.at[off/width]), int(l.at[(off+n-1)/width])
		if last-first != (off+n-1)/width-off/width || (last+1)*l.dim > len(l.out) {
			return nil
		}
		return vec.BytesOfFloats(l.out)[first*width+off%width:][:n]
	}
	return nil
}

// Take implements p2p.Sink.
func (s *scatter) Take(off int, p []byte) error {
	if s.came != s.size {
		return nil
	}
	if place := s.Place(off, len(p)); place != nil && &place[0] == &p[0] {
		s.skip(len(p))
		return nil
	}
	for len(p) > 0 {
		l := &s.rows[s.at]
		width := 4 * l.dim
		first := int(l.at[s.row]) * l.dim
		row := vec.BytesOfFloats(l.out[first:min(first+l.dim, len(l.out))])
		now := p[:min(len(p), width-s.off)]
		if s.off < len(row) {
			copy(row[s.off:], now)
		}
		p = p[len(now):]
		s.step(len(now), width)
	}
	return nil
}

// skip moves on by n bytes, however many rows these are.
func (s *scatter) skip(n int) {
	for n > 0 {
		width := 4 * s.rows[s.at].dim
		now := min(n, width-s.off)
		s.step(now, width)
		n -= now
	}
}

// step moves on by n bytes, not past the end of the row.
func (s *scatter) step(n, width int) {
	if s.off += n; s.off < width {
		return
	}
	s.off = 0
	if s.row++; s.row == len(s.rows[s.at].at) {
		s.row = 0
		s.at++
	}
}
