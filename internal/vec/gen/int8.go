package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// blocks runs body for every block: dst and src have moved to it, n is its length and free to be used up.
func (s isa) blocks(body func(n reg.GPVirtual)) {
	left, n := Load(Param("blocks"), GP64()), GP64()
	Label("block")
	Load(Param("block"), n)
	body(n)
	DECQ(left)
	JNZ(LabelRef("block"))
}

// encodeInt8 also leaves the rest in x, if it is told to.
func encodeInt8(s isa, rest bool) {
	name := "encodeInt8"
	if rest {
		name = "encodeInt8Rest"
	}
	s.text(name, "func(dst *byte, x *float32, blocks, block int)", "takes at least one block, of "+s.blockLen())
	dst, x := Load(Param("dst"), GP64()), Load(Param("x"), GP64())
	abs := s.word(absBits)
	s.blocks(func(n reg.GPVirtual) {
		scale, inv := s.int8Scale(x, n, abs)
		VMOVSS(scale.AsX(), Mem{Base: dst})
		VBROADCASTSS(scale.AsX(), scale)
		VBROADCASTSS(inv.AsX(), inv)
		ADDQ(Imm(4), dst)
		Load(Param("block"), n)
		s.each("quantise", n, true, func(at spot) {
			v, q := at.load(x), s.vector()
			VMULPS(inv, v, q)
			VCVTPS2DQ(q, q)
			at.storeBytes(q, dst)
			if rest {
				VCVTDQ2PS(q, q)
				VMULPS(scale, q, q)
				VSUBPS(q, v, v)
				at.store(v, x)
			}
		})
		s.advance(dst, x)
	})
	end()
}

// advance moves the pointers to bytes and floats to the next block.
func (s isa) advance(bytes, floats reg.Register) {
	n := Load(Param("block"), GP64())
	ADDQ(n, bytes)
	LEAQ(Mem{Base: floats, Index: n, Scale: 4}, floats)
}

func (s isa) blockLen() string {
	if s.wide {
		return "any length."
	}
	return "a multiple of 8 elements."
}

// int8Scale is the scale of a block and what to multiply its elements by, both 0 where all are tiny. Both are in the first lane.
func (s isa) int8Scale(x reg.Register, n reg.GPVirtual, abs reg.VecVirtual) (scale, inv reg.VecVirtual) {
	tops := s.zeros(4)
	s.each("top", n, true, func(at spot) {
		v, top := s.vector(), tops[at.turnOf()]
		if at.mask != nil {
			v = at.load(x)
			s.and(abs, v, v)
		} else {
			s.and(at.at(x, 4), abs, v)
		}
		VPMAXUD(v, top, top)
	})
	VPMAXUD(tops[1], tops[0], tops[0])
	VPMAXUD(tops[3], tops[2], tops[2])
	VPMAXUD(tops[2], tops[0], tops[0])
	top := s.fold1(tops[0], VPMAXUD)
	scale, inv = s.vector(), s.vector()
	s.clear(scale)
	s.clear(inv)
	bits := GP32()
	VMOVD(top, bits)
	CMPL(bits, U32(0x0d800000)) // 2^-100
	JCS(LabelRef("tiny"))
	limit := XMM()
	MOVL(U32(0x42fe0000), bits) // 127
	VMOVD(bits, limit)
	VDIVSS(limit, top, scale.AsX())
	VDIVSS(top, limit, inv.AsX())
	Label("tiny")
	return scale, inv
}

// storeBytes writes 32-bit integers as signed bytes, saturated.
func (s spot) storeBytes(q reg.VecVirtual, p reg.Register) {
	switch {
	case s.mask != nil:
		VPMOVSDB(q, s.mask, s.at(p, 1))
	case s.wide:
		VPMOVSDB(q, s.at(p, 1))
	default:
		x := XMM()
		VEXTRACTI128(Imm(1), q, x)
		VPACKSSDW(x, q.AsX(), x)
		VPACKSSWB(x, x, x)
		VMOVQ(x, s.at(p, 1))
	}
}

// decodeInt8 also adds, if it is told to.
func decodeInt8(s isa, add bool) {
	name := "decodeInt8"
	if add {
		name = "addInt8"
	}
	s.text(name, "func(dst *float32, src *byte, blocks, block int)", "takes at least one block, of "+s.blockLen())
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	scale := s.vector()
	s.blocks(func(n reg.GPVirtual) {
		VBROADCASTSS(Mem{Base: src}, scale)
		ADDQ(Imm(4), src)
		s.each("", n, true, func(at spot) {
			v := s.vector()
			if at.mask != nil {
				VPMOVSXBD_Z(at.at(src, 1), at.mask, v)
			} else {
				VPMOVSXBD(at.at(src, 1), v)
			}
			VCVTDQ2PS(v, v)
			VMULPS(scale, v, v)
			if add {
				at.addTo(dst, v)
			} else {
				at.store(v, dst)
			}
		})
		s.advance(src, dst)
	})
	end()
}
