package dataset

import "slices"

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
