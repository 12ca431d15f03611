package dataset

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var libsvmTest = sparse{parse: libsvmRow(Label{})}

// parseLibsvm appends the row of a line to r, or leaves r alone.
func parseLibsvm(line []byte, r *rows) *RowError {
	bad := libsvmTest.row(line, r)
	if bad != nil {
		r.undo()
	}
	return bad
}

func TestParseLibsvmGood(t *testing.T) {
	cases := []struct {
		line   string
		label  float32
		keys   []uint64
		values []float32
	}{
		{"1 3:1 11:1", 1, []uint64{3, 11}, []float32{1, 1}},
		{"-1 3:1 11:1 ", 0, []uint64{3, 11}, []float32{1, 1}},
		{"+1", 1, nil, nil},
		{"0", 0, nil, nil},
		{"-0 1:2", 0, []uint64{1}, []float32{2}},
		{"1.0 1:-0.5\t2:+3 ", 1, []uint64{1, 2}, []float32{-0.5, 3}},
		{" \t-1.0e0  7:1e-3", 0, []uint64{7}, []float32{1e-3}},
		{"1 0:1 18446744073709551615:2", 1, []uint64{0, math.MaxUint64}, []float32{1, 2}},
		{"1 00042:.5 43:5.", 1, []uint64{42, 43}, []float32{0.5, 5}},
		{"1 1:16777215 2:16777216 3:16777217", 1, []uint64{1, 2, 3}, []float32{16777215, 16777216, 16777216}},
		{"1 1:0 2:1 3:-0.0 4:1e-60", 1, []uint64{2}, []float32{1}},
	}
	for _, c := range cases {
		r := rows{shape: newShape(Features)}
		if bad := parseLibsvm([]byte(c.line), &r); bad != nil {
			t.Errorf("%q: %v", c.line, bad)
			continue
		}
		if r.label[0] != c.label || !slices.Equal(r.keys, c.keys) || !slices.Equal(r.values, c.values) {
			t.Errorf("%q: got %v %v %v, want %v %v %v", c.line, r.label, r.keys, r.values, c.label, c.keys, c.values)
		}
	}
}

func TestParseLibsvmBad(t *testing.T) {
	cases := []struct {
		line   string
		column int
		value  string
		want   string
	}{
		{"one 1:1", 1, "one", wantNumber},
		{"0x1 1:1", 1, "0x1", wantNumber},
		{"1_0 1:1", 1, "1_0", wantNumber},
		{" nan 1:1", 2, "nan", wantFinite},
		{"-Inf 1:1", 1, "-Inf", wantFinite},
		{"1e99 1:1", 1, "1e99", wantFinite},
		{"2 1:1", 1, "2", wantLabel},
		{"0.5 1:1", 1, "0.5", wantLabel},
		{"1:1 2:1", 1, "1:1", wantNumber},
		{"1 5 6:1", 3, "5", wantColon},
		{"1 5:1 6", 7, "6", wantColon},
		{"1 qid:7 6:1", 3, "qid", wantIndex},
		{"1 :1", 3, "", wantIndex},
		{"1 -1:1", 3, "-1", wantIndex},
		{"1 +1:1", 3, "+1", wantIndex},
		{"1 1.5:1", 3, "1.5", wantIndex},
		{"1 18446744073709551616:1", 3, "18446744073709551616", wantIndex},
		{"1 99999999999999999999999:1", 3, "99999999999999999999999", wantIndex},
		{"1 2:1 2:1", 7, "2", wantRising},
		{"1 2:1 1:1", 7, "1", wantRising},
		{"1 0:1 0:1", 7, "0", wantRising},
		{"1 2:", 5, "", wantNumber},
		{"1 2: 3:1", 5, "", wantNumber},
		{"1 2:x", 5, "x", wantNumber},
		{"1 2:1:1", 5, "1:1", wantNumber},
		{"1 2:--1", 5, "--1", wantNumber},
		{"1 2:NaN", 5, "NaN", wantFinite},
		{"1 2:+infinity", 5, "+infinity", wantFinite},
		{"1 2:-3.5e38", 5, "-3.5e38", wantFinite},
		{"1 2:1\x00", 6, "\x00", wantText},
		{"1 2:" + strings.Repeat("z", 100), 5, strings.Repeat("z", 40), wantNumber},
	}
	for _, c := range cases {
		r := rows{shape: newShape(Features)}
		bad := parseLibsvm([]byte(c.line), &r)
		if bad == nil {
			t.Errorf("%q: accepted", c.line)
			continue
		}
		if bad.Column != c.column || bad.Value != c.value || bad.Want != c.want {
			t.Errorf("%q: got %d %q %q, want %d %q %q", c.line, bad.Column, bad.Value, bad.Want, c.column, c.value, c.want)
		}
		if r.len() != 0 || len(r.keys) != 0 || len(r.values) != 0 {
			t.Errorf("%q: a refused row left %v %v behind", c.line, r.keys, r.values)
		}
	}
}

