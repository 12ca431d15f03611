package collective_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"hcclps/p2p"
	"hcclps/p2p/collective"
)

// tensor makes n elements of small whole numbers, whose sums and products are exact in every type.
func tensor(t p2p.DType, n int, seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, n*t.Size())
	for i := range n {
		x := 1
		if rng.IntN(8) == 0 {
			x = 2
		}
		put(t, b, i, float64(x))
	}
	return b
}

// put and get are the naive codec: small whole numbers and their fractions.
func put(t p2p.DType, b []byte, i int, x float64) {
	switch t {
	case p2p.Float32:
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(float32(x)))
	case p2p.Float64:
		binary.LittleEndian.PutUint64(b[8*i:], math.Float64bits(x))
	case p2p.Float16:
		binary.LittleEndian.PutUint16(b[2*i:], nearest(x, halfValue))
	case p2p.BFloat16:
		binary.LittleEndian.PutUint16(b[2*i:], nearest(x, brainValue))
	case p2p.Int32:
		binary.LittleEndian.PutUint32(b[4*i:], uint32(int32(x)))
	case p2p.Int64:
		binary.LittleEndian.PutUint64(b[8*i:], uint64(int64(x)))
	default:
		b[i] = byte(int(x))
	}
}

func get(t p2p.DType, b []byte, i int) float64 {
	switch t {
	case p2p.Float32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
	case p2p.Float64:
		return math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
	case p2p.Float16:
		return halfValue(binary.LittleEndian.Uint16(b[2*i:]))
	case p2p.BFloat16:
		return brainValue(binary.LittleEndian.Uint16(b[2*i:]))
	case p2p.Int32:
		return float64(int32(binary.LittleEndian.Uint32(b[4*i:])))
	case p2p.Int64:
		return float64(int64(binary.LittleEndian.Uint64(b[8*i:])))
	default:
		return float64(b[i])
	}
}

func halfValue(h uint16) float64 {
	x := float64(h&0x3ff)*0x1p-24 + 0
	if e := int(h >> 10 & 31); e > 0 {
		x = math.Ldexp(1024+float64(h&0x3ff), e-25)
	}
	if h>>15 == 1 {
		return -x
	}
	return x
}

func brainValue(h uint16) float64 { return float64(math.Float32frombits(uint32(h) << 16)) }

