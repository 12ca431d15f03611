package collective

import (
	"math"
	"math/big"
	"testing"
	"time"
)

// unit is a link of which every term of a formula can be told apart: alpha 1e9 s, beta 1e3 s, gamma 1 s a byte.
var unit = Link{Alpha: 1e9 * time.Second, Bandwidth: 1e-3, Reduce: 1, Ports: math.MaxInt32}

// The formulas, as terms of alpha, n beta and n gamma; n is 1 byte for each rank so that shares are whole.
func TestCosts(t *testing.T) {
	frac := func(a, b int64) float64 { f, _ := big.NewRat(a, b).Float64(); return f }
	for _, c := range []struct {
		op                 Op
		a                  Algorithm
		p                  int
		ordered            bool
		alpha, beta, gamma float64 // of n = p bytes
	}{
		{AllReduce, Ring, 8, false, 14, 14, 7},
		{AllReduce, HalvingDoubling, 8, false, 6, 14, 7},
		{AllReduce, HalvingDoubling, 6, false, 6, 6 * (2*frac(3, 4) + 2), 6 * (frac(3, 4) + 1)},
		{AllReduce, Mesh, 8, false, 1, 8, 56}, // in one step
		{AllReduce, Tree, 8, false, 6, 48, 24},
		{AllReduce, Tree, 5, false, 6, 30, 15},
		{ReduceScatter, Ring, 8, false, 7, 7, 7},
		{ReduceScatter, HalvingDoubling, 8, false, 3, 7, 7},
		{ReduceScatter, HalvingDoubling, 6, false, 4, 6*frac(3, 4) + 6 + 1, 6*frac(3, 4) + 6},
		{ReduceScatter, Mesh, 8, false, 1, 1, 7},
		{ReduceScatter, Ring, 8, true, 1, 1, 7},
		{AllReduce, NHR, 6, false, 6, 10, 5},
		{ReduceScatter, NHR, 6, false, 3, 5, 5},
		{AllGather, NHR, 6, false, 3, 5, 0},
		{AllGather, Ring, 8, false, 7, 7, 0},
		{AllGather, HalvingDoubling, 8, false, 3, 7, 0},
		{AllGather, Mesh, 8, false, 1, 1, 0},
		{Broadcast, Tree, 8, false, 3, 24, 0},
		{Broadcast, Mesh, 8, false, 2, 2, 0},
		{Broadcast, Ring, 8, false, 7, 56, 0},
		{Reduce, Mesh, 8, false, 2, 2, 7},
		{Reduce, Tree, 8, false, 3, 24, 24},
		{Reduce, Tree, 8, true, 1, 56, 56},
		{Scatter, Mesh, 8, false, 1, 1, 0},
		{AlltoAll, Pairwise, 8, false, 7, 7, 0},
		{AlltoAll, Mesh, 8, false, 1, 1, 0},
		{Barrier, Tree, 9, false, 4, 0, 0},
	} {
		want := c.alpha*1e9 + c.beta*1e3 + c.gamma
		got := cost(unit, work{c.op, c.p, c.p, c.ordered}, c.a)
		if math.Abs(got-want) > 1e-9*want {
			t.Errorf("%v by %v of %d ranks (ordered %v): %v, want %v", c.op, c.a, c.p, c.ordered, got, want)
		}
	}
	if got := cost(unit, work{AllReduce, 8, 1, false}, Ring); got != 0 {
		t.Errorf("a rank alone takes %v", got)
	}
	if got, want := cost(unit, work{AllReduce, 8000, 8, false}, Mesh), 2e9+1e3*2e3+7e3; got != want {
		t.Errorf("a large mesh takes %v, want %v", got, want)
	}
	one := unit
	one.Ports = 1
	one.Post = time.Second
	if got, want := cost(one, work{AllGather, 8, 8, false}, Mesh), 1e9+6+7e3; got != want {
		t.Errorf("a mesh over one port takes %v, want %v", got, want)
	}
}

func TestChoices(t *testing.T) {
	slow := Link{Alpha: time.Millisecond, Post: 500 * time.Microsecond, Bandwidth: 1e8, Reduce: 1e10, Ports: 1}
	fast := Link{Alpha: time.Microsecond, Bandwidth: 1e10, Reduce: 1e10, Ports: 1}
	full := fast
	full.Ports = math.MaxInt32
	twoByFour := newLevels([]int{0, 0, 0, 0, 1, 1, 1, 1})
	for _, c := range []struct {
		what string
		c    chooser
		op   Op
		n    int
		want string
	}{
		{"small between many", chooser{inside: slow, ranks: 64}, AllReduce, 8, "H-D_R"},
		{"one link, power of two", chooser{inside: fast, ranks: 8}, AllGather, 64 << 20, "mesh"},
		{"full mesh, large", chooser{inside: full, ranks: 8}, AllReduce, 64 << 20, "mesh"},
		{"broadcast, large", chooser{inside: fast, ranks: 8}, Broadcast, 64 << 20, "ring"},
		{"broadcast, tiny", chooser{inside: slow, ranks: 8}, Broadcast, 8, "tree"},
		{"two levels, large", chooser{inside: fast, across: slow, levels: twoByFour, ranks: 8}, Broadcast, 64 << 20, "level0:ring;level1:tree"},
		{"pinned", chooser{inside: full, ranks: 8, pinned: Algorithms{AllReduce: {Level1: Ring}}}, AllReduce, 8, "ring"},
		{"pinned in two levels of one", chooser{inside: full, ranks: 8, pinned: Algorithms{AllReduce: {Mesh, Ring}}}, AllReduce, 8, "ring"},
		{"pinned in two levels", chooser{inside: full, across: slow, ranks: 8, levels: twoByFour, pinned: Algorithms{AllReduce: {Mesh, Ring}}}, AllReduce, 8, "level0:mesh;level1:ring"},
		{"others are not pinned", chooser{inside: fast, ranks: 8, pinned: Algorithms{AllReduce: {Level1: Mesh}}}, Broadcast, 64 << 20, "ring"},
		{"nobody knows the size", chooser{inside: fast, ranks: 8}, AlltoAllV, 0, "pairwise"},
		{"pinned without a size", chooser{inside: fast, ranks: 8, pinned: Algorithms{AlltoAllV: {Level1: Mesh}}}, AlltoAllV, 0, "mesh"},
		{"nothing else", chooser{inside: fast, ranks: 8}, Scatter, 100, "mesh"},
	} {
		if got := c.c.choose(c.op, c.n).String(); got != c.want {
			t.Errorf("%s: %v of %d bytes by %s, want %s", c.what, c.op, c.n, got, c.want)
		}
	}
}

