package dataset

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const (
	maxBuckets = 1 << 16
	maxDim     = 1 << 16
)

// Validate reports every fault that can be seen without data, joined.
func (s *Schema) Validate() error {
	var faults []error
	if s.HashBits < 0 || s.HashBits > 64 {
		faults = append(faults, fmt.Errorf("hash_bits %d: want 1 to 64", s.HashBits))
	}
	seen := map[string]*Feature{}
	tables := map[string]*Feature{}
	labels, weights := 0, 0
	for i := range s.Features {
		f := &s.Features[i]
		if f.Name == "" {
			faults = append(faults, f.fault("no name"))
			continue
		}
		if seen[f.Name] != nil {
			faults = append(faults, f.fault("the name is there twice"))
		}
		faults = append(faults, f.validate(seen))
		seen[f.Name] = f
		switch {
		case f.Kind == KindLabel:
			labels++
		case f.Kind == KindWeight:
			weights++
		case f.ragged():
			if t := tables[f.table()]; t != nil && t.Dim != f.Dim && t.Dim*f.Dim != 0 {
				faults = append(faults, f.fault("dim %d of table %q, which has dim %d in feature %q", f.Dim, f.table(), t.Dim, t.Name))
			}
			tables[f.table()] = f
		}
	}
	if labels > 1 || weights > 1 {
		faults = append(faults, fmt.Errorf("%d labels and %d weights: want one at most", labels, weights))
	}
	for i, j := range s.Join {
		faults = append(faults, j.validate(i))
	}
	return errors.Join(faults...)
}

func (j *Join) validate(i int) error {
	switch {
	case j.File == "":
		return fmt.Errorf("join %d: no file", i)
	case j.Key == "":
		return fmt.Errorf("join %s: no key", j.File)
	case j.Format != "" && !isTabular(j.Format):
		return fmt.Errorf("join %s: format %q: want one of %s", j.File, j.Format, strings.Join(tabularFormats(), ", "))
	}
	return nil
}

// fault is an error that names the feature and where it stands.
func (f *Feature) fault(format string, args ...any) error {
	return fmt.Errorf("%sfeature %q: %s", f.where, f.Name, fmt.Sprintf(format, args...))
}

func (f *Feature) validate(before map[string]*Feature) error {
	var faults []error
	one := func(what, got string, of ...string) {
		if got != "" && !slices.Contains(of, got) {
			faults = append(faults, f.fault("%s %q: want one of %s", what, got, strings.Join(of, ", ")))
		}
	}
	one("kind", string(f.Kind), "id", "ids", "sequence", "numeric", "cross", "weight", "label")
	if f.Kind == "" {
		faults = append(faults, f.fault("no kind"))
	}
	one("as", f.As, "number", "text")
	one("transform", f.Transform, TransformRaw, TransformLog, TransformStandard, TransformQuantile, TransformEdges)
	one("pooling", f.Pooling, "sum", "mean", "sqrt", "none")
	if f.ragged() {
		one("missing", f.Missing, MissingOwn, MissingSkip, MissingError)
	} else {
		one("missing", f.Missing, MissingZero, MissingError)
	}
	if f.Max < 0 || f.Dim < 0 || f.Dim > maxDim || f.Buckets < 0 || f.Buckets == 1 || f.Buckets > maxBuckets {
		faults = append(faults, f.fault("max %d, dim %d, buckets %d: out of range", f.Max, f.Dim, f.Buckets))
	}
	if _, err := regexp.Compile(f.Match); err != nil {
		faults = append(faults, f.fault("match: %v", err))
	}
	for _, k := range f.misplaced() {
		faults = append(faults, f.fault("%s means nothing for kind %s", k, f.Kind))
	}
	rule := f.label()
	if err := rule.validate(); err != nil {
		faults = append(faults, f.fault("%v", err))
	}
	return errors.Join(append(faults, f.validateEdges(), f.validateCross(before))...)
}

// misplaced names the settings that the kind does not have.
func (f *Feature) misplaced() []string {
	multi := f.Kind == KindIDs || f.Kind == KindSequence
	id := f.Kind == KindID || multi
	var out []string
	for _, s := range []struct {
		name       string
		given, fit bool
	}{
		{"as", f.As != "", id},
		{"separator", f.Separator != "", multi},
		{"max", f.Max != 0, multi || f.Kind == KindCross},
		{"transform", f.Transform != "", f.Kind == KindNumeric},
		{"buckets", f.Buckets != 0, f.Kind == KindNumeric && f.transform() == TransformQuantile},
		{"edges", f.Edges != nil, f.Kind == KindNumeric && f.transform() == TransformEdges},
		{"of", f.Of != nil, f.Kind == KindCross},
		{"column", f.Column != "", f.Kind != KindCross},
		{"table", f.Table != "", f.ragged()},
		{"pooling", f.Pooling != "", f.ragged()},
		{"dim", f.Dim != 0, f.ragged()},
		{"missing", f.Missing != "", f.Kind != KindLabel && f.Kind != KindWeight},
		{"match and na", f.Match != "" || f.NA != nil, f.Kind != KindCross},
		{"at_least, one_of and number", f.AtLeast != nil || f.OneOf != nil || f.Number, f.Kind == KindLabel},
	} {
		if s.given && !s.fit {
			out = append(out, s.name)
		}
	}
	return out
}

func (f *Feature) validateEdges() error {
	edges := f.Edges
	if f.Fit != nil {
		edges = append(slices.Clone(edges), f.Fit.Edges...)
	}
	switch {
	case f.Kind != KindNumeric:
		return nil
	case f.transform() == TransformEdges && len(f.Edges) == 0:
		return f.fault("no edges")
	case len(edges) > maxBuckets:
		return f.fault("%d edges: want at most %d", len(edges), maxBuckets)
	}
	for i, e := range edges {
		if e-e != 0 || i > 0 && e <= edges[i-1] {
			return f.fault("edge %v after %v: want finite, rising edges", e, edges[max(i-1, 0)])
		}
	}
	return nil
}

func (f *Feature) validateCross(before map[string]*Feature) error {
	if f.Kind != KindCross {
		return nil
	}
	if len(f.Of) < 2 {
		return f.fault("cross of %d features: want 2 or more", len(f.Of))
	}
	for _, name := range f.Of {
		if of := before[name]; of == nil || !of.ragged() {
			return f.fault("cross of %q: want a feature of ids or buckets that comes before", name)
		}
	}
	return nil
}
