package dataset

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// twinNumber is parseValue by package strconv alone.
func twinNumber(s string) (float32, bool) {
	v, err := strconv.ParseFloat(s, 32)
	return float32(v), err == nil && !math.IsInf(v, 0) && !math.IsNaN(v) && !strings.ContainsAny(s, "xXpP_")
}

// twinSparse reads a row of libfm, or of libffm, the plain way: field -> entries.
func twinSparse(line string, ffm bool) (label float32, fields map[int][]string, ok bool) {
	words := strings.FieldsFunc(line, func(c rune) bool { return c == ' ' || c == '\t' })
	if strings.Contains(line, "\x00") || len(words) == 0 {
		return 0, nil, false
	}
	if label, ok = twinNumber(words[0]); !ok {
		return 0, nil, false
	}
	fields = map[int][]string{}
	for _, w := range words[1:] {
		field := 0
		if ffm {
			f, rest, _ := strings.Cut(w, ":")
			n, err := strconv.ParseUint(f, 10, 64)
			if err != nil || n >= 4 {
				return 0, nil, false
			}
			field, w = int(n), rest
		}
		index, value, found := strings.Cut(w, ":")
		k, err := strconv.ParseUint(index, 10, 64)
		v, ok := twinNumber(value)
		if !found || err != nil || !ok {
			return 0, nil, false
		}
		if v != 0 {
			fields[field] = append(fields[field], fmt.Sprint(k, v))
		}
	}
	return label, fields, true
}

func seedSparse(f *testing.F) {
	f.Helper()
	for _, s := range []string{
		"3.5 7:1 2:-3e-4", "1 0:1:1 3:2:0.5 0:9:2", "1 0:1:0", "-1", "x", "1 4:1:1", "1 1:1:", "1 1::1", "1 0:18446744073709551615:1 0:0:1",
		"1 0:18446744073709551616:1", "1\t1:1\x00", "1 :1:1", "1 1:2:3:4", "1 +1:1:1", "nan 1:1", "1e39 1:1",
	} {
		f.Add([]byte(s))
	}
}

func FuzzParseLibfm(f *testing.F) {
	seedSparse(f)
	parser := sparse{parse: libfmRow(Label{Number: true})}
	f.Fuzz(func(t *testing.T, line []byte) {
		agrees(t, &parser, line, false, newShape(Features))
	})
}

func FuzzParseLibffm(f *testing.F) {
	seedSparse(f)
	// Field 2 is not asked for.
	l := &libffm{rule: Label{Number: true}, bag: []int{1, 0, -1, 2}, bags: make([][]ffmEntry, 3)}
	parser := sparse{parse: l.row}
	f.Fuzz(func(t *testing.T, line []byte) {
		agrees(t, &parser, line, true, &shape{bags: make([]part, 3), weighted: true})
	})
}

// agrees compares a parser with its twin on a line behind another row.
func agrees(t *testing.T, p *sparse, line []byte, ffm bool, s *shape) {
	t.Helper()
	r := rows{shape: s}
	r.add(9, 2)
	for range s.bags {
		r.endBag()
	}
	r.close(1, 1)
	label, fields, ok := twinSparse(string(line), ffm)
	bad := p.row(line, &r)
	if ok != (bad == nil) {
		t.Fatalf("%q: twin says %v, parser %v", line, ok, bad)
	}
	if bad != nil {
		r.undo()
		if r.len() != 1 || len(r.keys) != 1 || bad.Column < 1 || bad.Column > len(line)+1 || bad.Want == "" {
			t.Fatalf("%q: rows %v after error %+v", line, r, bad)
		}
		return
	}
	order := []int{0}
	if ffm {
		order = []int{1, 0, 3}
	}
	for b, field := range order {
		var got []string
		from, to := r.bag(len(s.bags) + b)
		for i := from; i < to; i++ {
			got = append(got, fmt.Sprint(r.keys[i], r.values[i]))
		}
		if !slices.Equal(got, fields[field]) {
			t.Fatalf("%q: bag %d is %q, want %q", line, b, got, fields[field])
		}
	}
	if r.label[1] != label || len(r.values) != len(r.keys) {
		t.Fatalf("%q: %+v", line, r)
	}
}
