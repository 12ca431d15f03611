package dataset

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// What a field must be, as said by errors.
const (
	wantLabel   = "a label -1, 0 or 1"
	wantFinite  = "a finite number"
	wantNumber  = "a number"
	wantRule    = "a number; if the label is text say which values are 1 (OneOf, --label COL=V,W)"
	wantWeight  = "a finite weight of 0 or more"
	wantValue   = "a value: the field is empty"
	wantColon   = "index:value"
	wantTriple  = "field:index:value"
	wantIndex   = "an index from 0 to 18446744073709551615"
	wantID      = "an id from 0 to 18446744073709551615, or text"
	wantRising  = "an index above the one before"
	wantText    = "text without NUL bytes"
	wantClosing = "a closing quote"
	wantEndQ    = "a separator or the end of the line after a closing quote"
)

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
	wide, want := parseDecimal(b, 1<<24, 32)
	return float32(wide), want
}

// parseFloat is parseValue for float64.
func parseFloat(b []byte) (v float64, want string) { return parseDecimal(b, 1<<53, 64) }

// parseDecimal reads a number of that many bits, in which whole numbers below
// exact are exact.
func parseDecimal(b []byte, exact uint64, bits int) (v float64, want string) {
	if n, ok := parseIndex(b); ok && n < exact {
		return float64(n), "" // what most values are
	}
	for _, c := range b {
		if (c < '0' || c > '9') && c != '.' && c != '-' && c != '+' && c != 'e' && c != 'E' {
			return 0, notDecimal(b)
		}
	}
	v, err := strconv.ParseFloat(string(b), bits)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, wantFinite
	case err != nil:
		return 0, wantNumber
	}
	return v, ""
}

// notDecimal tells the names of numbers that are not finite from other text.
func notDecimal(b []byte) string {
	switch strings.ToLower(strings.TrimLeft(string(b), "+-")) {
	case "nan", "inf", "infinity":
		return wantFinite
	}
	return wantNumber
}
