package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// finite looks at four vectors a turn, and goes no further when one of their elements has the largest exponent.
func finite(s isa) {
	s.text("finite", "func(x *float32, n int) int", "is how many elements, in whole turns, come before the first turn that has a NaN or an infinity.")
	x, n := Load(Param("x"), GP64()), Load(Param("n"), GP64())
	turn := s.bytes() // elements: four vectors of four-byte ones
	left, done := GP64(), GP64()
	MOVQ(n, left)
	XORQ(done, done)
	exponent := s.vector()
	if !s.wide {
		bits := GP32()
		MOVL(U32(0x7f800000), bits)
		word := XMM()
		VMOVD(bits, word)
		VPBROADCASTD(word, exponent)
	}
	SUBQ(U32(uint32(turn)), left)
	JL(LabelRef("over"))
	Label("turn")
	at := func(i int) Mem { return Mem{Base: x, Index: done, Scale: 4, Disp: i * s.bytes()} }
	if s.wide {
		found := K()
		for i := range 4 {
			k := K()
			VFPCLASSPSZ(U8(0x99), at(i), k) // of both NaNs and both infinities
			if i == 0 {
				found = k
				continue
			}
			KORW(k, found, found)
		}
		KORTESTW(found, found)
	} else {
		found := s.vector()
		for i := range 4 {
			v := found
			if i > 0 {
				v = s.vector()
			}
			VPAND(at(i), exponent, v)
			VPCMPEQD(exponent, v, v)
			if i > 0 {
				VPOR(v, found, found)
			}
		}
		VPTEST(found, found)
	}
	JNZ(LabelRef("over"))
	ADDQ(U32(uint32(turn)), done)
	SUBQ(U32(uint32(turn)), left)
	JGE(LabelRef("turn"))
	Label("over")
	Store(done, ReturnIndex(0))
	VZEROUPPER()
	RET()
}
