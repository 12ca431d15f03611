package dataset

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// layout is how a file of columns is to be read: the same for all files of a
// stream.
type layout struct {
	dialect
	header  bool
	columns []string
}

// records of several files: headers are checked and every record has a field a
// column.
type table struct {
	layout
	records
	headed bool // the header of the open file is read
}

func newTable(in *input, l layout) *table {
	return &table{layout: l, records: records{in: in, dialect: l.dialect}}
}

// next returns the next record of all files, or what is malformed in its place;
// io.EOF after the last.
func (t *table) next() (*record, *RowError, error) {
	for {
		if t.in.text == nil {
			t.headed = !t.header
		}
		if err := t.in.advance(); err != nil {
			return nil, nil, err
		}
		rec, bad, err := t.records.next()
		if errors.Is(err, io.EOF) {
			if err := t.in.finish(); err != nil {
				return nil, nil, err
			}
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if !t.headed {
			if bad == nil {
				err = t.checkHeader(rec)
			} else {
				err = fmt.Errorf("header: %w", bad)
			}
			if err != nil {
				return nil, nil, err
			}
			t.headed = true
			continue
		}
		t.in.rows++
		if bad == nil && len(rec.fields) != len(t.columns) {
			last := len(rec.fields) - 1
			bad = rec.badField(min(last, len(t.columns)), fmt.Sprintf("%d fields, not %d", len(t.columns), len(rec.fields)))
		}
		return rec, bad, nil
	}
}

// checkHeader compares the header of a file with that of the first one.
func (t *table) checkHeader(rec *record) error {
	names, err := rec.names()
	if err != nil {
		return err
	}
	for i, name := range names {
		if i >= len(t.columns) || name != t.columns[i] {
			return fmt.Errorf("header differs from that of %s: %w", t.in.paths[0], rec.badField(i, "the columns "+list(t.columns)))
		}
	}
	if len(names) < len(t.columns) {
		return fmt.Errorf("header differs from that of %s: %w", t.in.paths[0], rec.badField(len(names)-1, "then the columns "+list(t.columns[len(names):])))
	}
	return nil
}

// list shows some names, not all of hundreds.
func list(names []string) string {
	const shown = 30
	if len(names) > shown {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
	}
	return strings.Join(names, ", ")
}

// header settings of Config.
const (
	headerAuto = "auto"
	headerYes  = "yes"
	headerNo   = "no"
)

// source describes a file of columns before it was looked at.
type source struct {
	format, separator, header string
	columns                   []string // names given; nil: none
	label                     string   // name of the label's column, empty: the format's
}

// look finds the layout of a file in its first record.
func (s source) look(path string) (layout, error) {
	in := newInput([]string{path})
	l, err := s.lookAt(in)
	return l, errors.Join(err, in.close())
}

func (s source) lookAt(in *input) (layout, error) {
	var l layout
	if err := in.advance(); err != nil {
		return l, err
	}
	first, err := in.next()
	for err == nil && isBlank(first) {
		first, err = in.next()
	}
	if errors.Is(err, io.EOF) {
		return l, in.finish()
	}
	if err != nil {
		return l, err
	}
	l.dialect = newDialect(s.format, s.separator, first)
	// Read it again, as a record.
	if err := in.close(); err != nil {
		return l, err
	}
	if err := in.advance(); err != nil {
		return l, err
	}
	r := records{in: in, dialect: l.dialect}
	rec, bad, err := r.next()
	if err != nil {
		return l, err
	}
	if bad != nil {
		return l, bad
	}
	return s.interpret(l, rec)
}

// interpret decides whether the first record is a header.
func (s source) interpret(l layout, rec *record) (layout, error) {
	l.header = s.header == headerYes
	if s.header == headerAuto || s.header == "" {
		l.header = s.looksLikeHeader(rec)
	}
	if l.header {
		names, err := rec.names()
		if err != nil {
			return l, err
		}
		l.columns = names
		return l, nil
	}
	for i := range rec.fields {
		l.columns = append(l.columns, columnName(i))
	}
	if s.columns == nil {
		return l, nil
	}
	if len(s.columns) != len(rec.fields) {
		return l, fmt.Errorf("columns: %w", rec.bad(0, rec.raw, fmt.Sprintf("%d fields, named %s, not %d", len(s.columns), list(s.columns), len(rec.fields))))
	}
	l.columns = s.columns
	return l, nil
}

// looksLikeHeader decides by names, not by guessing: a file has a header if its
// columns were not named otherwise and its label is not called c0, c1, ... The
// header of ratings is text in all three columns: a row with one bad rating is
// no header.
func (s source) looksLikeHeader(rec *record) bool {
	has := func(name string) bool {
		return slices.ContainsFunc(rec.fields, func(f []byte) bool { return string(f) == name })
	}
	switch {
	case s.format == FormatCriteo:
		return false
	case s.columns != nil:
		return slices.EqualFunc(rec.fields, s.columns, func(f []byte, name string) bool { return string(f) == name })
	case s.format == FormatRatings:
		if len(rec.fields) < 3 {
			return false
		}
		return !slices.ContainsFunc(rec.fields[:3], func(f []byte) bool {
			_, want := parseFloat(f)
			return want != wantNumber
		})
	case s.label != "" && !has(s.label):
		rest, ok := strings.CutPrefix(s.label, "c")
		_, number := parseIndex([]byte(rest))
		return !ok || !number
	}
	return true
}
