package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func add(s isa) {
	s.text("add", "func(dst, src *float32, n int)", "adds src to dst; "+s.reach())
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	s.stream(dst, src, func(x, y reg.VecVirtual) { VADDPS(y, x, x) })
}

func scale(s isa) {
	s.text("scale", "func(dst *float32, k float32, n int)", "multiplies dst by k; "+s.reach())
	dst := Load(Param("dst"), GP64())
	k := s.broadcast("k")
	s.stream(dst, nil, func(x, _ reg.VecVirtual) { VMULPS(k, x, x) })
}

func axpy(s isa) {
	s.text("axpy", "func(dst *float32, k float32, src *float32, n int)", "adds k x src to dst; "+s.reach())
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	k := s.broadcast("k")
	s.stream(dst, src, func(x, y reg.VecVirtual) {
		VMULPS(k, y, y)
		VADDPS(y, x, x)
	})
}

// axpby goes one vector at a time: it is called for rows of a table, which are short.
func axpby(s isa) {
	s.text("axpby", "func(dst *float32, a float32, x *float32, b float32, y *float32, n int)", "adds a x x + b x y to dst; "+s.reach())
	dst, x, y := Load(Param("dst"), GP64()), Load(Param("x"), GP64()), Load(Param("y"), GP64())
	a, b := s.broadcast("a"), s.broadcast("b")
	n := Load(Param("n"), GP64()).(reg.GPVirtual)
	lanes := s.bytes() / 4
	left, right, sum := s.vector(), s.vector(), s.vector()
	SUBQ(U32(uint32(lanes)), n)
	JL(LabelRef("tail"))
	Label("loop")
	VMULPS(Mem{Base: x}, a, left)
	VMULPS(Mem{Base: y}, b, right)
	VADDPS(right, left, left)
	VADDPS(Mem{Base: dst}, left, sum)
	VMOVUPS(sum, Mem{Base: dst})
	for _, p := range []reg.Register{dst, x, y} {
		ADDQ(U32(uint32(s.bytes())), p)
	}
	SUBQ(U32(uint32(lanes)), n)
	JGE(LabelRef("loop"))
	Label("tail")
	if s.wide {
		ADDQ(U32(uint32(lanes)), n)
		JZ(LabelRef("done"))
		mask := maskOf(n)
		VMOVUPS_Z(Mem{Base: x}, mask, left)
		VMOVUPS_Z(Mem{Base: y}, mask, right)
		VMOVUPS_Z(Mem{Base: dst}, mask, sum)
		VMULPS(left, a, left)
		VMULPS(right, b, right)
		VADDPS(right, left, left)
		VADDPS(sum, left, sum) // of two NaNs the first, as in the loop
		VMOVUPS(sum, mask, Mem{Base: dst})
		Label("done")
	}
	VZEROUPPER()
	RET()
}

func (s isa) reach() string {
	if s.wide {
		return "it takes any n."
	}
	return "it takes the first n &^ 7 elements."
}

func (s isa) broadcast(name string) reg.VecVirtual {
	v := s.vector()
	addr, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	VBROADCASTSS(addr.Addr, v)
	return v
}

// stream runs op over dst and, if given, src: four vectors a turn, then one, then what a mask covers.
func (s isa) stream(dst, src reg.Register, op func(x, y reg.VecVirtual)) {
	n := Load(Param("n"), GP64()).(reg.GPVirtual)
	lanes := s.bytes() / 4
	index := GP64()
	XORQ(index, index)
	at := func(p reg.Register, i int) Mem { return Mem{Base: p, Index: index, Scale: 4, Disp: i * s.bytes()} }
	turn := func(vectors int) {
		var xs, ys []reg.VecVirtual
		for i := range vectors {
			x, y := s.vector(), s.vector()
			VMOVUPS(at(dst, i), x)
			if src != nil {
				VMOVUPS(at(src, i), y)
			}
			xs, ys = append(xs, x), append(ys, y)
		}
		for i := range vectors {
			op(xs[i], ys[i])
			VMOVUPS(xs[i], at(dst, i))
		}
		ADDQ(U32(uint32(vectors*lanes)), index)
		SUBQ(U32(uint32(vectors*lanes)), n)
	}
	SUBQ(U32(uint32(4*lanes)), n)
	JL(LabelRef("few"))
	Label("loop")
	turn(4)
	JGE(LabelRef("loop"))
	Label("few")
	ADDQ(U32(uint32(3*lanes)), n)
	JL(LabelRef("tail"))
	Label("one")
	turn(1)
	JGE(LabelRef("one"))
	Label("tail")
	if s.wide {
		ADDQ(U32(uint32(lanes)), n)
		JZ(LabelRef("done"))
		mask := maskOf(n)
		x, y := s.vector(), s.vector()
		VMOVUPS_Z(at(dst, 0), mask, x)
		if src != nil {
			VMOVUPS_Z(at(src, 0), mask, y)
		}
		op(x, y)
		VMOVUPS(x, mask, at(dst, 0))
		Label("done")
	}
	VZEROUPPER()
	RET()
}

