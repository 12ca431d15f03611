package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// spot is where a loop of each stands: the elements of one vector, all of them or, at the end, those of a mask.
type spot struct {
	isa
	index reg.GPVirtual
	first int // element of this vector after index
	mask  reg.OpmaskVirtual
}

// at is the memory of the spot's elements, each of so many bytes, in a slice that begins at p.
func (s spot) at(p reg.Register, bytes int) Mem {
	return Mem{Base: p, Index: s.index, Scale: uint8(bytes), Disp: s.first * bytes}
}

// load reads float32 elements, zeros where the mask has none.
func (s spot) load(p reg.Register) reg.VecVirtual {
	v := s.vector()
	if s.mask != nil {
		VMOVUPS_Z(s.at(p, 4), s.mask, v)
	} else {
		VMOVUPS(s.at(p, 4), v)
	}
	return v
}

func (s spot) store(v reg.Register, p reg.Register) {
	if s.mask != nil {
		VMOVUPS(v, s.mask, s.at(p, 4))
	} else {
		VMOVUPS(v, s.at(p, 4))
	}
}

// each runs body over n elements, four vectors a turn, then one; what is left, fewer than a vector, with a mask if
// there are any and the rest is wanted. It uses n up. Labels begin with tag.
func (s isa) each(tag string, n reg.GPVirtual, rest bool, body func(spot)) {
	s.eachTurn(tag, n, rest, func(at []spot) {
		for _, one := range at {
			body(one)
		}
	})
}

// eachTurn is each, whose turn sees its vectors together: four or one.
func (s isa) eachTurn(tag string, n reg.GPVirtual, rest bool, turn func([]spot)) {
	lanes := s.bytes() / 4
	here := spot{isa: s, index: GP64()}
	XORQ(here.index, here.index)
	SUBQ(U32(uint32(4*lanes)), n)
	JL(LabelRef(tag + "few"))
	Label(tag + "loop")
	var four []spot
	for i := range 4 {
		four = append(four, spot{isa: s, index: here.index, first: i * lanes})
	}
	turn(four)
	ADDQ(U32(uint32(4*lanes)), here.index)
	SUBQ(U32(uint32(4*lanes)), n)
	JGE(LabelRef(tag + "loop"))
	Label(tag + "few")
	ADDQ(U32(uint32(3*lanes)), n)
	JL(LabelRef(tag + "tail"))
	Label(tag + "one")
	turn([]spot{here})
	ADDQ(U32(uint32(lanes)), here.index)
	SUBQ(U32(uint32(lanes)), n)
	JGE(LabelRef(tag + "one"))
	Label(tag + "tail")
	if s.wide && rest {
		ADDQ(U32(uint32(lanes)), n)
		JZ(LabelRef(tag + "done"))
		here.mask = maskOf(n)
		turn([]spot{here})
		Label(tag + "done")
	}
}

// each32 runs body over all elements; parts number the vectors of 32 elements. In the last ones x has zeros where mask,
// of ones or a predicate, has none; it is nil otherwise.
func (s isa) each32(p reg.Register, n reg.GPVirtual, body func(part int, x reg.VecVirtual, mask reg.Register)) {
	s.whole32(n, func(at spot, part int) { body(part, at.load(p), nil) }, func(index reg.GPVirtual) {
		if s.wide {
			s.rest32Masked(p, index, n, body)
		} else {
			s.rest32(p, index, n, body)
		}
	})
}

// whole32 runs body over the first n &^ 31 elements, 64 a turn, and rest with what is left in n, if there is some.
func (s isa) whole32(n reg.GPVirtual, body func(at spot, part int), rest func(index reg.GPVirtual)) {
	lanes := s.bytes() / 4
	index := GP64()
	XORQ(index, index)
	turn := func(turns int) {
		for i := range turns * 32 / lanes {
			body(spot{isa: s, index: index, first: i * lanes}, i%(32/lanes))
		}
		ADDQ(U32(uint32(32*turns)), index)
		SUBQ(U32(uint32(32*turns)), n)
	}
	SUBQ(U32(64), n)
	JL(LabelRef("few"))
	Label("loop")
	turn(2)
	JGE(LabelRef("loop"))
	Label("few")
	ADDQ(U32(32), n)
	JL(LabelRef("rest"))
	turn(1)
	Label("rest")
	if rest != nil {
		ADDQ(U32(32), n)
		JZ(LabelRef("over"))
		rest(index)
		Label("over")
	}
}

