package dataset

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Label says which column is the label and how to read it. Without a rule the
// label must be -1, 0 or 1, and -1 means 0.
type Label struct {
	Column  string   // name; empty: what the format calls its label
	AtLeast *float64 // 1 if the number is at least this, else 0
	OneOf   []string // 1 if the value is one of these, else 0
	Number  bool     // any finite number, as it is: for regression
}

// ParseLabel reads COLUMN, COLUMN>=T or COLUMN=V,W.
func ParseLabel(s string) (Label, error) {
	column, rule, ok := strings.Cut(s, "=")
	if !ok {
		return Label{Column: s}, nil
	}
	if column, ok := strings.CutSuffix(column, ">"); ok {
		t, want := parseFloat([]byte(rule))
		if want != "" {
			return Label{}, fmt.Errorf("read label rule %q: %q: want %s after >=", s, rule, want)
		}
		return Label{Column: column, AtLeast: &t}, nil
	}
	values := strings.Split(rule, ",")
	if slices.Contains(values, "") {
		return Label{}, fmt.Errorf("read label rule %q: want values after =, separated by commas", s)
	}
	return Label{Column: column, OneOf: values}, nil
}

// String writes the rule in the form that ParseLabel reads.
func (l Label) String() string {
	switch {
	case l.AtLeast != nil:
		return l.Column + ">=" + strconv.FormatFloat(*l.AtLeast, 'g', -1, 64)
	case l.OneOf != nil:
		return l.Column + "=" + strings.Join(l.OneOf, ",")
	}
	return l.Column
}

// validate refuses more than one rule.
func (l Label) validate() error {
	n := 0
	for _, given := range []bool{l.AtLeast != nil, l.OneOf != nil, l.Number} {
		if given {
			n++
		}
	}
	if n > 1 {
		return errors.New("label: want one of at_least, one_of and number")
	}
	if l.AtLeast != nil && *l.AtLeast-*l.AtLeast != 0 {
		return fmt.Errorf("label: at_least %v: want a finite number", *l.AtLeast)
	}
	return nil
}

// ruled reports whether a rule is given.
func (l Label) ruled() bool { return l.AtLeast != nil || l.OneOf != nil || l.Number }

// parse reads a label. Of what is wrong it says what was wanted.
func (l Label) parse(b []byte) (label float32, want string) {
	if len(b) == 0 {
		return 0, wantValue
	}
	switch {
	case l.OneOf != nil:
		if slices.Contains(l.OneOf, string(b)) {
			return 1, ""
		}
		return 0, ""
	case l.AtLeast != nil:
		v, want := parseFloat(b)
		if want == "" && v >= *l.AtLeast {
			return 1, ""
		}
		return 0, want
	}
	v, want := parseValue(b)
	switch {
	case want != "":
		return 0, want
	case l.Number || v == 1:
		return v, ""
	case v == 0 || v == -1:
		return 0, ""
	}
	return 0, wantLabel
}
