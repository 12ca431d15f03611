package dataset

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Kind says how a column becomes a feature.
type Kind string

// The kinds of features.
const (
	KindID       Kind = "id"       // one id a row
	KindIDs      Kind = "ids"      // some ids a row, in one field
	KindSequence Kind = "sequence" // ids in order of time, of which the last are kept
	KindNumeric  Kind = "numeric"  // a number
	KindCross    Kind = "cross"    // each combination of the ids of other features
	KindWeight   Kind = "weight"   // the weight of the row
	KindLabel    Kind = "label"    // what to predict
)

// Transforms of a numeric feature. The first three give Column.Numeric, the
// others the number of a bucket as an id.
const (
	TransformRaw      = "raw"
	TransformLog      = "log"      // sign(v) x ln(1+|v|)
	TransformStandard = "standard" // (v - mean) / deviation
	TransformQuantile = "quantile" // buckets of equal weight
	TransformEdges    = "edges"    // buckets of given borders
)

// What to do with a missing value.
const (
	MissingOwn   = "own"   // an id that no value has: what id and bucketed features do
	MissingSkip  = "skip"  // no id: what ids and sequences do
	MissingZero  = "zero"  // the number 0, after the transform: what numbers do
	MissingError = "error" // the row is malformed
)

const (
	defaultSeparator = "|"
	defaultBuckets   = 20
	defaultCrossMax  = 1024
	maxBuckets       = 1 << 16
	maxDim           = 1 << 16
)

// Schema says what the features of some data are: what a features file holds.
// Open completes it with all that was inferred and fitted; stored with the
// model as JSON, that is what makes evaluation and prediction agree with
// training.
type Schema struct {
	Columns  []string  `yaml:"columns,omitempty" json:"columns,omitempty"`     // names, of data without a header
	HashBits int       `yaml:"hash_bits,omitempty" json:"hash_bits,omitempty"` // ids are hashed to so many bits; 0: 64, and numbers stay what they are
	Features []Feature `yaml:"features" json:"features"`
	Join     []Join    `yaml:"join,omitempty" json:"join,omitempty"`
}

// Feature is one feature, or the label, or the weight.
type Feature struct {
	Name      string    `yaml:"name" json:"name"`
	Kind      Kind      `yaml:"kind" json:"kind"`
	Column    string    `yaml:"column,omitempty" json:"column,omitempty"`       // default: the name
	Match     string    `yaml:"match,omitempty" json:"match,omitempty"`         // regular expression: the value is its first group, missing where it does not match
	As        string    `yaml:"as,omitempty" json:"as,omitempty"`               // ids: number (anything else is malformed), text (always hashed); default: what looks like a number is one
	Separator string    `yaml:"separator,omitempty" json:"separator,omitempty"` // ids, sequence: default |
	Max       int       `yaml:"max,omitempty" json:"max,omitempty"`             // ids: the first, sequence: the last so many; 0: all. cross: 1024
	Transform string    `yaml:"transform,omitempty" json:"transform,omitempty"` // numeric: raw, log, standard, quantile (the default), edges
	Buckets   int       `yaml:"buckets,omitempty" json:"buckets,omitempty"`     // quantile: default 20
	Edges     []float64 `yaml:"edges,omitempty,flow" json:"edges,omitempty"`    // edges: rising; bucket i holds the values from edge i-1 to below edge i
	Of        []string  `yaml:"of,omitempty,flow" json:"of,omitempty"`          // cross: names of features that come before
	Table     string    `yaml:"table,omitempty" json:"table,omitempty"`         // embedding table; default: the name. Features of one table share its rows
	Dim       int       `yaml:"dim,omitempty" json:"dim,omitempty"`             // of the table; 0: the model decides
	Pooling   string    `yaml:"pooling,omitempty" json:"pooling,omitempty"`     // sum, mean, sqrt, none; empty: the model decides
	Missing   string    `yaml:"missing,omitempty" json:"missing,omitempty"`     // own, skip, zero, error
	NA        []string  `yaml:"na,omitempty,flow" json:"na,omitempty"`          // values that are missing ones, beside the empty field
	AtLeast   *float64  `yaml:"at_least,omitempty" json:"at_least,omitempty"`   // label: 1 from this number on
	OneOf     []string  `yaml:"one_of,omitempty,flow" json:"one_of,omitempty"`  // label: 1 for these values
	Number    bool      `yaml:"number,omitempty" json:"number,omitempty"`       // label: the number itself
	Fit       *Fit      `yaml:"-" json:"fit,omitempty"`                         // what the training data said; nil: nothing yet

	where string // file:line:column of a features file
}

