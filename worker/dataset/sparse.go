package dataset

import (
	"bytes"
	"errors"
	"io"
)

// decoder reads the rows of a format.
type decoder interface {
	// next appends the next row to dst, or reports the malformed row that is in
	// its place, which leaves dst alone; io.EOF after the last row.
	next(dst *rows) (*RowError, error)
	// input is where the rows come from.
	input() *input
}

// sparse decodes formats in which a row is a label and `index:value` entries.
type sparse struct {
	in    *input
	parse func(line []byte, dst *rows) *RowError
}

func (s *sparse) input() *input { return s.in }

// next implements decoder. Comments, after `#`, and lines that say nothing are
// no rows.
func (s *sparse) next(dst *rows) (*RowError, error) {
	for {
		if err := s.in.advance(); err != nil {
			return nil, err
		}
		line, err := s.in.next()
		if errors.Is(err, io.EOF) {
			err = s.in.finish()
			line = nil
		}
		if err != nil {
			return nil, err
		}
		if i := bytes.IndexByte(line, '#'); i >= 0 {
			line = line[:i]
		}
		if isBlank(line) {
			continue
		}
		s.in.rows++
		bad := s.row(line, dst)
		if bad != nil {
			dst.undo()
			bad.Path, bad.Line = s.in.path(), s.in.line
		}
		return bad, nil
	}
}

func (s *sparse) row(line []byte, dst *rows) *RowError {
	if i := bytes.IndexByte(line, 0); i >= 0 {
		return malformed(i, line[i:i+1], wantText)
	}
	return s.parse(line, dst)
}

// isBlank reports whether a line holds nothing but blanks and tabs.
func isBlank(line []byte) bool { return len(bytes.Trim(line, " \t")) == 0 }

// field returns the borders of the first field of line at or after from; they
// are equal if there is none.
func field(line []byte, from int) (at, end int) {
	at = from
	for at < len(line) && (line[at] == ' ' || line[at] == '\t') {
		at++
	}
	end = at
	for end < len(line) && line[end] != ' ' && line[end] != '\t' {
		end++
	}
	return at, end
}

// parsePair reads index:value, which is entry, at offset at of a line.
func parsePair(at int, entry []byte) (index uint64, value float32, bad *RowError) {
	colon := bytes.IndexByte(entry, ':')
	if colon < 0 {
		return 0, 0, malformed(at, entry, wantColon)
	}
	index, ok := parseIndex(entry[:colon])
	if !ok {
		return 0, 0, malformed(at, entry[:colon], wantIndex)
	}
	value, want := parseValue(entry[colon+1:])
	if want != "" {
		return 0, 0, malformed(at+colon+1, entry[colon+1:], want)
	}
	return index, value, nil
}