func TestParseLibsvmDoesNotAllocate(t *testing.T) {
	line := []byte("-1 3:1 11:0.25 14:1e-3 19:123456789.125 4000000000:1")
	r := rows{shape: newShape(Features)}
	if n := testing.AllocsPerRun(100, func() {
		r.reset()
		if bad := parseLibsvm(line, &r); bad != nil {
			t.Fatal(bad)
		}
	}); n != 0 {
		t.Errorf("%v allocations a row, want 0", n)
	}
}

// twin reads a row the plain way: split, then package strconv.
func twin(line string) (keys []uint64, values []float32, label float32, ok bool) {
	fields := strings.FieldsFunc(line, func(c rune) bool { return c == ' ' || c == '\t' })
	if strings.ContainsAny(line, "\x00") || len(fields) == 0 {
		return nil, nil, 0, false
	}
	number := func(s string) (float32, bool) {
		v, err := strconv.ParseFloat(s, 32)
		return float32(v), err == nil && !math.IsInf(v, 0) && !math.IsNaN(v) && !strings.ContainsAny(s, "xXpP_")
	}
	label, ok = number(fields[0])
	if !ok || label != -1 && label != 0 && label != 1 {
		return nil, nil, 0, false
	}
	last := uint64(0)
	for i, f := range fields[1:] {
		index, value, found := strings.Cut(f, ":")
		k, err := strconv.ParseUint(index, 10, 64)
		v, ok := number(value)
		if !found || err != nil || !ok || i > 0 && k <= last {
			return nil, nil, 0, false
		}
		last = k
		if v != 0 {
			keys, values = append(keys, k), append(values, v)
		}
	}
	return keys, values, max(label, 0), true
}

func FuzzParseLibsvm(f *testing.F) {
	for _, s := range []string{
		"", "1", "-1 3:1 11:1 ", "+1 1:0.5\t2:-3e-4", "0 0:1 18446744073709551615:1", "1 1:1 1:1", "1 2:nan",
		"1 qid:3", "1 1:0 123:0", "1 5:1e39", "1\x001:1", "1 1:1#x", "1 18446744073709551616:1", "0x1p-2 1:0x1", "1 1:1e", "1 :",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		r := rows{shape: newShape(Features)}
		r.add(9, 2)
		r.endBag()
		r.close(1, 1)
		keys, values, label, ok := twin(string(line))
		bad := parseLibsvm(line, &r)
		if ok != (bad == nil) {
			t.Fatalf("%q: twin says %v, parser %v", line, ok, bad)
		}
		if bad != nil {
			if r.len() != 1 || len(r.keys) != 1 || bad.Column < 1 || bad.Column > len(line)+1 || bad.Want == "" {
				t.Fatalf("%q: rows %v after error %+v", line, r, bad)
			}
			return
		}
		if r.label[1] != label || !slices.Equal(r.keys[1:], keys) || !slices.Equal(r.values[1:], values) || int(r.ends[1]) != len(r.keys) {
			t.Fatalf("%q: got %v, want %v %v %v", line, r, label, keys, values)
		}
	})
}

func BenchmarkParseLibsvm(b *testing.B) {
	line := []byte("-1 3:1 11:1 14:1 19:1 39:1 42:1 55:1 64:1 67:1 73:1 75:1 76:1 80:1 83:1 ")
	b.SetBytes(int64(len(line)))
	r := rows{shape: newShape(Features)}
	for b.Loop() {
		r.reset()
		if bad := parseLibsvm(line, &r); bad != nil {
			b.Fatal(bad)
		}
	}
}
