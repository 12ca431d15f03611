package dataset

import (
	"regexp"
	"slices"

	"github.com/cespare/xxhash/v2"
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
			if want == wantNumber {
				want = wantRule
			}
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
