package dataset

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// plan is what Open found out: how the files are read, pass after pass.
type plan struct {
	cfg    Config
	schema *Schema
	shape  *shape
	label  Label // of a sparse format

	// Formats of columns.
	layout  layout
	sides   []*side
	columns []string // of the data, then of the side tables
	encoder *encoder

	fields []int // libffm: bag of each field
}

// newPlan looks at the files as far as the format and the schema need it.
func newPlan(cfg Config) (*plan, error) {
	p := &plan{cfg: cfg, schema: &Schema{}}
	if cfg.Schema != nil {
		p.schema = cfg.Schema.clone()
	}
	if cfg.HashBits != 0 {
		p.schema.HashBits = cfg.HashBits
	}
	p.setLabel()
	var err error
	if isTabular(cfg.Format) {
		err = p.planColumns()
	} else {
		err = p.planSparse()
	}
	if err != nil {
		return nil, err
	}
	return p, p.schema.Validate()
}

// setLabel puts the label that the configuration asks for into the schema.
func (p *plan) setLabel() {
	want := p.cfg.Label
	have := p.schema.labelled()
	if have != nil && want.Column == "" && !want.ruled() {
		p.label = have.label()
		return
	}
	switch {
	case want.Column != "":
	case have != nil:
		want.Column = have.column()
	case p.cfg.Format == FormatCriteo:
		want.Column = columnName(0)
	case p.cfg.Format == FormatRatings:
		want.Column = columnName(2)
		if len(p.schema.Columns) > 2 {
			want.Column = p.schema.Columns[2]
		}
	default:
		want.Column = "label"
	}
	if p.cfg.Format == FormatRatings || p.cfg.Format == FormatLibfm {
		want.Number = want.Number || !want.ruled()
	}
	p.label = want
	f := Feature{Name: "label", Kind: KindLabel, Column: want.Column, AtLeast: want.AtLeast, OneOf: want.OneOf, Number: want.Number}
	if have != nil {
		f.Name = have.Name
		*have = f
		return
	}
	if !p.cfg.NoLabel {
		p.schema.Features = append([]Feature{f}, p.schema.Features...)
	}
}

// bare reports whether the schema has nothing but label and weight.
func (p *plan) bare() bool {
	return !slices.ContainsFunc(p.schema.Features, func(f Feature) bool { return f.Kind != KindLabel && f.Kind != KindWeight })
}

func (p *plan) planColumns() error {
	src := source{format: p.cfg.Format, separator: p.cfg.Separator, header: p.cfg.Header, columns: p.schema.Columns}
	if !p.cfg.NoLabel {
		src.label = p.label.Column
	}
	var err error
	if p.layout, err = src.look(p.cfg.Paths[0]); err != nil {
		return err
	}
	p.columns = slices.Clone(p.layout.columns)
	if n := len(p.columns); p.cfg.Format == FormatCriteo && n != 40 || p.cfg.Format == FormatRatings && n < 3 {
		return fmt.Errorf("read data file %s: %d columns are not format %s", p.cfg.Paths[0], n, p.cfg.Format)
	}
	if p.cfg.Format == FormatRatings && p.cfg.Label.Column == "" {
		if f := p.schema.labelled(); f != nil && f.Column == columnName(2) {
			f.Column = p.columns[2]
		}
	}
	for i := range p.schema.Join {
		side, err := p.schema.Join[i].load(p.columns)
		if err != nil {
			return err
		}
		p.sides = append(p.sides, side)
		p.columns = append(p.columns, side.names...)
	}
	if err := p.checkLabel(); err != nil {
		return err
	}
	if p.bare() {
		p.known()
	}
	if p.bare() {
		if err := p.infer(); err != nil {
			return err
		}
	}
	if err := p.schema.Validate(); err != nil {
		return err
	}
	if _, err := newEncoder(p.schema, p.columns, !p.cfg.NoLabel); err != nil {
		return err
	}
	if err := p.fit(); err != nil {
		return err
	}
	p.encoder, err = newEncoder(p.schema, p.columns, !p.cfg.NoLabel)
	p.shape = p.encoder.shape
	return err
}

// checkLabel says which columns there are, where the label is not among them.
func (p *plan) checkLabel() error {
	f := p.schema.labelled()
	if f == nil || p.cfg.NoLabel || slices.Contains(p.columns, f.column()) {
		return nil
	}
	if f.where != "" {
		return f.fault("column %q is none of %s", f.column(), list(p.columns))
	}
	return fmt.Errorf("read data file %s: no column %q for the label: its first line has %s: name the label's (Label, --label), or if rows to predict have none say so (NoLabel, --no-label)", p.cfg.Paths[0], f.column(), list(p.columns))
}

