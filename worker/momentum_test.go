package worker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"hcclps/compress"
	"hcclps/p2p/inproc"
	"hcclps/ps/optim"
	"hcclps/ps/update"
	"hcclps/ps/wire"
)

// adams connects the workers of an AllReduce job, each with a dense tensor that learns by a rule of the Adam family.
func adams(t *testing.T, world int, opt Optimizer, codec string, n int) ([]*Client, []Dense) {
	t.Helper()
	network := inproc.NewNetwork()
	clients, tensors := make([]*Client, world), make([]Dense, world)
	everyRank(t, world, func(rank int) error {
		cfg := Config{Mode: AllReduce, Job: "momentum", World: world, Rank: rank, Network: network, Compress: Compression{All: codec}}
		cfg.Meet.Master = "rank0:1"
		if rank > 0 {
			cfg.Meet.Listen = fmt.Sprintf("rank%d:0", rank)
		}
		var err error
		if clients[rank], err = Connect(context.Background(), cfg); err != nil {
			return err
		}
		tensors[rank], err = clients[rank].Dense(t.Context(), "w", []int{n}, DenseSpec{Optimizer: opt, Init: Init{Name: "uniform", Params: map[string]float64{"low": -1, "high": 1}}})
		return err
	})
	t.Cleanup(func() {
		everyRank(t, world, func(rank int) error {
			clients[rank].Abandon()
			return nil
		})
	})
	return clients, tensors
}

// part is what a worker gives to a step: sums over some rows.
type part struct {
	rows     int
	gradient []float32 // nil: none
}

// partsOf draws what workers give: uneven rows, and now and then nothing, elements of all sizes.
func partsOf(r *rand.Rand, world, n, step int) []part {
	parts := make([]part, world)
	for rank := range parts {
		parts[rank].rows = 1 + (step+rank)%4
		if step%7 == 5 && rank == 1 || step%11 == 10 {
			continue
		}
		g := make([]float32, n)
		for i := range g {
			g[i] = float32(r.NormFloat64()) * float32(1+i%5) * float32(parts[rank].rows)
		}
		parts[rank].gradient = g
	}
	return parts
}

func pushParts(t *testing.T, clients []*Client, tensors []Dense, parts []part) {
	t.Helper()
	everyRank(t, len(clients), func(rank int) error {
		var grads []Gradient
		if g := parts[rank].gradient; g != nil {
			grads = append(grads, Gradient{Table: tensors[rank], Values: slices.Clone(g)})
		}
		return clients[rank].Push(t.Context(), parts[rank].rows, nil, grads...)
	})
}

// paper is 1-bit Adam of one tensor by the textbook, in float64, but for what codes decode to.
type paper struct {
	p        map[string]float64
	w, m, v  []float64
	t        int
	codec    compress.Codec // of the momentum; nil: it travels as it is
	own      [][]float32    // residuals of workers
	back     []float32      // of the sum
	lengthen float64        // longest residual, in momenta
}

// coded is what the code of x and a residual decodes to; the residual is then what is left of both. Blocks have scales of their own.
func (o *paper) coded(t *testing.T, x []float64, rest []float32) []float64 {
	t.Helper()
	if o.codec == nil {
		return x
	}
	out := make([]float64, len(x))
	for from := 0; from < len(x); from += wire.Block {
		n := min(wire.Block, len(x)-from)
		sum, decoded := make([]float32, n), make([]float32, n)
		for i := range sum {
			sum[i] = rest[from+i] + float32(x[from+i])
		}
		b, err := o.codec.Append(nil, sum, 0)
		if err = errors.Join(err, o.codec.Decode(decoded, b, compress.Set)); err != nil {
			t.Fatal(err)
		}
		for i, d := range decoded {
			rest[from+i] = sum[i] - d
			out[from+i] = float64(d)
		}
	}
	return out
}

