package dataset

import (
	"bytes"
	"math/bits"

	"github.com/cespare/xxhash/v2"

	"hcclps/internal/vec"
)

// id appends the id of one value.
func (s *slot) id(rec *record, v []byte, dst *rows) *RowError {
	if len(v) == 0 {
		if s.missed == MissingOwn {
			dst.add(s.hash(nil), 1)
		}
		return nil
	}
	key, want := s.key(v)
	if want != "" {
		return s.bad(rec, v, want)
	}
	dst.add(key, 1)
	return nil
}

// key is the id of a value: of a number in its shortest form that number, of
// anything else the hash of its text. So two values have one id only by a
// collision of hashes, and 7 and 007 are two.
func (s *slot) key(v []byte) (key uint64, want string) {
	if s.text {
		return s.hash(v), ""
	}
	digits := true
	for _, c := range v {
		digits = digits && c >= '0' && c <= '9'
	}
	switch {
	case digits && (v[0] != '0' || len(v) == 1 || s.number):
		n, ok := parseIndex(v)
		if !ok {
			return 0, wantID
		}
		if s.mask != 0 {
			n = vec.Mix64(n, s.salt) & s.mask
		}
		return n, ""
	case s.number:
		return 0, wantIndex
	}
	return s.hash(v), ""
}

// hash is 64 bits of (salt, text), or fewer if the schema says so.
func (s *slot) hash(v []byte) uint64 {
	h := vec.Mix64(xxhash.Sum64(v), s.salt)
	if s.mask != 0 {
		h &= s.mask
	}
	return h
}

// ids appends the ids of a value with separators.
func (e *encoder) ids(s *slot, rec *record, v []byte, dst *rows) *RowError {
	pieces := e.split(s, v)
	if len(pieces) == 0 {
		return s.id(rec, nil, dst)
	}
	for _, p := range pieces {
		if bad := s.id(rec, p, dst); bad != nil {
			return bad
		}
	}
	return nil
}

// split cuts a value at its separators: those pieces that are kept and not
// empty. The result is valid until the next call.
func (e *encoder) split(s *slot, v []byte) [][]byte {
	e.pieces = e.pieces[:0]
	sep := s.f.separator()
	for len(v) > 0 {
		piece := v
		if i := bytes.Index(v, []byte(sep)); i >= 0 {
			piece, v = v[:i], v[i+len(sep):]
		} else {
			v = nil
		}
		if piece = bytes.Trim(piece, " "); len(piece) > 0 {
			e.pieces = append(e.pieces, piece)
		}
	}
	n := len(e.pieces) - s.limit
	switch {
	case s.limit == 0 || n <= 0:
		return e.pieces
	case s.kind == KindSequence:
		return e.pieces[n:]
	}
	return e.pieces[:s.limit]
}

// cross appends an id for each combination of the ids of earlier bags of this
// row, whose ends begin at first.
func (s *slot) cross(dst *rows, first int) {
	n := 1
	for _, b := range s.of {
		from, to := dst.bag(first + b)
		n *= to - from
		if n == 0 || n > s.limit {
			break
		}
	}
	n = min(n, s.limit)
	for i := range n {
		h, rest := s.salt, i
		for _, b := range s.of {
			from, to := dst.bag(first + b)
			k := dst.keys[from+rest%(to-from)]
			rest /= to - from
			h = vec.Mix64(k, bits.RotateLeft64(h, 23)*0x9e3779b97f4a7c15)
		}
		if s.mask != 0 {
			h &= s.mask
		}
		dst.add(h, 1)
	}
	if n == 0 && s.missed == MissingOwn {
		dst.add(s.hash(nil), 1)
	}
}