func (p *plan) planSparse() error {
	if p.cfg.Schema != nil && len(p.cfg.Schema.Join) > 0 {
		return fmt.Errorf("format %s has no columns to join", p.cfg.Format)
	}
	single := p.cfg.Format != FormatLibffm
	switch {
	case p.bare() && single:
		p.schema.Features = append(p.schema.Features, Feature{Name: Features, Kind: KindIDs})
	case p.bare():
		if err := p.inferFields(); err != nil {
			return err
		}
	}
	p.shape = p.schema.shape()
	p.shape.weighted = true
	for i := range p.schema.Features {
		f := &p.schema.Features[i]
		n, ok := parseIndex([]byte(f.column()))
		switch {
		case f.Kind == KindLabel:
		case f.Kind != KindIDs:
			return f.fault("kind %s: features of format %s are ids: of columns, such as those of csv, it is another format (Format, --format)", f.Kind, p.cfg.Format)
		case single && f.column() != Features:
			return f.fault("column %q: format %s has only %q", f.column(), p.cfg.Format, Features)
		case !single && (!ok || n >= maxFields):
			return f.fault("column %q: want the number of a field below %s", f.column(), strconv.Itoa(maxFields))
		case !single:
			for int(n) >= len(p.fields) {
				p.fields = append(p.fields, -1)
			}
			if p.fields[n] >= 0 {
				return f.fault("field %d has a feature already", n)
			}
			p.fields[n] = slices.IndexFunc(p.shape.bags, func(b part) bool { return b.name == f.Name })
		}
	}
	if single && len(p.shape.bags) != 1 {
		return fmt.Errorf("format %s has one feature, not %d", p.cfg.Format, len(p.shape.bags))
	}
	return nil
}

// decoder begins a pass over the files.
func (p *plan) decoder() decoder {
	in := newInput(p.cfg.Paths)
	switch p.cfg.Format {
	case FormatLibsvm:
		return &sparse{in: in, parse: libsvmRow(p.label)}
	case FormatLibfm:
		return &sparse{in: in, parse: libfmRow(p.label)}
	case FormatLibffm:
		l := &libffm{rule: p.label, bag: p.fields, bags: make([][]ffmEntry, len(p.shape.bags))}
		return &sparse{in: in, parse: l.row}
	}
	return &tabular{in: in, table: newTable(in, p.layout), sides: p.sides, encoder: p.encoder}
}

// tabular decodes formats of columns.
type tabular struct {
	in      *input
	table   *table
	sides   []*side
	encoder *encoder
}

func (t *tabular) input() *input { return t.in }

// next implements decoder.
func (t *tabular) next(dst *rows) (*RowError, error) {
	rec, bad, err := t.table.next()
	if bad != nil || err != nil {
		return bad, err
	}
	for _, s := range t.sides {
		rec.fields = s.appendTo(rec.fields)
	}
	if bad = t.encoder.encode(rec, dst); bad != nil {
		dst.undo()
	}
	return bad, nil
}

// sample gives the first sampleRows selected records to use, with the columns
// of the side tables.
func (p *plan) sample(use func(*record) *RowError) error {
	in := newInput(p.cfg.Paths)
	err := p.sampleTable(newTable(in, p.layout), use)
	return errors.Join(err, in.close())
}

func (p *plan) sampleTable(t *table, use func(*record) *RowError) error {
	for row, used := 0, 0; used < sampleRows; row++ {
		rec, bad, err := t.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !p.cfg.Split.takes(row) {
			continue
		}
		if bad == nil {
			for _, s := range p.sides {
				rec.fields = s.appendTo(rec.fields)
			}
			bad = use(rec)
		}
		if bad != nil && !p.cfg.SkipBad {
			return bad
		}
		if bad == nil {
			used++
		}
	}
	return nil
}

// sampleRows reads the first rows of a sparse format for what the parser sees.
func (p *plan) sampleRows(d *sparse) error {
	one := rows{shape: &shape{}}
	for range sampleRows {
		one.reset()
		bad, err := d.next(&one)
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && bad != nil && !p.cfg.SkipBad {
			err = bad
		}
		if err != nil {
			return errors.Join(err, d.in.close())
		}
	}
	return d.in.close()
}
