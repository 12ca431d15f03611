package p2p

// Source makes the bytes of a transfer that is sent. Fill is called by one goroutine at a time and must not wait for the Transfer.
type Source interface {
	// Len is the number of bytes.
	Len() int
	// Fill writes the bytes from offset off on to all of p, in rising order of off; after a fault the bytes from an earlier
	// offset on are asked for again and must be the same. off and len(p) are multiples of 64, but for the end and for chunk sizes below 64. An
	// error gives the transfer up.
	Fill(off int, p []byte) error
}

// Sink takes the bytes of a transfer that is received. Take is called by one goroutine at a time and must not wait for the Transfer.
type Sink interface {
	// Len is the number of bytes.
	Len() int
	// Take takes p, which begins at offset off. Every byte comes once, in order, whatever happens to connections. p is valid
	// during the call. The borders are those of Source.Fill. An error gives the transfer up.
	Take(off int, p []byte) error
}

// Placer is a Sink that has memory for some of its bytes. What does not come piece by piece ([Piecewise]) is received there, if it can be,
// and then taken from there.
type Placer interface {
	Sink
	// Place is the memory that n bytes from offset off on are for, or nil where there is none in one piece. Nothing else writes to it until
	// the bytes are taken, or the transfer is done.
	Place(off, n int) []byte
}

// pieces is a Source of memory, which is sent from where it lies when a chunk is within one piece.
type pieces struct {
	list  [][]byte
	total int

	at   int // piece that holds the offset asked for last
	base int // offset of that piece
}

func newPieces(body [][]byte) *pieces {
	p := &pieces{list: body}
	for _, b := range body {
		p.total += len(b)
	}
	return p
}

func (s *pieces) Len() int { return s.total }

// seek makes at the piece that holds offset off, or the last one.
func (s *pieces) seek(off int) {
	if off < s.base {
		s.at, s.base = 0, 0
	}
	for s.at < len(s.list)-1 && off >= s.base+len(s.list[s.at]) {
		s.base += len(s.list[s.at])
		s.at++
	}
}

// slice returns n bytes from off on if they lie in one piece.
func (s *pieces) slice(off, n int) ([]byte, bool) {
	s.seek(off)
	piece := s.list[s.at][off-s.base:]
	if len(piece) < n {
		return nil, false
	}
	return piece[:n], true
}

// Locate implements Located.
func (s *pieces) Locate(off, n, most int) [][]byte {
	var places [][]byte
	for n > 0 {
		s.seek(off)
		piece := s.list[s.at][off-s.base:]
		piece = piece[:min(n, len(piece))]
		if len(places) == most {
			return nil
		}
		places = append(places, piece)
		off, n = off+len(piece), n-len(piece)
	}
	return places
}

func (s *pieces) Fill(off int, p []byte) error {
	for len(p) > 0 {
		s.seek(off)
		n := copy(p, s.list[s.at][off-s.base:])
		p = p[n:]
		off += n
	}
	return nil
}

// memory is a Sink of one piece of memory, which is received into directly.
type memory []byte

func (m memory) Len() int { return len(m) }

func (m memory) Take(off int, p []byte) error {
	copy(m[off:], p)
	return nil
}
