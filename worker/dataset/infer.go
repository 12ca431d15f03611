package dataset

import (
	"bytes"
	"slices"
	"strconv"
)

// sampleRows is how many selected rows inference and fitting look at.
const sampleRows = 100_000

// columnStats is what a sample says about a column.
type columnStats struct {
	values  int      // not empty
	numbers int      // of them finite numbers
	piped   int      // of them with a | inside
	markers []string // of them well-known words for a missing value, each once
	marked  int      // how often those came
}

// isMarker reports whether a value of an otherwise numeric column stands for a
// missing one.
func isMarker(v []byte) bool {
	switch string(v) {
	case "?", "-", "NA", "N/A", "NaN", "nan", "NULL", "null", "None", "none", `\N`:
		return true
	}
	return false
}

func (c *columnStats) add(v []byte) {
	if len(v) == 0 {
		return
	}
	c.values++
	if bytes.IndexByte(v, '|') >= 0 {
		c.piped++
	}
	if _, want := parseFloat(v); want == "" {
		c.numbers++
	} else if isMarker(v) {
		c.marked++
		if !slices.Contains(c.markers, string(v)) {
			c.markers = append(c.markers, string(v))
		}
	}
}

// feature is what the column becomes: numbers 20 quantile buckets, values of
// which more than half have a | several ids, any other text an id.
func (c *columnStats) feature(name string) Feature {
	f := Feature{Name: name, Kind: KindID, As: "text"}
	switch {
	case c.numbers > 0 && c.numbers+c.marked == c.values:
		slices.Sort(c.markers)
		return Feature{Name: name, Kind: KindNumeric, Transform: TransformQuantile, Buckets: defaultBuckets, NA: c.markers}
	case 2*c.piped > c.values:
		f.Kind, f.Separator = KindIDs, defaultSeparator
	}
	return f
}

// infer appends a feature for every column that the schema does not speak of:
// what is read without a features file.
func (p *plan) infer() error {
	stats := make([]columnStats, len(p.columns))
	err := p.sample(func(rec *record) *RowError {
		for i, v := range rec.fields {
			stats[i].add(v)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, name := range p.columns {
		if !slices.ContainsFunc(p.schema.Features, func(f Feature) bool { return f.column() == name }) {
			p.schema.Features = append(p.schema.Features, stats[i].feature(name))
		}
	}
	return nil
}

// known appends the features of formats whose columns are known.
func (p *plan) known() {
	switch p.cfg.Format {
	case FormatCriteo:
		for i := range p.columns[1:] {
			f := Feature{Name: columnName(i + 1), Kind: KindID, As: "text"}
			if i < 13 {
				f = Feature{Name: columnName(i + 1), Kind: KindNumeric, Transform: TransformQuantile, Buckets: defaultBuckets}
			}
			p.schema.Features = append(p.schema.Features, f)
		}
	case FormatRatings:
		p.schema.Features = append(p.schema.Features,
			Feature{Name: "user", Kind: KindID, Column: p.columns[0]}, Feature{Name: "item", Kind: KindID, Column: p.columns[1]})
	}
}

// inferFields appends a feature for every field that the sample of a libffm
// file has.
func (p *plan) inferFields() error {
	l := &libffm{rule: p.label, open: true}
	if err := p.sampleRows(&sparse{in: newInput(p.cfg.Paths), parse: l.row}); err != nil {
		return err
	}
	for n := range l.bag {
		p.schema.Features = append(p.schema.Features, Feature{Name: "f" + strconv.Itoa(n), Column: strconv.Itoa(n), Kind: KindIDs})
	}
	return nil
}
