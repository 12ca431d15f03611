package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxQuoted bounds a record of several lines, so that a quote that is never
// closed is found before the file has become one record.
const maxQuoted = 1 << 20

// record is a row as text, valid until the next one is read.
type record struct {
	fields [][]byte // without quotes and the blanks around them
	raw    []byte   // as it is in the file, only quoted fields unescaped in place
	path   string
	line   int // number of the first line

	spans []span
	text  []byte // raw of a record of several lines
}

// span is where a field is in raw.
type span struct {
	at, from, to int  // the field begins at at, its value is raw[from:to]
	escaped      bool // the value has doubled quotes
}

// bad is the error of the text at an offset of raw.
func (r *record) bad(at int, value []byte, want string) *RowError {
	e := malformed(0, value, want)
	e.Path, e.Line = r.path, r.line
	before := r.raw[:at]
	for {
		i := findLineEnd(before)
		if i < 0 {
			break
		}
		e.Line++
		if before[i] == '\r' && i+1 < len(before) && before[i+1] == '\n' {
			i++
		}
		before = before[i+1:]
	}
	e.Column = len(before) + 1
	return e
}

// badField is the error of a field.
func (r *record) badField(i int, want string) *RowError {
	return r.bad(r.spans[i].at, r.fields[i], want)
}

// records cuts an input into records.
type records struct {
	in *input
	dialect
	rec record
}

// next returns the next record of the open file, or what is malformed in its
// place; io.EOF after the last of the file. Blank lines are none.
func (r *records) next() (*record, *RowError, error) {
	for {
		line, err := r.in.next()
		if err != nil {
			return nil, nil, err
		}
		if len(line) == 0 || isBlank(line) && r.separator != "\t" {
			continue
		}
		r.rec.raw, r.rec.path, r.rec.line = line, r.in.path(), r.in.line
		if !r.quotes || bytes.IndexByte(line, '"') < 0 {
			r.split()
			return &r.rec, r.checkText(), nil
		}
		bad, err := r.splitQuoted()
		if bad == nil && err == nil {
			bad = r.checkText()
			r.unescape()
		}
		return &r.rec, bad, err
	}
}

func (r *records) checkText() *RowError {
	if i := bytes.IndexByte(r.rec.raw, 0); i >= 0 {
		return r.rec.bad(i, r.rec.raw[i:i+1], wantText)
	}
	return nil
}

// split cuts a line without quotes.
func (r *records) split() {
	raw := r.rec.raw
	r.rec.spans, r.rec.fields = r.rec.spans[:0], r.rec.fields[:0]
	for at := 0; ; {
		end := r.find(raw, at)
		r.close(plainSpan(raw, at, end))
		if end == len(raw) {
			return
		}
		at = end + len(r.separator)
	}
}

func (r *records) close(s span) {
	r.rec.spans = append(r.rec.spans, s)
	r.rec.fields = append(r.rec.fields, r.rec.raw[s.from:s.to])
}

// find returns where the next separator begins, or the end of raw.
func (r *records) find(raw []byte, at int) int {
	if len(r.separator) > 1 {
		if i := bytes.Index(raw[at:], []byte(r.separator)); i >= 0 {
			return at + i
		}
		return len(raw)
	}
	c := r.separator[0]
	for i := at; i < len(raw); i++ {
		if raw[i] == c {
			return i
		}
	}
	return len(raw)
}

// plainSpan is the field raw[at:end] without the blanks around it.
func plainSpan(raw []byte, at, end int) span {
	from, to := at, end
	for from < to && (raw[from] == ' ' || raw[from] == '\t') {
		from++
	}
	for to > from && (raw[to-1] == ' ' || raw[to-1] == '\t') {
		to--
	}
	return span{at: from, from: from, to: to}
}