// Fit is what a numeric feature learned from the first rows of the training
// data.
type Fit struct {
	Edges     []float64 `json:"edges,omitempty"`     // quantile: like Feature.Edges
	Mean      float64   `json:"mean,omitempty"`      // standard
	Deviation float64   `json:"deviation,omitempty"` // standard; 1 for a constant
}

// Join adds the columns of a side table, which is held in memory, to each row.
type Join struct {
	File      string   `yaml:"file" json:"file"`
	Format    string   `yaml:"format,omitempty" json:"format,omitempty"`       // a format of columns; default csv
	Separator string   `yaml:"separator,omitempty" json:"separator,omitempty"` // default: that of the format
	Columns   []string `yaml:"columns,omitempty" json:"columns,omitempty"`     // names, of a file without a header
	Key       string   `yaml:"key" json:"key"`                                 // column of the side table; every value once
	On        string   `yaml:"on,omitempty" json:"on,omitempty"`               // column of the data; default: the key
	Prefix    string   `yaml:"prefix,omitempty" json:"prefix,omitempty"`       // of the names of the added columns
}

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

// The defaults of a feature.

func (f *Feature) column() string { return orElse(f.Column, f.Name) }

func (f *Feature) table() string { return orElse(f.Table, f.Name) }

func (f *Feature) transform() string { return orElse(f.Transform, TransformQuantile) }

func (f *Feature) separator() string { return orElse(f.Separator, defaultSeparator) }

func (f *Feature) missing() string {
	d := MissingOwn
	switch {
	case !f.ragged():
		d = MissingZero
	case f.Kind == KindIDs || f.Kind == KindSequence || f.Kind == KindCross:
		d = MissingSkip
	}
	return orElse(f.Missing, d)
}

func (f *Feature) label() Label {
	return Label{Column: f.column(), AtLeast: f.AtLeast, OneOf: f.OneOf, Number: f.Number}
}

func orElse(s, d string) string {
	if s == "" {
		return d
	}
	return s
}

// ragged reports whether the feature gives ids.
func (f *Feature) ragged() bool {
	switch f.Kind {
	case KindID, KindIDs, KindSequence, KindCross:
		return true
	case KindNumeric:
		return f.transform() == TransformQuantile || f.transform() == TransformEdges
	default:
		return false
	}
}

// fits reports whether the feature has to see training data first.
func (f *Feature) fits() bool {
	t := f.transform()
	return f.Kind == KindNumeric && f.Fit == nil && (t == TransformQuantile || t == TransformStandard)
}

// Table describes an embedding table that features of a schema use.
type Table struct {
	Name     string
	Dim      int      // 0: the model decides
	Features []string // names, in the order of the schema
}

// Tables returns the embedding tables of the schema, in order of first use.
func (s *Schema) Tables() []Table {
	var out []Table
	for i := range s.Features {
		f := &s.Features[i]
		if !f.ragged() {
			continue
		}
		at := slices.IndexFunc(out, func(t Table) bool { return t.Name == f.table() })
		if at < 0 {
			at = len(out)
			out = append(out, Table{Name: f.table()})
		}
		out[at].Dim = max(out[at].Dim, f.Dim)
		out[at].Features = append(out[at].Features, f.Name)
	}
	return out
}

// Ragged reports whether the feature gives ids (Column.Ragged); false means
// numbers (Column.Numeric), or that it is the label or the weight.
func (f *Feature) Ragged() bool { return f.ragged() }

// shape is what rows of the schema consist of.
func (s *Schema) shape() *shape {
	out := &shape{}
	at := 0
	for i := range s.Features {
		switch f := &s.Features[i]; {
		case f.Kind == KindLabel || f.Kind == KindWeight:
			continue
		case f.ragged():
			out.bags = append(out.bags, part{f.Name, at})
		default:
			out.numerics = append(out.numerics, part{f.Name, at})
		}
		at++
	}
	return out
}

// clone copies the schema so that completing it leaves the caller's alone.
func (s *Schema) clone() *Schema {
	c := *s
	c.Features = slices.Clone(s.Features)
	return &c
}

// labelled returns the feature that is the label, nil if there is none.
func (s *Schema) labelled() *Feature {
	for i := range s.Features {
		if s.Features[i].Kind == KindLabel {
			return &s.Features[i]
		}
	}
	return nil
}