func (s isa) rest32Masked(p reg.Register, index, n reg.GPVirtual, body func(int, reg.VecVirtual, reg.Register)) {
	bits := GP32()
	MOVL(I32(-1), bits)
	BZHIL(n.As32(), bits, bits)
	for part := range 2 {
		mask, x := K(), s.vector()
		KMOVW(bits, mask)
		VMOVUPS_Z(Mem{Base: p, Index: index, Scale: 4, Disp: part * s.bytes()}, mask, x)
		body(part, x, mask)
		SHRL(Imm(16), bits)
	}
}

// rest32 takes whole vectors, then a part of one.
func (s isa) rest32(p reg.Register, index, n reg.GPVirtual, body func(int, reg.VecVirtual, reg.Register)) {
	table := GP64()
	LEAQ(NewDataAddr(NewStaticSymbol("tailMasks"), 0), table)
	part := []string{"part0", "part1", "part2", "part3"}
	at := func(i int) Mem { return Mem{Base: p, Index: index, Scale: 4, Disp: i * 32} }
	for i := range 4 {
		CMPQ(n, Imm(8))
		JL(LabelRef(part[i]))
		x := s.vector()
		VMOVUPS(at(i), x)
		body(i, x, nil)
		SUBQ(Imm(8), n)
	}
	JMP(LabelRef("over"))
	for i := range 4 {
		Label(part[i])
		NEGQ(n)
		x, mask := s.vector(), s.vector()
		VMOVDQU(Mem{Base: table, Index: n, Scale: 4, Disp: 32}, mask)
		VMASKMOVPS(at(i), mask, x)
		body(i, x, mask)
		JMP(LabelRef("over"))
	}
}

// loadSums reads 32 partial sums, which stay in registers until storeSums.
func (s isa) loadSums(p reg.Register) []reg.VecVirtual {
	accs := make([]reg.VecVirtual, 128/s.bytes())
	for i := range accs {
		accs[i] = s.vector()
		VMOVUPS(Mem{Base: p, Disp: i * s.bytes()}, accs[i])
	}
	return accs
}

func (s isa) storeSums(p reg.Register, accs []reg.VecVirtual) {
	for i, acc := range accs {
		VMOVUPS(acc, Mem{Base: p, Disp: i * s.bytes()})
	}
}

// and is a AND b.
func (s isa) and(a Op, b, dst reg.Register) {
	if s.wide {
		VPANDD(a, b, dst)
	} else {
		VPAND(a, b, dst)
	}
}

// atLeast marks the lanes of x whose bits, as numbers, are t or more; least is t, or t - 1 without masks.
func (s isa) atLeast(x, least reg.Register) (k reg.OpmaskVirtual, v reg.VecVirtual) {
	if s.wide {
		k = K()
		const notLess = 5
		VPCMPD(Imm(notLess), least, x, k)
		return k, nil
	}
	v = s.vector()
	VPCMPGTD(least, x, v)
	return nil, v
}

// least is what atLeast wants, of a parameter with the bits of t.
func (s isa) least(param string) reg.VecVirtual {
	t, v := GP32(), s.vector()
	Load(Param(param), t)
	if !s.wide {
		DECL(t)
		x := XMM()
		VMOVD(t, x)
		VPBROADCASTD(x, v)
		return v
	}
	VPBROADCASTD(t, v)
	return v
}

// fold1 brings 16 or 8 lanes down to the first by op, by halves.
func (s isa) fold1(v reg.VecVirtual, op func(...Op)) reg.VecVirtual {
	x := XMM()
	if s.wide {
		y := YMM()
		VEXTRACTI64X4(Imm(1), v, y)
		op(y, v.AsY(), y)
		VEXTRACTI128(Imm(1), y, x)
		op(x, y.AsX(), x)
	} else {
		VEXTRACTI128(Imm(1), v, x)
		op(x, v.AsX(), x)
	}
	t := XMM()
	VPSHUFD(Imm(0x0e), x, t)
	op(t, x, x)
	VPSHUFD(Imm(0x01), x, t)
	op(t, x, x)
	return x
}

// word is a 32-bit constant in every lane.
func (s isa) word(bits uint32) reg.VecVirtual {
	r, v := GP32(), s.vector()
	MOVL(U32(bits), r)
	if s.wide {
		VPBROADCASTD(r, v)
		return v
	}
	x := XMM()
	VMOVD(r, x)
	VPBROADCASTD(x, v)
	return v
}

// end leaves the function.
func end() {
	VZEROUPPER()
	RET()
}
