package compress

import (
	"encoding/binary"
	"fmt"

	"hcclps/internal/vec"
)

// Source makes a frame piece by piece, so that what is made can travel while the rest is not yet. It has the methods of
// p2p.Source. What was made once is kept and is the same when it is asked for again. One goroutine uses it at a time.
type Source struct {
	made   []byte // so far
	length int    // of the whole frame
	crc    uint32 // of what is made
	n      int    // elements
	next   int    // first element that is not encoded
	step   int    // elements at a time
	codec  Codec
	encode func(dst []byte, from, to int) ([]byte, error)
}

// NewSource makes one of a frame of x, in memory of buf as far as it is enough: MaxFrame says how much is. x must not
// change until Fill has been asked for the last byte. A codec that needs the whole vector encodes it here.
func NewSource(buf []byte, c Codec, shape []int, x []float32, seed uint64) (*Source, error) {
	if err := check(KindOf(c), x, KindOf(c).most()); err != nil {
		return nil, err
	}
	return newSource(buf, c, shape, len(x), func(dst []byte, from, to int) ([]byte, error) { return c.Append(dst, x[from:to], seed) })
}

// Source is NewSource with the residual, which changes as pieces are made: if a Source is given up, Finish it and Return its code.
func (f *Feedback) Source(buf []byte, g []float32, seed uint64) (*Source, error) {
	if err := f.check(g); err != nil {
		return nil, err
	}
	return newSource(buf, f.codec, f.shape, len(g), func(dst []byte, from, to int) ([]byte, error) {
		return f.part(dst, g[from:to], from, seed)
	})
}

// pieceLen is about how many elements are encoded at a time.
const pieceLen = 16 << 10

func newSource(buf []byte, c Codec, shape []int, n int, encode func(dst []byte, from, to int) ([]byte, error)) (*Source, error) {
	block := Block(c)
	if block == 0 {
		whole, err := appendFrame(buf[:0], c, shape, n, func(dst []byte) ([]byte, error) { return encode(dst, 0, n) })
		if err != nil {
			return nil, err
		}
		return &Source{made: whole, length: len(whole), codec: c}, nil
	}
	h := Header{Kind: KindOf(c), Shape: shape, Len: c.MaxLen(n)}
	if err := h.fits(c, n); err != nil {
		return nil, fmt.Errorf("encode frame: %w", err)
	}
	s := &Source{codec: c, n: n, step: max(1, pieceLen/block) * block, encode: encode}
	s.made = h.appendTo(buf[:0])
	s.length = len(s.made) + h.Len + trailerLen
	s.crc = vec.CRC32C(0, s.made)
	if n == 0 {
		s.made = binary.LittleEndian.AppendUint32(s.made, s.crc)
	}
	return s, nil
}

// Len is the number of bytes of the frame.
func (s *Source) Len() int { return s.length }

// Fill writes the bytes from offset off on to all of p.
func (s *Source) Fill(off int, p []byte) error {
	if off < 0 || off > s.length-len(p) {
		return fmt.Errorf("fill frame: %d bytes from %d of %d: %w", len(p), off, s.length, ErrMismatch)
	}
	if err := s.upTo(off + len(p)); err != nil {
		return err
	}
	copy(p, s.made[off:])
	return nil
}

// upTo encodes until there are so many bytes.
func (s *Source) upTo(end int) error {
	for len(s.made) < end {
		to := min(s.next+s.step, s.n)
		at := len(s.made)
		made, err := s.encode(s.made, s.next, to)
		if err != nil {
			return err
		}
		s.made, s.next = made, to
		s.crc = vec.CRC32C(s.crc, made[at:])
		if to == s.n {
			s.made = binary.LittleEndian.AppendUint32(made, s.crc)
		}
	}
	return nil
}

// Finish makes what is not yet made and returns the whole frame, which is valid as long as buf is.
func (s *Source) Finish() ([]byte, error) {
	err := s.upTo(s.length)
	return s.made, err
}

// Sink decodes a frame that comes piece by piece. It has the methods of p2p.Sink. One goroutine uses it at a time.
type Sink struct {
	dst    []float32
	mode   Mode
	length int // of the frame
	taken  int // bytes
	crc    uint32

	stage stage
	held  []byte // header, part of a block, trailer
	codec Codec
	block int // elements that are decoded at once
	size  int // bytes of a block
	left  int // bytes of the code that have not come
}

type stage uint8

const (
	inHeader stage = iota
	inCode
	inTrailer
	complete
)

// NewSink makes one for a frame of so many bytes, whose elements, as many as dst has, are decoded into dst, or added to
// it. Until Close has said that all was well dst is of no use, since the checksum comes last.
func NewSink(dst []float32, mode Mode, length int) *Sink {
	return &Sink{dst: dst, mode: mode, length: length}
}

