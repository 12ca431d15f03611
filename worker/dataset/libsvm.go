package dataset

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"strings"
)

// What a field of a row must be, as said by errors.
const (
	wantLabel  = "a label -1, 0 or 1"
	wantFinite = "a finite number"
	wantNumber = "a number"
	wantColon  = "index:value"
	wantIndex  = "an index from 0 to 18446744073709551615"
	wantRising = "an index above the one before"
	wantText   = "text without NUL bytes"
)

// parseLibsvm appends the row of a line to rows, or leaves rows alone and says
// what is wrong.
func parseLibsvm(line []byte, rows *rows) *RowError {
	if i := bytes.IndexByte(line, 0); i >= 0 {
		return malformed(i, line[i:i+1], wantText)
	}
	bad := parseFields(line, rows)
	if bad != nil {
		rows.undo()
	}
	return bad
}

func parseFields(line []byte, rows *rows) *RowError {
	at, end := field(line, 0)
	label, bad := parseLabel(line[at:end])
	if bad != "" {
		return malformed(at, line[at:end], bad)
	}
	var last uint64
	for first := true; ; first = false {
		at, end = field(line, end)
		if at == end {
			break
		}
		entry := line[at:end]
		colon := bytes.IndexByte(entry, ':')
		if colon < 0 {
			return malformed(at, entry, wantColon)
		}
		key, ok := parseIndex(entry[:colon])
		if !ok {
			return malformed(at, entry[:colon], wantIndex)
		}
		if !first && key <= last {
			return malformed(at, entry[:colon], wantRising)
		}
		last = key
		value, bad := parseValue(entry[colon+1:])
		if bad != "" {
			return malformed(at+colon+1, entry[colon+1:], bad)
		}
		if value != 0 {
			rows.add(key, value)
		}
	}
	rows.endBag()
	rows.close(label, 1)
	return nil
}

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

// parseLabel maps -1 and 0 to 0, 1 to 1. Of what is wrong it says what was
// wanted.
func parseLabel(b []byte) (label float32, want string) {
	v, want := parseValue(b)
	switch {
	case want != "":
		return 0, want
	case v == 1:
		return 1, ""
	case v == 0 || v == -1:
		return 0, ""
	}
	return 0, wantLabel
}

// parseIndex reads decimal digits, nothing else, that fit 64 bits.
func parseIndex(b []byte) (uint64, bool) {
	if len(b) == 0 {
		return 0, false
	}
	var n uint64
	for _, c := range b {
		d := uint64(c - '0')
		if d > 9 || n > (math.MaxUint64-d)/10 {
			return 0, false
		}
		n = 10*n + d
	}
	return n, true
}

// parseValue reads a decimal number, rounded to the nearest float32. Of what is
// wrong it says what was wanted.
func parseValue(b []byte) (v float32, want string) {
	if n, ok := parseIndex(b); ok && n < 1<<24 {
		return float32(n), "" // exact, and what most values are
	}
	for _, c := range b {
		if (c < '0' || c > '9') && c != '.' && c != '-' && c != '+' && c != 'e' && c != 'E' {
			return 0, notDecimal(b)
		}
	}
	wide, err := strconv.ParseFloat(string(b), 32)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, wantFinite
	case err != nil:
		return 0, wantNumber
	}
	return float32(wide), ""
}

// notDecimal tells the names of numbers that are not finite from other text.
func notDecimal(b []byte) string {
	switch strings.ToLower(strings.TrimLeft(string(b), "+-")) {
	case "nan", "inf", "infinity":
		return wantFinite
	}
	return wantNumber
}
