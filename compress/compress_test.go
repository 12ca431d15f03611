package compress_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hcclps/compress"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// codecs are all of them, with parameters too.
func codecs() []string {
	return append(compress.Names(), "twobit:0.5", "topk:0.1", "topk:1", "randomk:0.25", "randomk:1")
}

func parse(t testing.TB, name string) compress.Codec {
	t.Helper()
	c, err := compress.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// normal is n numbers as gradients are: of very different sizes, around 0.
func normal(seed uint64, n int) []float32 {
	rng := rand.New(rand.NewPCG(seed, 7))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64() * math.Exp(rng.NormFloat64()))
	}
	return x
}

// distance is the length of a - b, and length that of a.
func distance(a, b []float32) (d, length float64) {
	for i := range a {
		d += (float64(a[i]) - float64(b[i])) * (float64(a[i]) - float64(b[i]))
		length += float64(a[i]) * float64(a[i])
	}
	return math.Sqrt(d), math.Sqrt(length)
}

// TestGolden pins the bytes of every codec: what is on disks and on wires between versions depends on them.
func TestGolden(t *testing.T) {
	var got strings.Builder
	x := make([]float32, 300)
	for i := range x {
		x[i] = float32((i*i*7919+i*31)%2003-1001) / 128
	}
	for _, name := range codecs() {
		frame, err := compress.AppendFrame(nil, parse(t, name), []int{3, 100}, x, 42)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "%s %s\n", name, hex.EncodeToString(frame))
	}
	keys := []uint64{0, 1, 2, 77, 1 << 33, 1<<33 + 1, 1<<64 - 2, 1<<64 - 1}
	for _, name := range []string{"none", "bf16", "fp16", "int8", "twobit", "onebit"} {
		for _, dim := range []int{1, 9} {
			frame, err := compress.AppendRows(nil, parse(t, name), keys, x[:8*dim], dim, 0)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&got, "rows %s %d %s\n", name, dim, hex.EncodeToString(frame))
		}
	}
	for _, name := range codecs() {
		frame, err := compress.AppendRows(nil, parse(t, name), []uint64{4, 6, 7}, x[:2*100+37], 100, 42) // the last row is short
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "short rows %s %s\n", name, hex.EncodeToString(frame))
	}
	path := filepath.Join("testdata", "golden.txt")
	if *rewrite {
		if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("the frames are not those of %s (see -rewrite); they are now\n%s", path, got.String())
	}
}

// TestError: decoding is as near as the package says.
func TestError(t *testing.T) {
	each := func(x, y float32) bool { return x == y }
	whole := func(share float64) func(x, y []float32) bool {
		return func(x, y []float32) bool {
			d, length := distance(x, y)
			return d <= length*share
		}
	}
	elements := func(ok func(x, y float32) bool) func(x, y []float32) bool {
		return func(x, y []float32) bool {
			for i := range x {
				if !ok(x[i], y[i]) {
					return false
				}
			}
			return true
		}
	}
	within := func(relative, least float64) func(x, y float32) bool {
		return func(x, y float32) bool {
			return math.Abs(float64(x)-float64(y)) <= max(relative*math.Abs(float64(x)), least)
		}
	}
	bounds := map[string]func(x, y []float32) bool{
		"none": elements(each), "topk:1": elements(each), "randomk:1": elements(each),
		"bf16": elements(within(0x1p-8, 0x1p-134)), "fp16": elements(within(0x1p-11, 0x1p-25)),
		"int8": func(x, y []float32) bool {
			for block := range slices.Chunk(x, 256) {
				top := 0.0
				for _, v := range block {
					top = max(top, math.Abs(float64(v)))
				}
				if !elements(within(0, max(0.501*top/127, 0x1p-100)))(block, y[:len(block)]) {
					return false
				}
				y = y[len(block):]
			}
			return true
		},
		"twobit": whole(1 + 0x1p-7), "onebit": whole(1 + 0x1p-7),
		"topk": whole(math.Sqrt(0.99)), "topk:0.1": whole(math.Sqrt(0.9)), "randomk": whole(1), "randomk:0.25": whole(1),
		"twobit:0.5": elements(func(x, y float32) bool {
			want := float32(0)
			if x >= 0.5 {
				want = 0.5
			} else if x <= -0.5 {
				want = -0.5
			}
			return y == want
		}),
	}
	for _, name := range codecs() {
		c := parse(t, name)
		for seed := range uint64(40) {
			x := normal(seed, int(seed*seed*7))
			for i := range x {
				x[i] *= float32(math.Ldexp(1, int(seed%20)-15))
			}
			code, err := c.Append(nil, x, seed)
			if err != nil {
				t.Fatal(err)
			}
			y := make([]float32, len(x))
			if err := c.Decode(y, code, compress.Set); err != nil {
				t.Fatal(err)
			}
			if !bounds[name](x, y) {
				d, length := distance(x, y)
				t.Errorf("%s: %d elements, seed %d: off by %v of %v", name, len(x), seed, d, length)
			}
		}
	}
}