// Whatever is chosen can be done, and nothing that can be done is predicted to be cheaper.
func TestTheChoiceIsTheCheapest(t *testing.T) {
	for _, hosts := range [][]int{nil, {0, 0, 1, 1}, {0, 0, 0, 1}} {
		for _, link := range []Link{defaultLink("shm"), defaultLink("tcp"), defaultLink("hccl")} {
			for op := AllReduce; op <= Barrier; op++ {
				for n := 0; n < 1<<30; n = 8*n + 8 {
					c := chooser{inside: link, across: defaultLink("tcp"), levels: newLevels(hosts), ranks: 4}
					got := c.choose(op, n)
					if err := checkChoice(op, got); err != nil || got.Level1 == Auto {
						t.Fatalf("%v of %d: %v: %v", op, n, got, err)
					}
					for _, a := range c.candidates(op, false) {
						if op == AlltoAllV {
							continue
						}
						if s := c.predict(op, n, Choice{Level1: a}); s < c.predict(op, n, got) {
							t.Errorf("%v of %d: %v is cheaper than %v", op, n, a, got)
						}
					}
				}
			}
		}
	}
}

func TestParseAlgorithms(t *testing.T) {
	for s, want := range map[string]map[Op]string{
		"":                                       {},
		"allreduce=ring":                         {AllReduce: "ring"},
		"allreduce=H-D_R/alltoall=pairwise":      {AllReduce: "H-D_R", AlltoAll: "pairwise"},
		"AllReduce = h-d_r / allgather=fullmesh": {AllReduce: "H-D_R", AllGather: "mesh"},
		"allreduce=level0:NA;level1:ring":        {AllReduce: "ring"},
		"allreduce=level0:mesh;level1:H-D_R":     {AllReduce: "level0:mesh;level1:H-D_R"},
		"level0:NA;level1:tree;level2:NA":        {AllReduce: "tree", Reduce: "tree", Broadcast: "tree", Barrier: "tree"},
		"broadcast=ring/tree":                    {AllReduce: "tree", Reduce: "tree", Broadcast: "ring", Barrier: "tree"},
		"pairwise":                               {AlltoAll: "pairwise", AlltoAllV: "pairwise", SparseReduce: "pairwise"},
	} {
		got, err := ParseAlgorithms(s)
		if err != nil {
			t.Errorf("%q: %v", s, err)
			continue
		}
		if len(got) != len(want) {
			t.Errorf("%q: %v, want %v", s, got, want)
		}
		for op, choice := range want {
			if got[op].String() != choice {
				t.Errorf("%q: %v by %v, want %v", s, op, got[op], choice)
			}
		}
	}
	for _, s := range []string{
		"allreduce", "allreduce=", "allreduce=rings", "sum=ring", "scatter=ring", "allreduce=pairwise", "allgather=level0:mesh;level1:ring",
		"allreduce=level0:mesh", "allreduce=level0:mesh;level1:NA", "allreduce=level2:ring", "allreduce=level3:ring", "allreduce=ring/allreduce=mesh",
		"allreduce=level1", "=ring", "NHR_V1",
	} {
		if got, err := ParseAlgorithms(s); err == nil {
			t.Errorf("%q parsed as %v", s, got)
		}
	}
}

func FuzzParseAlgorithms(f *testing.F) {
	f.Add("allreduce=level0:mesh;level1:H-D_R/alltoall=pairwise/tree")
	f.Add("level0:NA;level1:ring")
	f.Fuzz(func(t *testing.T, s string) {
		all, err := ParseAlgorithms(s)
		if err != nil {
			return
		}
		for op, c := range all {
			if c == (Choice{}) {
				continue
			}
			again, err := ParseAlgorithms(op.String() + "=" + c.String())
			if err != nil || again[op] != c {
				t.Errorf("%q: %v=%v comes back as %v (%v)", s, op, c, again[op], err)
			}
		}
	})
}

func TestCuts(t *testing.T) {
	for n := range 40 {
		for p := 1; p < 12; p++ {
			c := even(n, 4, p)
			if c[0] != 0 || c[p] != 4*n || c.largest() != (n+p-1)/p*4 {
				t.Fatalf("%d elements in %d parts: %v", n, p, c)
			}
			b, at := make([]byte, 4*n), 0
			for i := range p {
				part := c.part(b, i)
				for k := range 3 {
					q := piece(part, 4, k, 3)
					if len(q)%4 != 0 {
						t.Fatalf("a piece of %d bytes", len(q))
					}
					at += len(q)
				}
			}
			if at != 4*n {
				t.Fatalf("pieces of %d elements have %d bytes", n, at)
			}
		}
	}
}
