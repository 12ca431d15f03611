package worker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"hcclps/p2p/inproc"
)

// together connects the workers of an AllReduce job, each with a dense tensor that learns by sgd at rate 1, and ends them with the test.
func together(t *testing.T, world int, codec string, n int) ([]*Client, []Dense) {
	t.Helper()
	network := inproc.NewNetwork()
	clients, tensors := make([]*Client, world), make([]Dense, world)
	everyRank(t, world, func(rank int) error {
		cfg := Config{Mode: AllReduce, Job: "squeeze", World: world, Rank: rank, Network: network, Sum: true, Compress: Compression{All: codec}}
		cfg.Meet.Master = "rank0:1"
		if rank > 0 {
			cfg.Meet.Listen = fmt.Sprintf("rank%d:0", rank)
		}
		var err error
		if clients[rank], err = Connect(context.Background(), cfg); err != nil {
			return err
		}
		opt := Optimizer{Name: "sgd", Params: map[string]float64{"lr": 1}}
		tensors[rank], err = clients[rank].Dense(t.Context(), "w", []int{n}, DenseSpec{Optimizer: opt})
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

func everyRank(t *testing.T, world int, f func(rank int) error) {
	t.Helper()
	errs := make([]error, world)
	var wg sync.WaitGroup
	for rank := range world {
		wg.Go(func() { errs[rank] = f(rank) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// pushAll takes one step, in which the ranks that give nothing are left out, and adds up what was given.
func pushAll(t *testing.T, clients []*Client, tensors []Dense, r *rand.Rand, given []float64, gives func(rank int) bool) {
	t.Helper()
	grads := make([][]Gradient, len(clients))
	for rank := range clients {
		if !gives(rank) {
			continue
		}
		g := Gradient{Table: tensors[rank], Values: make([]float32, len(given))}
		for i := range g.Values {
			g.Values[i] = float32(r.NormFloat64())
			given[i] += float64(g.Values[i])
		}
		grads[rank] = []Gradient{g}
	}
	everyRank(t, len(clients), func(rank int) error { return clients[rank].Push(t.Context(), 1, nil, grads[rank]...) })
}

func weights(t *testing.T, c *Client, d Dense, n int) []float32 {
	t.Helper()
	out := make([]float32, n)
	if err := c.Pull(t.Context(), Read{Table: d, Out: out}); err != nil {
		t.Fatal(err)
	}
	return out
}

// What the weights have moved, and what is left on both sides of the codes, is what all workers have given; all have the same bits.
func TestSqueezeLosesNothing(t *testing.T) {
	t.Parallel()
	const n, world = 5000, 3
	for _, codec := range []string{"onebit", "int8", "topk:0.05"} {
		clients, tensors := together(t, world, codec, n)
		r, given := rand.New(rand.NewPCG(1, 2)), make([]float64, n)
		for step := range 10 {
			pushAll(t, clients, tensors, r, given, func(rank int) bool { return step%3 != rank || step == 0 })
		}
		pushAll(t, clients, tensors, r, given, func(int) bool { return false })
		var first []float32
		left := slices.Clone(given)
		for rank, c := range clients {
			w := weights(t, c, tensors[rank], n)
			if rank == 0 {
				first = w
			}
			if !slices.Equal(w, first) {
				t.Errorf("%s: rank %d has other weights than rank 0", codec, rank)
			}
			k := c.coders.tables[tensors[rank].ID]
			for i := range left {
				left[i] -= float64(k.dense.Residual()[i]) + float64(k.back.Residual()[i])
			}
		}
		for i := range left {
			if math.Abs(left[i]+float64(first[i])) > 1e-3 {
				t.Fatalf("%s: element %d: %v was given, %v is neither in the weight nor in a residual", codec, i, given[i], left[i]+float64(first[i]))
			}
		}
	}
}

// Workers with the residuals of others go on as they would have.
func TestSqueezeIsRestored(t *testing.T) {
	t.Parallel()
	const n, world = 3000, 2
	one, a := together(t, world, "onebit", n)
	two, b := together(t, world, "onebit", n)
	given := make([]float64, n)
	r := rand.New(rand.NewPCG(3, 4))
	all := func(int) bool { return true }
	for range 5 {
		pushAll(t, one, a, r, given, all)
	}
	pushAll(t, two, b, r, given, all) // so that there are residuals of others
	for rank := range world {
		saved, err := one[rank].residuals()
		if err != nil {
			t.Fatal(err)
		}
		two[rank].coders.tables = map[uint32]*coder{} // as a worker that has just begun
		two[rank].local.squeeze = nil
		if err := two[rank].restoreResiduals(saved); err != nil {
			t.Fatal(err)
		}
	}
	seed := rand.NewPCG(5, 6)
	pushAll(t, one, a, rand.New(seed), given, all)
	pushAll(t, two, b, rand.New(rand.NewPCG(5, 6)), given, all)
	for rank := range world {
		x, errX := one[rank].residuals()
		y, errY := two[rank].residuals()
		if err := errors.Join(errX, errY); err != nil || !slices.Equal(x, y) {
			t.Errorf("rank %d: other residuals, %v", rank, err)
		}
	}
}

// A worker that gets the part of another, or less than it had, loses nothing that was left of sums: it is of its own next gradient then.
func TestSumsOfOthersAreKept(t *testing.T) {
	t.Parallel()
	const n = 3000
	clients, tensors := together(t, 2, "onebit", n)
	given := make([]float64, n)
	pushAll(t, clients, tensors, rand.New(rand.NewPCG(7, 8)), given, func(int) bool { return true })
	k := clients[0].coders.tables[tensors[0].ID]
	want := slices.Clone(k.dense.Residual())
	for i, v := range k.back.Residual() {
		want[i] += v
	}
	clients[0].local.squeeze = nil
	q, err := clients[0].local.squeezeOf()
	if err != nil {
		t.Fatal(err)
	}
	q.tensors[0].keepOwned(1) // what rank 1 owns
	got := slices.Clone(k.dense.Residual())
	for i, v := range k.back.Residual() {
		if got[i] += v; v != 0 && i < 1024 {
			t.Fatalf("element %d is still that of a sum", i)
		}
	}
	if !slices.Equal(got, want) {
		t.Error("something is lost")
	}
}

// A parcel that cannot be is an error that names the rank.
func TestParcelsAreChecked(t *testing.T) {
	q := &squeeze{}
	b := make([]byte, 64)
	fillParcel(b, []byte("not a section"))
	if _, err := q.open(b); err == nil {
		t.Error("garbage was taken")
	}
	b[7] = 1
	if _, err := q.open(b); err == nil {
		t.Error("a parcel of 2^56 bytes was taken")
	}
}