// splitQuoted cuts a record that may have quoted fields and reads on for the
// lines of it that follow. After a malformed one the input is at its second
// line.
func (r *records) splitQuoted() (*RowError, error) {
	r.rec.spans, r.rec.fields = r.rec.spans[:0], r.rec.fields[:0]
	lines := 1
	for at := 0; ; {
		start := plainSpan(r.rec.raw, at, len(r.rec.raw)).from
		if r.separator == "\t" {
			start = at + len(r.rec.raw[at:]) - len(bytes.TrimLeft(r.rec.raw[at:], " "))
		}
		if start == len(r.rec.raw) || r.rec.raw[start] != '"' {
			end := r.find(r.rec.raw, at)
			r.rec.spans = append(r.rec.spans, plainSpan(r.rec.raw, at, end))
			if end == len(r.rec.raw) {
				return nil, nil
			}
			at = end + len(r.separator)
			continue
		}
		s := span{at: start, from: start + 1}
		bad, err := r.findClosing(&s, &lines)
		if bad != nil || err != nil {
			return bad, err
		}
		r.rec.spans = append(r.rec.spans, s)
		end := r.find(r.rec.raw, s.to+1)
		if rest := r.rec.raw[s.to+1 : end]; !isBlank(rest) {
			bad := r.rec.bad(s.to+1, rest, wantEndQ)
			return bad, r.resync(lines)
		}
		if end == len(r.rec.raw) {
			return nil, nil
		}
		at = end + len(r.separator)
	}
}

// findClosing finds the closing quote of s, reading more lines of the record as
// needed.
func (r *records) findClosing(s *span, lines *int) (*RowError, error) {
	for i := s.from; ; {
		n := bytes.IndexByte(r.rec.raw[i:], '"')
		if n < 0 {
			i = len(r.rec.raw)
			more, err := r.extend(*lines == 1)
			if err != nil {
				return nil, err
			}
			if !more {
				bad := r.rec.bad(s.at, r.rec.raw[s.at:], wantClosing)
				return bad, r.resync(*lines)
			}
			*lines++
			continue
		}
		i += n
		if i+1 == len(r.rec.raw) || r.rec.raw[i+1] != '"' {
			s.to = i
			return nil, nil
		}
		s.escaped = true
		i += 2
	}
}

// extend appends the next line to the record, if there is one.
func (r *records) extend(first bool) (bool, error) {
	if first {
		r.rec.text = append(r.rec.text[:0], r.rec.raw...)
	}
	r.rec.raw = r.rec.text
	if len(r.rec.text) > maxQuoted {
		return false, nil
	}
	end, err := r.in.lineEnd()
	if err != nil {
		return false, err
	}
	line, err := r.in.next()
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	r.rec.text = append(append(r.rec.text, end...), line...)
	r.rec.raw = r.rec.text
	return true, nil
}

// resync puts all but the first line of a malformed record back.
func (r *records) resync(lines int) error {
	if lines == 1 {
		return nil
	}
	end, err := r.in.lineEnd()
	if err != nil {
		return err
	}
	first := findLineEnd(r.rec.raw)
	rest := r.rec.raw[first+1:]
	if r.rec.raw[first] == '\r' && len(rest) > 0 && rest[0] == '\n' {
		rest = rest[1:]
	}
	r.in.unread(append(bytes.Clone(rest), end...), lines-1)
	return nil
}

// unescape undoubles the quotes of quoted fields, in place. What becomes free
// is filled, so that every line end stays there once.
func (r *records) unescape() {
	raw := r.rec.raw
	for _, s := range r.rec.spans {
		if s.escaped {
			to := s.from
			for i := s.from; i < s.to; i++ {
				raw[to] = raw[i]
				to++
				if raw[i] == '"' {
					i++
				}
			}
			for i := to; i < s.to; i++ {
				raw[i] = '"'
			}
			s.to = to
		}
		r.rec.fields = append(r.rec.fields, raw[s.from:s.to])
	}
}

// names reads a record as a header: unique names, an empty one becoming that of
// the place of its column.
func (r *record) names() ([]string, error) {
	seen := map[string]bool{}
	out := make([]string, len(r.fields))
	for i, f := range r.fields {
		out[i] = string(f)
		if out[i] == "" {
			out[i] = columnName(i)
		}
		if seen[out[i]] {
			return nil, fmt.Errorf("header: %w", r.badField(i, "a name that no other column has"))
		}
		seen[out[i]] = true
	}
	return out, nil
}

// columnName is that of column i of data without a header.
func columnName(i int) string { return fmt.Sprintf("c%d", i) }
