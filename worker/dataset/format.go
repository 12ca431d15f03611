package dataset

import (
	"slices"
	"strings"
)

// The formats.
const (
	FormatLibsvm  = "libsvm"  // label index:value ..., indices rising
	FormatLibfm   = "libfm"   // the same, the label a number, indices in any order
	FormatLibffm  = "libffm"  // label field:index:value ...
	FormatCSV     = "csv"     // columns separated by commas
	FormatTSV     = "tsv"     // columns separated by tabs
	FormatCriteo  = "criteo"  // tabs, no header, no quotes: label, 13 numbers, 26 ids
	FormatRatings = "ratings" // user, item, rating, ... separated by ::, tab or comma
)

// Formats returns the names of the formats that can be read.
func Formats() []string {
	return append([]string{FormatLibsvm, FormatLibfm, FormatLibffm}, tabularFormats()...)
}

func tabularFormats() []string {
	return []string{FormatCSV, FormatTSV, FormatCriteo, FormatRatings}
}

func isTabular(format string) bool { return slices.Contains(tabularFormats(), format) }

// dialect is how a line is cut into fields.
type dialect struct {
	separator string
	quotes    bool // fields may be quoted by RFC 4180
}

// newDialect is that of a format. Without a separator, that of ratings is found
// in the first line.
func newDialect(format, separator string, first []byte) dialect {
	d := dialect{separator: separator}
	if d.separator == "" {
		switch line := string(first); {
		case format == FormatTSV || format == FormatCriteo:
			d.separator = "\t"
		case format == FormatRatings && strings.Contains(line, "::"):
			d.separator = "::"
		case format == FormatRatings && strings.Contains(line, "\t"):
			d.separator = "\t"
		default:
			d.separator = ","
		}
	}
	switch format {
	case FormatCriteo:
	case FormatRatings:
		d.quotes = d.separator == ","
	default:
		d.quotes = len(d.separator) == 1
	}
	return d
}