// TestRestAndAdd: the rest is what decoding leaves, encoding with and without it gives one code, and adding adds what setting sets.
func TestRestAndAdd(t *testing.T) {
	for _, name := range codecs() {
		c := parse(t, name)
		for _, n := range []int{0, 1, 2, 7, 8, 9, 255, 256, 257, 1023, 1024, 1025, 5000} {
			x := normal(uint64(n), n)
			rest := slices.Clone(x)
			prefix := []byte("before")
			code, err := c.Append(slices.Clone(prefix), x, 5)
			if err != nil {
				t.Fatal(err)
			}
			same, err := c.AppendRest(slices.Clone(prefix), rest, 5)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(code, same) || !bytes.HasPrefix(code, prefix) {
				t.Fatalf("%s: %d elements: the codes are %x and %x", name, n, code, same)
			}
			code = code[len(prefix):]
			if most := c.MaxLen(n); len(code) > most || len(code) < most && !strings.HasPrefix(name, "topk") {
				t.Fatalf("%s: %d elements took %d bytes, want %d", name, n, len(code), most)
			}
			set, sum := slices.Repeat([]float32{9}, n), slices.Repeat([]float32{1}, n)
			if err := errors.Join(c.Decode(set, code, compress.Set), c.Decode(sum, code, compress.Add)); err != nil {
				t.Fatal(err)
			}
			for i := range x {
				if rest[i] != x[i]-set[i] || sum[i] != 1+set[i] {
					t.Fatalf("%s: element %d of %d: %v is %v and rest %v, and added to 1 %v", name, i, n, x[i], set[i], rest[i], sum[i])
				}
			}
		}
	}
}

// TestBlocks: the codes of parts that are cut where Block says are the code of the whole.
func TestBlocks(t *testing.T) {
	x := normal(1, 4*1024+300)
	for _, name := range codecs() {
		c := parse(t, name)
		block := compress.Block(c)
		if block == 0 {
			continue
		}
		whole, err := c.Append(nil, x, 0)
		if err != nil {
			t.Fatal(err)
		}
		var parts []byte
		for part := range slices.Chunk(x, (1000/block+1)*block) {
			if parts, err = c.Append(parts, part, 0); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(parts, whole) {
			t.Errorf("%s: the codes of parts differ from that of the whole", name)
		}
	}
}

// TestOneBitIsSmall: a dense frame of one bit is at most 1/28 of float32, from 1024 elements on.
func TestOneBitIsSmall(t *testing.T) {
	c := parse(t, "onebit")
	for _, n := range []int{1024, 1 << 12, 10_000, 1 << 20, 1<<20 + 1} {
		frame, err := compress.AppendFrame(nil, c, []int{n}, normal(2, n), 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(frame)*28 > 4*n || len(frame) > compress.MaxFrame(c, n) {
			t.Errorf("%d elements take %d bytes, 1/%.2f of float32", n, len(frame), 4*float64(n)/float64(len(frame)))
		}
	}
}

// TestNotFinite: encoders of codecs that cannot hold such numbers refuse them and change nothing.
func TestNotFinite(t *testing.T) {
	for _, name := range codecs() {
		c := parse(t, name)
		for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 0x1p65} {
			x := normal(3, 2000)
			x[1500] = bad
			was := slices.Clone(x)
			code, err := c.Append([]byte{1}, x, 0)
			if name == "none" || name == "bf16" {
				y := make([]float32, len(x))
				if err = errors.Join(err, c.Decode(y, code[1:], compress.Set)); err != nil || y[1500] != bad && bad == bad || bad != bad && y[1500] == y[1500] {
					t.Errorf("%s: %v became %v: %v", name, bad, y[1500], err)
				}
				continue
			}
			again, errRest := c.AppendRest([]byte{1}, x, 0)
			if !errors.Is(err, compress.ErrNotFinite) || !errors.Is(errRest, compress.ErrNotFinite) || len(code) != 1 || len(again) != 1 {
				t.Errorf("%s: accepted %v: %v, %v", name, bad, err, errRest)
			}
			x[1500], was[1500] = 0, 0
			if !slices.Equal(x, was) {
				t.Errorf("%s: refused %v and changed the vector", name, bad)
			}
		}
	}
}

func TestParse(t *testing.T) {
	for _, name := range codecs() {
		c := parse(t, name)
		if c.String() != name {
			t.Errorf("%s calls itself %s", name, c)
		}
		if word, _, _ := strings.Cut(name, ":"); compress.KindOf(c).String() != word {
			t.Errorf("%s is of kind %s", name, compress.KindOf(c))
		}
	}
	for _, name := range []string{
		"", "1bit", "OneBit", "fp16:1", "onebit:", "topk:0", "topk:-1", "topk:1.5", "topk:NaN", "topk:x", "twobit:0", "twobit:inf", "twobit:1e30", "twobit:1e-40",
		"randomk:2", "auto",
	} {
		if c, err := compress.Parse(name); err == nil {
			t.Errorf("%q is %v", name, c)
		}
	}
}

// TestNothingAllocates: with room in the destination neither encoding nor decoding allocates.
func TestNothingAllocates(t *testing.T) {
	x := normal(4, 20_000)
	for _, name := range codecs() {
		c := parse(t, name)
		f, err := compress.NewFeedback(c, len(x))
		if err != nil {
			t.Fatal(err)
		}
		room, y := make([]byte, 0, c.MaxLen(len(x))), make([]float32, len(x))
		step := func() {
			if _, err := c.Append(room, x, 1); err != nil {
				t.Fatal(err)
			}
			code, err := f.Append(room, x, 1)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Decode(y, code, compress.Add); err != nil {
				t.Fatal(err)
			}
		}
		step() // topk makes its memory once, and again when a pool has let it go, as it does at random under the race detector
		most := 0.0
		if strings.HasPrefix(name, "topk") {
			most = 16
		}
		if n := testing.AllocsPerRun(20, step); n > most {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