// nearest finds the positive 16-bit number nearest to x by bisection, ties to even.
func nearest(x float64, value func(uint16) float64) uint16 {
	lo, hi := uint16(0), uint16(0x7bff)
	for lo < hi {
		mid := lo + (hi-lo+1)/2
		if value(mid) <= x {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	down, up := x-value(lo), value(lo+1)-x
	if up < down || up == down && lo%2 == 1 {
		return lo + 1
	}
	return lo
}

// reduced is the naive twin: element by element, in the order of ranks.
func reduced(t p2p.DType, r collective.Reduction, ins [][]byte) []byte {
	out := make([]byte, len(ins[0]))
	for i := range len(out) / t.Size() {
		x := get(t, ins[0], i)
		for _, in := range ins[1:] {
			switch y := get(t, in, i); r {
			case collective.Prod:
				x *= y
			case collective.Max:
				x = max(x, y)
			case collective.Min:
				x = min(x, y)
			default:
				x += y
			}
		}
		if r == collective.Avg {
			if x /= float64(len(ins)); t == p2p.Int32 || t == p2p.Int64 || t == p2p.Uint8 {
				x = math.Trunc(x)
			}
		}
		put(t, out, i, x)
	}
	return out
}

var (
	allTypes      = []p2p.DType{p2p.Float32, p2p.Float16, p2p.BFloat16, p2p.Float64, p2p.Int32, p2p.Int64, p2p.Uint8}
	allReductions = []collective.Reduction{collective.Sum, collective.Prod, collective.Max, collective.Min, collective.Avg}
	allSizes      = []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 16}
)

// kind is one element type with one reduction.
type kind struct {
	t p2p.DType
	r collective.Reduction
}

// kinds is every pair, or for large worlds and short runs a few that have every type and every reduction.
func kinds(ranks int) []kind {
	var all []kind
	for i, t := range allTypes {
		for j, r := range allReductions {
			if (ranks == 2 || ranks == 3) && !testing.Short() || (i+2*j+ranks)%5 == 0 {
				all = append(all, kind{t, r})
			}
		}
	}
	return all
}

// hostsOf lays ranks on hosts: of two, of three with a rest, and interleaved.
func hostsOf(ranks int) [][]int {
	var all [][]int
	for _, host := range []func(r int) int{
		func(r int) int { return r / 2 },
		func(r int) int { return r / 3 },
		func(r int) int { return r % 2 },
	} {
		h := make([]int, ranks)
		for r := range h {
			h[r] = host(r)
		}
		all = append(all, h)
	}
	return all
}

// configs is every way to do an operation: pinned, one level or two, in any order or by rank.
func configs(op collective.Op, ranks int) map[string]func(int, *collective.Config) {
	all := make(map[string]func(int, *collective.Config))
	add := func(spec string, hosts []int, order bool) {
		name := fmt.Sprintf("%s/hosts=%v/order=%v", spec, hosts, order)
		all[name] = func(_ int, c *collective.Config) {
			algorithms, err := collective.ParseAlgorithms(spec)
			if err != nil {
				panic(err)
			}
			c.Algorithms, c.Hosts, c.RankOrder, c.Piece = algorithms, hosts, order, 256
		}
	}
	for _, order := range []bool{false, true} {
		for a := collective.Ring; a <= collective.NHR; a++ {
			if a == collective.SHM || a == collective.Natively { // they have tests of their own
				continue
			}
			spec := fmt.Sprintf("%v=%v", op, a)
			if _, err := collective.ParseAlgorithms(spec); err == nil {
				add(spec, nil, order)
			}
		}
		spec := fmt.Sprintf("%v=level0:mesh;level1:ring", op)
		if _, err := collective.ParseAlgorithms(spec); err != nil || ranks < 4 {
			continue
		}
		for i, hosts := range hostsOf(ranks) {
			add(fmt.Sprintf("%v=level0:%s;level1:%s", op, []string{"mesh", "tree", "ring"}[i], []string{"ring", "H-D_R", "tree"}[i]), hosts, order)
		}
	}
	return all
}

// lengths are of elements: none, one, odd ones, and one of many pieces.
func lengths(ranks int) []int {
	if ranks > 4 {
		return []int{0, 1, 701}
	}
	return []int{0, 1, 7, 64, 1501}
}

func TestReductions(t *testing.T) {
	for _, op := range []collective.Op{collective.AllReduce, collective.ReduceScatter, collective.Reduce} {
		for _, ranks := range allSizes {
			for name, set := range configs(op, ranks) {
				t.Run(fmt.Sprintf("%d/%s", ranks, name), func(t *testing.T) {
					w := newWorld(t, ranks, set)
					for _, k := range kinds(ranks) {
						for _, n := range lengths(ranks) {
							checkReduction(t, w, op, k, n)
						}
					}
				})
			}
		}
	}
}

// Every algorithm works within hosts beside every one between them.
func TestEveryPairOfLevels(t *testing.T) {
	const ranks = 7
	algorithms := []collective.Algorithm{collective.Ring, collective.HalvingDoubling, collective.Mesh, collective.Tree, collective.Bruck, collective.NHR}
	hosts := append(hostsOf(ranks), hostsOf(6)...) // uneven, then even
	for i, host := range hosts {
		for _, level0 := range algorithms {
			for _, level1 := range algorithms {
				for _, order := range []bool{false, true} {
					w := newWorld(t, len(host), func(_ int, c *collective.Config) {
						choice := collective.Choice{Level0: level0, Level1: level1}
						c.Algorithms = collective.Algorithms{collective.AllReduce: choice, collective.Reduce: choice, collective.Broadcast: choice}
						if max(level0, level1) >= collective.Bruck {
							delete(c.Algorithms, collective.Broadcast) // they have no such
						}
						c.Hosts, c.RankOrder, c.Piece = host, order, 64
					})
					checkReduction(t, w, collective.AllReduce, kind{p2p.Int32, collective.Sum}, 100+i)
					checkReduction(t, w, collective.AllReduce, kind{p2p.BFloat16, collective.Avg}, 1)
					checkReduction(t, w, collective.Reduce, kind{p2p.Float64, collective.Prod}, 100+i)
					checkMove(t, w, collective.Broadcast, 100+i)
				}
			}
		}
	}
}

// checkReduction does one reduction and compares every rank with the twin; odd lengths are done in place.
func checkReduction(t *testing.T, w *world, op collective.Op, k kind, n int) {
	t.Helper()
	ranks, root := len(w.groups), n%len(w.groups)
	total := n
	if op == collective.ReduceScatter {
		total = n * ranks
	}
	ins := make([][]byte, ranks)
	for r := range ins {
		ins[r] = tensor(k.t, total, uint64(r*1000+n))
	}
	want := reduced(k.t, k.r, ins)
	err := w.each(func(r int, g *collective.Group) error {
		send, part := bytes.Clone(ins[r]), want
		recv := make([]byte, n*k.t.Size())
		if op == collective.ReduceScatter {
			part = want[r*len(recv) : (r+1)*len(recv)]
		}
		if n%2 == 1 {
			recv = send
			if op == collective.ReduceScatter {
				recv = send[r*len(part) : (r+1)*len(part)]
			}
		}
		var work *collective.Work
		switch op {
		case collective.AllReduce:
			work = g.AllReduce(p2p.Bytes(send), p2p.Bytes(recv), k.t, k.r)
		case collective.ReduceScatter:
			work = g.ReduceScatter(p2p.Bytes(send), p2p.Bytes(recv), k.t, k.r)
		default:
			work = g.Reduce(p2p.Bytes(send), p2p.Bytes(recv), k.t, k.r, root)
		}
		if err := work.Wait(t.Context()); err != nil {
			return err
		}
		if n%2 == 0 && !bytes.Equal(send, ins[r]) {
			return fmt.Errorf("%v changed what was sent", work.Call())
		}
		if (op != collective.Reduce || r == root) && !bytes.Equal(recv, part) {
			return fmt.Errorf("%v: wrong result", work.Call())
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestMoves(t *testing.T) {
	ops := []collective.Op{
		collective.AllGather, collective.Broadcast, collective.Scatter, collective.Gather,
		collective.AlltoAll, collective.AlltoAllV, collective.Barrier,
	}
	for _, op := range ops {
		for _, ranks := range allSizes {
			for name, set := range configs(op, ranks) {
				t.Run(fmt.Sprintf("%d/%s", ranks, name), func(t *testing.T) {
					w := newWorld(t, ranks, set)
					for _, n := range lengths(ranks) {
						checkMove(t, w, op, n)
					}
				})
			}
		}
	}
}

// checkMove does one operation that only moves elements. The whole is what all ranks have together.
func checkMove(t *testing.T, w *world, op collective.Op, n int) {
	t.Helper()
	const width = 4
	ranks, root := len(w.groups), n%len(w.groups)
	whole := make([][]byte, ranks) // by sender: a part for every rank
	for r := range whole {
		whole[r] = make([]byte, n*width*ranks)
		for i := range whole[r] {
			whole[r][i] = byte(i*7 + r*31)
		}
	}
	part := func(b []byte, i int) []byte { return b[i*n*width : (i+1)*n*width] }
	err := w.each(func(r int, g *collective.Group) error {
		var work *collective.Work
		var got, want []byte
		switch op {
		case collective.AllGather, collective.Gather:
			got = make([]byte, n*width*ranks)
			for i := range ranks {
				want = append(want, part(whole[i], 0)...)
			}
			if op == collective.AllGather {
				work = g.AllGather(p2p.Bytes(part(whole[r], 0)), p2p.Bytes(got), p2p.Int32)
			} else if work = g.Gather(p2p.Bytes(part(whole[r], 0)), p2p.Bytes(got), p2p.Int32, root); r != root {
				got = want
			}
		case collective.Broadcast:
			got, want = make([]byte, n*width), part(whole[root], 0)
			if r == root {
				copy(got, want)
			}
			work = g.Broadcast(p2p.Bytes(got), p2p.Int32, root)
		case collective.Scatter:
			got, want = make([]byte, n*width), part(whole[root], r)
			work = g.Scatter(p2p.Bytes(whole[r]), p2p.Bytes(got), p2p.Int32, root)
		case collective.AlltoAll:
			got = make([]byte, n*width*ranks)
			for i := range ranks {
				want = append(want, part(whole[i], r)...)
			}
			work = g.AlltoAll(p2p.Bytes(whole[r]), p2p.Bytes(got), p2p.Int32)
		case collective.AlltoAllV:
			// Rank i sends min(n, i+j) elements to rank j.
			var send []byte
			var out, in []int
			for j := range ranks {
				count := min(n, r+j)
				out, in = append(out, count), append(in, count)
				send = append(send, part(whole[r], j)[:count*width]...)
				want = append(want, part(whole[j], r)[:count*width]...)
			}
			got = make([]byte, len(want))
			work = g.AlltoAllV(p2p.Bytes(send), out, p2p.Bytes(got), in, p2p.Int32)
		default:
			work = g.Barrier()
		}
		if err := work.Wait(t.Context()); err != nil {
			return err
		}
		if !bytes.Equal(got, want) {
			return fmt.Errorf("%v: wrong bytes", work.Call())
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