// maskOf has the lowest n bits, n up to 16.
func maskOf(n reg.GPVirtual) reg.OpmaskVirtual {
	bits, mask := GP32(), K()
	MOVL(I32(-1), bits)
	BZHIL(n.As32(), bits, bits)
	KMOVW(bits, mask)
	return mask
}

// tailMasks is eight words of ones before eight of zeros: read from word 8 - n, a mask of n lanes.
func tailMasks() {
	GLOBL("tailMasks", RODATA|NOPTR)
	for i := range 16 {
		v := uint32(0)
		if i < 8 {
			v = 0xffffffff
		}
		DATA(4*i, U32(v))
	}
}

// dot sums in 32 lanes; see vec.Dot.
func dot(s isa) {
	s.text("dot", "func(a, b *float32, n int) float32", "is the product of a and b in the order of Dot.")
	a, b := Load(Param("a"), GP64()), Load(Param("b"), GP64())
	n := Load(Param("n"), GP64()).(reg.GPVirtual)
	lanes := s.bytes() / 4
	accs := make([]reg.VecVirtual, 32/lanes)
	for i := range accs {
		accs[i] = s.vector()
		s.clear(accs[i])
	}
	SUBQ(U32(32), n)
	JL(LabelRef("tail"))
	Label("loop")
	for i, acc := range accs {
		x := s.vector()
		VMOVUPS(Mem{Base: a, Disp: i * s.bytes()}, x)
		VMULPS(Mem{Base: b, Disp: i * s.bytes()}, x, x)
		VADDPS(x, acc, acc)
	}
	ADDQ(U32(128), a)
	ADDQ(U32(128), b)
	SUBQ(U32(32), n)
	JGE(LabelRef("loop"))
	Label("tail")
	ADDQ(U32(32), n)
	JZ(LabelRef("fold"))
	if s.wide {
		s.dotTailMasked(a, b, n, accs)
	} else {
		s.dotTail(a, b, n, accs)
	}
	Label("fold")
	s.fold(accs)
}

func (s isa) clear(v reg.VecVirtual) {
	if s.wide {
		VPXORQ(v, v, v)
	} else {
		VPXOR(v, v, v)
	}
}

// dotTailMasked takes up to 31 elements: absent ones add +0, which changes no partial sum.
func (s isa) dotTailMasked(a, b reg.Register, n reg.GPVirtual, accs []reg.VecVirtual) {
	bits := GP32()
	MOVL(I32(-1), bits)
	BZHIL(n.As32(), bits, bits)
	for i, acc := range accs {
		mask, x, y := K(), s.vector(), s.vector()
		KMOVW(bits, mask)
		VMOVUPS_Z(Mem{Base: a, Disp: i * s.bytes()}, mask, x)
		VMOVUPS_Z(Mem{Base: b, Disp: i * s.bytes()}, mask, y)
		VMULPS(y, x, x)
		VADDPS(x, acc, acc)
		SHRL(Imm(16), bits)
	}
}

// dotTail takes whole vectors into the first partial sums, then a part of one.
func (s isa) dotTail(a, b reg.Register, n reg.GPVirtual, accs []reg.VecVirtual) {
	x, y, mask := s.vector(), s.vector(), s.vector()
	table := GP64()
	LEAQ(NewDataAddr(NewStaticSymbol("tailMasks"), 0), table)
	part := []string{"part0", "part1", "part2", "part3"}
	for i, acc := range accs {
		CMPQ(n, Imm(8))
		JL(LabelRef(part[i]))
		VMOVUPS(Mem{Base: a, Disp: i * 32}, x)
		VMULPS(Mem{Base: b, Disp: i * 32}, x, x)
		VADDPS(x, acc, acc)
		SUBQ(Imm(8), n)
	}
	JMP(LabelRef("fold"))
	for i, acc := range accs {
		Label(part[i])
		NEGQ(n)
		VMOVDQU(Mem{Base: table, Index: n, Scale: 4, Disp: 32}, mask)
		VMASKMOVPS(Mem{Base: a, Disp: i * 32}, mask, x)
		VMASKMOVPS(Mem{Base: b, Disp: i * 32}, mask, y)
		VMULPS(y, x, x)
		VADDPS(x, acc, acc)
		JMP(LabelRef("fold"))
	}
}

// fold adds upper halves to lower ones and returns the last sum.
func (s isa) fold(accs []reg.VecVirtual) {
	for half := len(accs) / 2; half > 0; half /= 2 {
		for i := range half {
			VADDPS(accs[i+half], accs[i], accs[i])
		}
	}
	y, x := accs[0].AsY(), XMM()
	if s.wide {
		high := YMM()
		VEXTRACTF64X4(Imm(1), accs[0], high)
		VADDPS(high, y, y)
	}
	VEXTRACTF128(Imm(1), y, x)
	VADDPS(x, accs[0].AsX(), x)
	t := XMM()
	VPERMILPS(Imm(0x0e), x, t)
	VADDPS(t, x, x)
	VMOVSHDUP(x, t)
	VADDSS(t, x, x)
	Store(x, ReturnIndex(0))
	VZEROUPPER()
	RET()
}
