package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// gatherRows copies rows from where they lie; a nil one leaves its place as it is.
func gatherRows(s isa) {
	s.text("gatherRows", "func(dst *float32, rows **float32, n, dim int)", "takes any dim with AVX-512, else multiples of 4.")
	dst, rows := Load(Param("dst"), GP64()), Load(Param("rows"), GP64())
	n, dim := Load(Param("n"), GP64()), Load(Param("dim"), GP64()).(reg.GPVirtual)
	src, index := GP64(), GP64()
	lanes := s.bytes() / 4
	mask := K()
	if s.wide { // of the last vector of every row
		last, bits := GP32(), GP32()
		MOVL(dim.As32(), last)
		ANDL(U32(uint32(lanes-1)), last)
		MOVL(I32(-1), bits)
		BZHIL(last, bits, bits)
		KMOVW(bits, mask)
	}
	left := GP64()
	Label("row")
	MOVQ(Mem{Base: rows}, src)
	TESTQ(src, src)
	JZ(LabelRef("next"))
	XORQ(index, index)
	MOVQ(dim, left)
	SUBQ(U32(uint32(lanes)), left)
	JL(LabelRef("tail"))
	Label("vector")
	v := s.vector()
	from, to := Mem{Base: src, Index: index, Scale: 4}, Mem{Base: dst, Index: index, Scale: 4}
	VMOVUPS(from, v)
	VMOVUPS(v, to)
	ADDQ(U32(uint32(lanes)), index)
	SUBQ(U32(uint32(lanes)), left)
	JGE(LabelRef("vector"))
	Label("tail")
	ADDQ(U32(uint32(lanes)), left)
	JZ(LabelRef("next"))
	if s.wide {
		VMOVUPS_Z(from, mask, v)
		VMOVUPS(v, mask, to)
	} else {
		VMOVUPS(from, v.AsX())
		VMOVUPS(v.AsX(), to)
	}
	Label("next")
	LEAQ(Mem{Base: dst, Index: dim, Scale: 4}, dst)
	ADDQ(U32(8), rows)
	DECQ(n)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}