func (o *paper) step(t *testing.T, parts []part) {
	t.Helper()
	o.t++
	rows, given := 0, false
	for _, p := range parts {
		rows += p.rows
		given = given || p.gradient != nil
	}
	if !given {
		return
	}
	warm := o.t <= int(o.p["freeze_step"])
	sum := make([]float64, len(o.w))
	for rank, p := range parts {
		u := make([]float64, len(o.w))
		for i := range u {
			if p.gradient != nil {
				u[i] = float64(p.gradient[i]) / float64(rows)
			}
			if !warm {
				u[i] = (1-o.p["beta1"])*u[i] + float64(p.rows)/float64(rows)*(o.p["beta1"]*o.m[i]+(1-o.p["beta1"])*o.p["weight_decay"]*o.w[i])
			}
		}
		if !warm && p.gradient != nil {
			u = o.coded(t, u, o.own[rank])
		}
		for i := range sum {
			sum[i] += u[i]
		}
	}
	if !warm {
		sum = o.coded(t, sum, o.back)
		o.lengthen = max(o.lengthen, compress.Norm(o.back)/norm64(sum), compress.Norm(o.own[0])/norm64(sum))
	}
	o.move(sum, warm)
}

// move is the update by a mean gradient, or by a momentum.
func (o *paper) move(sum []float64, warm bool) {
	if o.t == int(o.p["freeze_step"])+1 {
		o.lift()
	}
	seen := min(float64(o.t), o.p["freeze_step"])
	for i, g := range sum {
		if warm {
			g += o.p["weight_decay"] * o.w[i]
			o.m[i] = o.p["beta1"]*o.m[i] + (1-o.p["beta1"])*g
			o.v[i] = o.p["beta2"]*o.v[i] + (1-o.p["beta2"])*g*g
		} else {
			o.m[i] = g
		}
		second := o.v[i] / (1 - math.Pow(o.p["beta2"], seen))
		o.w[i] -= o.p["lr"] * o.m[i] / (1 - math.Pow(o.p["beta1"], float64(o.t))) / (math.Sqrt(second) + o.p["eps"])
	}
}

func (o *paper) lift() {
	for from := 0; from < len(o.v); from += wire.Block {
		block, mean := o.v[from:min(from+wire.Block, len(o.v))], 0.0
		for _, v := range block {
			mean += v / float64(len(block))
		}
		for i, v := range block {
			block[i] = max(v, o.p["floor"]*mean)
		}
	}
}

func norm64(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	return math.Sqrt(sum)
}

// Weights go as the paper says, with uneven rows, workers without a gradient and weight decay, alone and with others,
// who all have the same bits; residuals stay short.
func TestOneBitAdamIsThePapers(t *testing.T) {
	t.Parallel()
	const n, steps = 2048, 40 // whole blocks: with weight decay the rest of a block counts in the floor
	for _, c := range []struct {
		world        int
		codec, lossy string
	}{{1, "", ""}, {3, "", "onebit"}, {2, "int8", "int8"}} {
		opt := Optimizer{Name: optim.OneBitAdam, Params: map[string]float64{"lr": 0.01, "beta2": 0.9, "weight_decay": 0.05, "freeze_step": 12}}
		clients, tensors := adams(t, c.world, opt, c.codec, n)
		rule, err := optim.New(optim.Config{Name: opt.Name, Params: opt.Params})
		if err != nil {
			t.Fatal(err)
		}
		o := &paper{p: rule.Config().Params, w: make([]float64, n), m: make([]float64, n), v: make([]float64, n), back: make([]float32, n)}
		if c.lossy != "" {
			if o.codec, err = compress.Parse(c.lossy); err != nil {
				t.Fatal(err)
			}
		}
		for range c.world {
			o.own = append(o.own, make([]float32, n))
		}
		everyRank(t, c.world, func(rank int) error { // which meet
			w := make([]float32, n)
			err := clients[rank].Pull(t.Context(), Read{Table: tensors[rank], Out: w})
			for i := range w {
				if rank == 0 {
					o.w[i] = float64(w[i])
				}
			}
			return err
		})
		r := rand.New(rand.NewPCG(1, 2))
		for step := range steps {
			parts := partsOf(r, c.world, n, step)
			pushParts(t, clients, tensors, parts)
			o.step(t, parts)
		}
		off := 0.0
		for rank, client := range clients {
			w := weights(t, client, tensors[rank], n)
			if rank > 0 && !slices.Equal(w, weights(t, clients[0], tensors[0], n)) {
				t.Errorf("%+v: rank %d has other weights than rank 0", c, rank)
			}
			far := 0
			for i := range w {
				if d := math.Abs(float64(w[i]) - o.w[i]); d > 1e-3 {
					far++
				}
				off = max(off, math.Abs(float64(w[i])-o.w[i]))
			}
			if far > n/1000 { // a sum that is about zero may have either sign, and is mended in the next steps
				t.Errorf("%+v: %d weights of %d are over 1e-3 from the paper's, one %v", c, far, n, off)
			}
		}
		t.Logf("%+v: off by %.2g at most, residuals up to %.2f momenta", c, off, o.lengthen)
		if o.lengthen > 20 {
			t.Errorf("%+v: residuals of up to %v momenta", c, o.lengthen)
		}
	}
}

