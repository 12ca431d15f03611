package dataset

import "fmt"

// maxShown is how many bytes of an offending field an error repeats.
const maxShown = 40

// RowError is a malformed row. Fix the file there, or count such rows instead of
// failing with Config.SkipBad.
type RowError struct {
	Path   string // file
	Line   int    // from 1
	Column int    // byte of the line, from 1
	Field  string // name of the column; empty if the format has none
	Value  string // the offending text, cut to 40 bytes
	Want   string // what was expected there
}

// Error names file, line, column, the offending text and what was expected.
func (e *RowError) Error() string {
	name := ""
	if e.Field != "" {
		name = fmt.Sprintf("column %q: ", e.Field)
	}
	return fmt.Sprintf("read row: %s:%d:%d: %s%q: want %s", e.Path, e.Line, e.Column, name, e.Value, e.Want)
}

// malformed makes the error of the field that starts at offset at of a line; the
// caller who knows them adds file and line.
func malformed(at int, field []byte, want string) *RowError {
	if len(field) > maxShown {
		field = field[:maxShown]
	}
	return &RowError{Column: at + 1, Value: string(field), Want: want}
}
