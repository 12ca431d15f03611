package dataset

import (
	"bytes"
	"math"
	"math/bits"
	"regexp"
	"slices"

	"github.com/cespare/xxhash/v2"

	"hcclps/internal/vec"
)

// encoder turns records into rows: a schema whose columns have been found.
type encoder struct {
	shape  *shape
	slots  []slot
	label  slot // column -1: labels are 0
	rule   Label
	weight slot // column -1: weights are 1
	pieces [][]byte
}

// slot is a feature on its way from a field to a row.
type slot struct {
	f      *Feature
	kind   Kind
	column int
	match  *regexp.Regexp
	salt   uint64 // of the table, so that features that share it agree
	mask   uint64 // 0: ids have 64 bits
	text   bool   // ids are always hashed
	number bool   // ids must be numbers
	of     []int  // cross: bags of this row
	edges  []float64
	limit  int
	missed string
}

// at finds the slot of a feature.
func newSlot(s *Schema, f *Feature, columns []string) (slot, error) {
	out := slot{f: f, kind: f.Kind, column: slices.Index(columns, f.column()), text: f.As == "text", number: f.As == "number", missed: f.missing(), limit: f.Max}
	if out.column < 0 && f.Kind != KindCross {
		return out, f.fault("column %q is none of %s", f.column(), list(columns))
	}
	if f.Match != "" {
		re, err := regexp.Compile(f.Match)
		if err != nil {
			return out, f.fault("match: %v", err)
		}
		out.match = re
	}
	out.salt = xxhash.Sum64String(f.table())
	if s.HashBits > 0 && s.HashBits < 64 {
		out.mask = 1<<s.HashBits - 1
	}
	if out.edges = f.Edges; f.Fit != nil && f.transform() == TransformQuantile {
		out.edges = f.Fit.Edges
	}
	if f.Kind == KindCross && f.Max == 0 {
		out.limit = defaultCrossMax
	}
	return out, nil
}

// newEncoder finds the columns of a schema, which must be fitted.
func newEncoder(s *Schema, columns []string, labelled bool) (*encoder, error) {
	e := &encoder{shape: s.shape(), label: slot{column: -1}, weight: slot{column: -1}}
	bags := map[string]int{}
	for i := range s.Features {
		f := &s.Features[i]
		if f.Kind == KindLabel && !labelled {
			continue
		}
		sl, err := newSlot(s, f, columns)
		if err != nil {
			return nil, err
		}
		switch f.Kind {
		case KindLabel:
			e.label, e.rule = sl, f.label()
			continue
		case KindWeight:
			e.weight = sl
			continue
		default:
		}
		for _, name := range f.Of {
			sl.of = append(sl.of, bags[name])
		}
		if f.ragged() {
			bags[f.Name] = len(bags)
		}
		e.slots = append(e.slots, sl)
	}
	return e, nil
}

// value is the field of the slot, empty if it is missing.
func (s *slot) value(rec *record) []byte {
	b := rec.fields[s.column]
	if len(s.f.NA) > 0 && slices.Contains(s.f.NA, string(b)) {
		return nil
	}
	if s.match == nil || len(b) == 0 {
		return b
	}
	m := s.match.FindSubmatchIndex(b)
	switch {
	case m == nil:
		return nil
	case len(m) > 2 && m[2] < 0:
		return nil
	case len(m) > 2:
		return b[m[2]:m[3]]
	}
	return b[m[0]:m[1]]
}

// bad is the error of a value of the slot. That of a joined column stands where
// the row begins.
func (s *slot) bad(rec *record, value []byte, want string) *RowError {
	at := 0
	if s.column < len(rec.spans) {
		at = rec.spans[s.column].at
	}
	e := rec.bad(at, value, want)
	e.Field = s.f.column()
	return e
}

// encode appends the row of a record to dst; of a malformed one it leaves a part
// there.
func (e *encoder) encode(rec *record, dst *rows) *RowError {
	label, weight := float32(0), float32(1)
	if e.label.column >= 0 {
		v, want := e.rule.parse(e.label.value(rec))
		if want != "" {
			return e.label.bad(rec, rec.fields[e.label.column], want)
		}
		label = v
	}
	if e.weight.column >= 0 {
		v, want := parseValue(e.weight.value(rec))
		if want != "" || v < 0 {
			return e.weight.bad(rec, rec.fields[e.weight.column], wantWeight)
		}
		weight = v
	}
	first := len(dst.ends)
	for i := range e.slots {
		s := &e.slots[i]
		if s.kind == KindCross {
			s.cross(dst, first)
			dst.endBag()
			continue
		}
		v := s.value(rec)
		if len(v) == 0 && s.missed == MissingError {
			return s.bad(rec, v, wantValue)
		}
		var bad *RowError
		switch s.kind {
		case KindNumeric:
			bad = s.numeric(rec, v, dst)
		case KindID:
			bad = s.id(rec, v, dst)
			dst.endBag()
		default:
			bad = e.ids(s, rec, v, dst)
			dst.endBag()
		}
		if bad != nil {
			return bad
		}
	}
	dst.close(label, weight)
	return nil
}

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

// numeric appends a number, or the number of its bucket as an id. The bucket
// behind the last is that of missing values.
func (s *slot) numeric(rec *record, v []byte, dst *rows) *RowError {
	x, missing := 0.0, len(v) == 0
	if !missing {
		var want string
		if x, want = parseFloat(v); want != "" {
			return s.bad(rec, v, want)
		}
	}
	switch t := s.f.transform(); {
	case !s.f.ragged():
		y := float32(0)
		if !missing {
			y = float32(transform(t, x, s.f.Fit))
		}
		if math.IsInf(float64(y), 0) {
			return s.bad(rec, v, wantFinite)
		}
		dst.numeric = append(dst.numeric, y)
		return nil
	case !missing:
		dst.add(uint64(bucket(s.edges, x)), 1)
	case s.missed == MissingOwn:
		dst.add(uint64(len(s.edges))+1, 1)
	}
	dst.endBag()
	return nil
}

// bucket is how many of the rising edges are at most x.
func bucket(edges []float64, x float64) int {
	lo, hi := 0, len(edges)
	for lo < hi {
		mid := (lo + hi) / 2
		if edges[mid] <= x {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

func transform(t string, x float64, fit *Fit) float64 {
	switch {
	case t == TransformLog:
		return math.Copysign(math.Log1p(math.Abs(x)), x)
	case t == TransformStandard && fit != nil:
		return (x - fit.Mean) / fit.Deviation
	}
	return x
}