// The steps of the warm-up are those of adam, to the bit, and the first after it is not.
func TestWarmUpIsAdams(t *testing.T) {
	t.Parallel()
	const n, freeze = 1500, 6
	for _, world := range []int{1, 3} {
		params := map[string]float64{"lr": 0.1, "weight_decay": 0.1}
		adam, a := adams(t, world, Optimizer{Name: "adam", Params: params}, "", n)
		own := map[string]float64{"lr": 0.1, "weight_decay": 0.1, "freeze_step": freeze}
		bits, b := adams(t, world, Optimizer{Name: optim.OneBitAdam, Params: own}, "onebit", n)
		r, again := rand.New(rand.NewPCG(3, 4)), rand.New(rand.NewPCG(3, 4))
		for step := range freeze + 1 {
			pushParts(t, adam, a, partsOf(r, world, n, step))
			pushParts(t, bits, b, partsOf(again, world, n, step))
			equal := slices.Equal(weights(t, adam[0], a[0], n), weights(t, bits[0], b[0], n))
			if equal != (step < freeze) {
				t.Errorf("%d workers, step %d of a warm-up of %d: the bits of adam: %t", world, step, freeze, equal)
			}
		}
	}
}

// Momenta take a 28th of the bytes of gradients, which those of the warm-up take.
func TestMomentaTakeOneBit(t *testing.T) {
	t.Parallel()
	const n, freeze = 1 << 16, 2
	clients, tensors := adams(t, 2, Optimizer{Name: optim.OneBitAdam, Params: map[string]float64{"freeze_step": freeze}}, "", n)
	r := rand.New(rand.NewPCG(5, 6))
	before := clients[1].Stats()
	for step := range 5 {
		pushParts(t, clients, tensors, partsOf(r, 2, n, step))
		now := clients[1].Stats()
		sent, raw := now.PushedBytes-before.PushedBytes, now.PushedBytesRaw-before.PushedBytesRaw
		if raw < 4*n || step < freeze && sent < 4*n || step >= freeze && 28*sent > raw {
			t.Errorf("step %d: %d bytes of %d", step, sent, raw)
		}
		before = now
	}
}

// What cannot be is refused, in words that say what to do.
func TestOneBitAdamRefuses(t *testing.T) {
	t.Parallel()
	clients, _ := adams(t, 1, Optimizer{Name: "sgd"}, "auto", 8)
	opt := Optimizer{Name: optim.OneBitAdam}
	if _, err := clients[0].Embedding(t.Context(), "rows", EmbeddingSpec{Dim: 4, Optimizer: opt}); err == nil || !strings.Contains(err.Error(), "dense tensors: give embeddings adam") {
		t.Errorf("an embedding: %v", err)
	}
	d, err := clients[0].Dense(t.Context(), "bits", []int{4}, DenseSpec{Optimizer: opt})
	if err != nil || d.spec().Compress != oneBitCodec {
		t.Errorf("under auto momenta travel as %q, %v", d.spec().Compress, err)
	}
	if _, err := clients[0].Dense(t.Context(), "whole", []int{4}, DenseSpec{Optimizer: opt, Compress: "off"}); err == nil || !strings.Contains(err.Error(), "compression off (--compress)") {
		t.Errorf("momenta without a codec: %v", err)
	}
	served, err := update.New(*d.spec(), update.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = served.Close() }()
	s := wire.Section{Table: d.ID, Dim: 4, Keys: []uint64{0}, Values: make([]float32, 4)}
	if err := served.Takes(s, -1); !errors.Is(err, update.ErrUnfit) || !strings.Contains(err.Error(), "allreduce or hybrid") {
		t.Errorf("a gradient at a server: %v", err)
	}
}
