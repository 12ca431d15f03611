package dataset

import (
	"errors"
	"fmt"
	"io"
	"slices"
)

// side is a side table in memory.
type side struct {
	on      int      // column of the data that holds the key
	names   []string // of the columns it adds
	rows    map[string]int32
	text    []byte  // all fields of all rows
	ends    []int32 // ends[row*len(names)+i] is where field i of a row ends in text
	missing [][]byte
}

// maxSide bounds the text of a side table.
const maxSide = 1<<31 - 1

// load reads a side table whose key joins a column of the data.
func (j *Join) load(data []string) (*side, error) {
	s, err := j.read(data)
	if err != nil {
		return nil, fmt.Errorf("join %s: %w", j.File, err)
	}
	return s, nil
}

func (j *Join) read(data []string) (*side, error) {
	if err := checkFile(j.File); err != nil {
		return nil, err
	}
	src := source{format: orElse(j.Format, FormatCSV), separator: j.Separator, header: headerAuto, columns: j.Columns}
	if j.Columns == nil && j.Format == FormatRatings {
		src.header = headerNo
	}
	l, err := src.look(j.File)
	if err != nil {
		return nil, err
	}
	key := slices.Index(l.columns, j.Key)
	on := slices.Index(data, orElse(j.On, j.Key))
	switch {
	case key < 0:
		return nil, fmt.Errorf("key %q is none of its columns %s", j.Key, list(l.columns))
	case on < 0:
		return nil, fmt.Errorf("column %q is none of the data's: %s", orElse(j.On, j.Key), list(data))
	}
	s := &side{on: on, rows: map[string]int32{}}
	for i, name := range l.columns {
		if i != key {
			s.names = append(s.names, j.Prefix+name)
		}
		if i != key && slices.Contains(data, j.Prefix+name) {
			return nil, fmt.Errorf("column %q is in the data too: give a prefix", j.Prefix+name)
		}
	}
	s.missing = make([][]byte, len(s.names))
	in := newInput([]string{j.File})
	err = s.fill(newTable(in, l), key)
	return s, errors.Join(err, in.close())
}

func (s *side) fill(t *table, key int) error {
	for {
		rec, bad, err := t.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if bad != nil {
			return bad
		}
		k := string(rec.fields[key])
		if _, twice := s.rows[k]; twice {
			return rec.badField(key, "a key that no other row has")
		}
		s.rows[k] = int32(len(s.rows))
		for i, f := range rec.fields {
			if i != key {
				s.text = append(s.text, f...)
				s.ends = append(s.ends, int32(len(s.text)))
			}
		}
		if len(s.text) > maxSide-maxLine {
			return errors.New("more than 2 GiB of text: a side table must fit in memory")
		}
	}
}

// appendTo adds the fields that belong to a row's key; without such a row they
// are missing.
func (s *side) appendTo(fields [][]byte) [][]byte {
	row, ok := s.rows[string(fields[s.on])]
	if !ok {
		return append(fields, s.missing...)
	}
	at := int32(0)
	first := int(row) * len(s.names)
	if first > 0 {
		at = s.ends[first-1]
	}
	for _, end := range s.ends[first : first+len(s.names)] {
		fields = append(fields, s.text[at:end])
		at = end
	}
	return fields
}