// Len is the number of bytes of the frame.
func (s *Sink) Len() int { return s.length }

// Take takes p, which begins at offset off: what comes next. An error is ErrMalformed or ErrMismatch.
func (s *Sink) Take(off int, p []byte) error {
	if off != s.taken || len(p) > s.length-off {
		return fmt.Errorf("take frame: %d bytes at %d, want those at %d of %d: %w", len(p), off, s.taken, s.length, ErrMismatch)
	}
	s.taken += len(p)
	for {
		var err error
		before := s.stage
		switch s.stage {
		case inHeader:
			p, err = s.takeHeader(p)
		case inCode:
			p, err = s.takeCode(p)
		case inTrailer:
			p, err = s.takeTrailer(p)
		case complete:
			if len(p) > 0 {
				err = fmt.Errorf("take frame: %d bytes behind its end: %w", len(p), ErrMalformed)
			}
		}
		if err != nil || s.stage == before {
			return err
		}
	}
}

// takeHeader keeps bytes until they are a header, and returns those behind it.
func (s *Sink) takeHeader(p []byte) ([]byte, error) {
	was := len(s.held)
	s.held = append(s.held, p[:min(len(p), maxHeader-was)]...)
	h, at, err := parseHeader(s.held)
	if err != nil {
		return nil, fmt.Errorf("take frame: %w", err)
	}
	if at == 0 {
		return nil, nil
	}
	if n := h.Elements(); h.Rows || n != len(s.dst) {
		return nil, fmt.Errorf("take frame: shape %v (rows: %t), the destination has %d elements: %w", h.Shape, h.Rows, len(s.dst), ErrMismatch)
	}
	if at+h.Len+trailerLen != s.length {
		return nil, fmt.Errorf("take frame: header of %d bytes and code of %d in a frame of %d: %w", at, h.Len, s.length, ErrMalformed)
	}
	s.crc = vec.CRC32C(0, s.held[:at])
	s.left, s.held, s.stage = h.Len, s.held[:0], inCode
	s.codec = h.Kind.decoder()
	s.block = Block(s.codec)
	s.size = s.codec.MaxLen(s.block)
	if s.block == 0 {
		s.block, s.size = len(s.dst), h.Len
	}
	return p[at-was:], nil
}

// maxHeader is the most bytes of a header.
const maxHeader = 6 + (maxDims+1)*binary.MaxVarintLen64

// takeCode decodes whole blocks and keeps what is not one.
func (s *Sink) takeCode(p []byte) (rest []byte, err error) {
	n := min(len(p), s.left)
	code, rest := p[:n], p[n:]
	s.crc = vec.CRC32C(s.crc, code)
	s.left -= n
	if len(s.held) > 0 {
		fill := min(len(code), s.size-len(s.held))
		s.held, code = append(s.held, code[:fill]...), code[fill:]
		if len(s.held) < s.size && s.left > 0 {
			return rest, nil
		}
		if err := s.decode(s.held); err != nil {
			return nil, err
		}
		s.held = s.held[:0]
	}
	now := len(code)
	if s.left > 0 {
		now -= now % s.size
	}
	if err := s.decode(code[:now]); err != nil {
		return nil, err
	}
	s.held = append(s.held, code[now:]...)
	if s.left == 0 {
		s.stage = inTrailer
		if len(s.dst) > 0 {
			return nil, fmt.Errorf("take frame: no code for the last %d elements: %w", len(s.dst), ErrMalformed)
		}
	}
	return rest, nil
}

// decode decodes the code of whole blocks, the last one of which may be that of fewer elements.
func (s *Sink) decode(code []byte) error {
	if len(code) == 0 {
		return nil
	}
	n := min(len(s.dst), (len(code)+s.size-1)/s.size*s.block)
	if err := s.codec.Decode(s.dst[:n], code, s.mode); err != nil {
		return fmt.Errorf("take frame: %w", err)
	}
	s.dst = s.dst[n:]
	return nil
}

func (s *Sink) takeTrailer(p []byte) ([]byte, error) {
	n := min(len(p), trailerLen-len(s.held))
	s.held = append(s.held, p[:n]...)
	if len(s.held) < trailerLen {
		return nil, nil
	}
	if want := binary.LittleEndian.Uint32(s.held); s.crc != want {
		return nil, fmt.Errorf("take frame: checksum of %d bytes is %#x, the frame says %#x: %w", s.length-trailerLen, s.crc, want, ErrMalformed)
	}
	s.stage = complete
	return p[n:], nil
}

// Close says whether the whole frame has come, with the right checksum.
func (s *Sink) Close() error {
	if s.stage != complete {
		return fmt.Errorf("take frame: %d bytes of %d: %w", s.taken, s.length, ErrMalformed)
	}
	return nil
}
