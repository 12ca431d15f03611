package table_test

import (
	"crypto/sha256"
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hcclps/ps/optim"
	"hcclps/ps/table"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

// inits has every kind once, with what its draws must look like.
func inits() []struct {
	init                table.Init
	mean, dev, min, max float64
} {
	return []struct {
		init                table.Init
		mean, dev, min, max float64
	}{
		{table.Init{}, 0, 0, 0, 0},
		{table.Init{Kind: "zeros"}, 0, 0, 0, 0},
		{table.Init{Kind: "constant", A: 2.5}, 2.5, 0, 2.5, 2.5},
		{table.Init{Kind: "uniform", A: -1, B: 3}, 1, 4 / math.Sqrt(12), -1, 3},
		{table.Init{Kind: "normal", A: 0.5, B: 2}, 0.5, 2, 0.5 - 8, 0.5 + 8},
		{table.Init{Kind: "truncnormal", A: -1, B: 0.5}, -1, 0.5 * 0.87962566, -2, 0},
		{table.Init{Kind: "xavier_uniform", FanIn: 10, FanOut: 14}, 0, 0.5 / math.Sqrt(3), -0.5, 0.5},
		{table.Init{Kind: "xavier_normal", FanIn: 10, FanOut: 22}, 0, 0.25, -1, 1},
		{table.Init{Kind: "he_uniform", FanIn: 24}, 0, 0.5 / math.Sqrt(3), -0.5, 0.5},
		{table.Init{Kind: "he_normal", FanIn: 32}, 0, 0.25, -1, 1},
	}
}

// TestInitMoments: mean, deviation and range of 320,000 draws of every initializer.
func TestInitMoments(t *testing.T) {
	const dim, n = 16, 20_000
	for _, c := range inits() {
		tab := open(t, table.Spec{Dim: dim, Init: c.init, Seed: 12})
		keys, out := make([]uint64, n), make([]float32, n*dim)
		for i := range keys {
			keys[i] = uint64(i)
		}
		tab.Gather(keys, out)
		sum, squares, lowest, highest := 0.0, 0.0, math.Inf(1), math.Inf(-1)
		for _, v := range out {
			x := float64(v)
			sum += x
			squares += (x - c.mean) * (x - c.mean)
			lowest, highest = min(lowest, x), max(highest, x)
		}
		mean, dev := sum/(n*dim), math.Sqrt(squares/(n*dim))
		if math.Abs(mean-c.mean) > 0.006*c.dev || math.Abs(dev-c.dev) > 0.005*c.dev {
			t.Errorf("%+v: mean %.4f and deviation %.4f, want %.4f and %.4f", c.init, mean, dev, c.mean, c.dev)
		}
		if lowest < c.min || highest > c.max || highest-lowest < 0.85*(c.max-c.min) {
			t.Errorf("%+v: from %v to %v, want about %v to %v", c.init, lowest, highest, c.min, c.max)
		}
	}
}

// TestNormalShape compares the distribution of normal draws with the error function, at points up to three deviations out.
func TestNormalShape(t *testing.T) {
	const dim, n = 64, 10_000
	tab := open(t, table.Spec{Dim: dim, Init: table.Init{Kind: "normal", B: 1}, Seed: 3})
	keys, out := make([]uint64, n), make([]float32, n*dim)
	for i := range keys {
		keys[i] = uint64(i) << 20
	}
	tab.Gather(keys, out)
	slices.Sort(out)
	for _, z := range []float64{-3, -2, -1, -0.5, 0, 0.1, 1, 2.5, 3.2} {
		at, _ := slices.BinarySearch(out, float32(z))
		got, want := float64(at)/float64(len(out)), math.Erfc(-z/math.Sqrt2)/2
		if math.Abs(got-want) > 4*math.Sqrt(want*(1-want)/float64(len(out))) {
			t.Errorf("share below %v is %.5f, want %.5f", z, got, want)
		}
	}
}

// TestInitIsAFunction of (seed, key) alone: not of order, company or other rows; and neither seed, key nor element repeat one another.
func TestInitIsAFunction(t *testing.T) {
	spec := table.Spec{Dim: 4, Init: table.Init{Kind: "uniform", B: 1}, Seed: 8}
	a, b := open(t, spec), open(t, spec)
	if err := b.Apply([]uint64{1, 2, 3}, make([]float32, 12), table.Stamp{}, idle{}); err != nil {
		t.Fatal(err)
	}
	one, two := make([]float32, 12), make([]float32, 12)
	a.Gather([]uint64{1, 2, 9}, one)
	b.Gather([]uint64{9, 2, 1}, two)
	for i := range 3 {
		if !slices.Equal(one[4*i:][:4], two[4*(2-i):][:4]) {
			t.Errorf("key %d: %v and %v", i, one[4*i:][:4], two[4*(2-i):][:4])
		}
	}
	spec.Seed++
	open(t, spec).Gather([]uint64{1, 2, 9}, two)
	seen := map[float32]bool{}
	for _, v := range slices.Concat(one, two) {
		if seen[v] {
			t.Errorf("%v was drawn twice", v)
		}
		seen[v] = true
	}
}

// TestGolden pins the bits of every initializer, and of tables trained by every rule for 1,000 steps, whatever the CPU.
func TestGolden(t *testing.T) {
	var b strings.Builder
	for _, c := range inits() {
		fmt.Fprintf(&b, "%x  init %s %v %v %d %d\n", trained(t, c.init, optim.Config{Name: "sgd"}, 0), c.init.Kind, c.init.A, c.init.B, c.init.FanIn, c.init.FanOut)
	}
	for _, name := range optim.Names() {
		fmt.Fprintf(&b, "%x  rule %s\n", trained(t, table.Init{Kind: "normal", B: 0.05}, optim.Config{Name: name}, 1000), name)
	}
	path := filepath.Join("testdata", "golden.txt")
	if *rewrite {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("the bits have changed (-rewrite accepts them, and no stored table continues as it was):\n%swant\n%s", b.String(), want)
	}
}

// trained is the digest of 100 rows after some steps on gradients made from their own weights.
func trained(t *testing.T, init table.Init, c optim.Config, steps int) []byte {
	t.Helper()
	rule, err := optim.New(c)
	if err != nil {
		t.Fatal(err)
	}
	const dim, n = 16, 100
	tab := open(t, table.Spec{Dim: dim, Slots: rule.Slots(dim), SlotInit: rule.SlotInit(dim), Init: init, Seed: 21, HashSeed: 4})
	keys, grads := make([]uint64, n), make([]float32, n*dim)
	for i := range keys {
		keys[i] = uint64(i * i)
	}
	var state optim.State
	for step := range steps {
		tab.Gather(keys, grads)
		for i := range grads {
			grads[i] = float32(grads[i]*0.5) + float32(float32((i*7+step)%11-5)*0.01)
		}
		rule.Advance(&state)
		if err := tab.Apply(keys, grads, table.Stamp{Step: uint32(step)}, rule.Step(&state, 1)); err != nil {
			t.Fatal(err)
		}
	}
	h := sha256.New()
	weights := make([]float32, n*dim)
	tab.Gather(keys, weights)
	for _, v := range weights {
		_ = binary.Write(h, binary.LittleEndian, math.Float32bits(v))
	}
	tab.Scan(0, true, 0, func(r table.Row) bool {
		_ = binary.Write(h, binary.LittleEndian, []uint64{r.Key, uint64(r.Step), uint64(r.Sightings), uint64(r.Writer)})
		for _, v := range r.Values {
			_ = binary.Write(h, binary.LittleEndian, math.Float32bits(v))
		}
		return true
	})
	return h.Sum(nil)
}

func TestSpecValidate(t *testing.T) {
	nan := float32(math.NaN())
	for want, spec := range map[string]table.Spec{
		"dim 0":                 {},
		"dim 300000":            {Dim: 300_000},
		"slots -1":              {Dim: 1, Slots: -1},
		"slots 5":               {Dim: 1, Slots: 5},
		"initial values for":    {Dim: 1, Slots: 2, SlotInit: []float32{1}},
		"slot 0 is not finite":  {Dim: 1, Slots: 1, SlotInit: []float32{nan}},
		`"gauss"`:               {Dim: 1, Init: table.Init{Kind: "gauss"}},
		"lower first":           {Dim: 1, Init: table.Init{Kind: "uniform", A: 1}},
		"give finite values":    {Dim: 1, Init: table.Init{Kind: "uniform", A: -math.MaxFloat32, B: math.MaxFloat32}},
		"deviation -1":          {Dim: 1, Init: table.Init{Kind: "normal", B: -1}},
		"give both":             {Dim: 1, Init: table.Init{Kind: "xavier_normal", FanIn: 1}},
		"he_uniform with fan":   {Dim: 1, Init: table.Init{Kind: "he_uniform"}},
		"give at most 262140":   {Dim: 60_000, Slots: 210_000},
		"unknown initializer":   {Dim: 1, Slots: 9, Init: table.Init{Kind: "x"}},
		"slots 9: give 0 to 4":  {Dim: 1, Slots: 9, Init: table.Init{Kind: "x"}},
		"constant with NaN and": {Dim: 1, Init: table.Init{Kind: "constant", A: nan}},
	} {
		_, err := table.New(spec)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want one with %q", spec, err, want)
		}
	}
}

func TestPartition(t *testing.T) {
	var count [table.Partitions]int
	for i := range uint64(1024 * 100) {
		count[table.Partition(i*1024, 6)]++
	}
	for p, n := range count {
		if n < 50 || n > 160 {
			t.Errorf("partition %d has %d of a mean of 100 keys", p, n)
		}
	}
}
