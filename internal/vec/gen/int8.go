package main

import (
	"fmt"

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
	abs, order := s.word(absBits), s.vector()
	s.loadPackOrder(order)
	if s.wide {
		n := Load(Param("block"), GP64())
		CMPQ(n, U32(keptBlock))
		JNE(LabelRef("any"))
		s.encodeKept(dst, x, abs, order, rest)
		JMP(LabelRef("over"))
		Label("any")
	}
	s.blocks(func(n reg.GPVirtual) {
		scale, inv := s.int8Scale(x, n, abs)
		s.useScale(dst, scale, inv)
		Load(Param("block"), n)
		s.eachTurn("quantise", n, true, func(at []spot) {
			var q []reg.VecVirtual
			for _, one := range at {
				q = append(q, one.quantise(one.load(x), x, scale, inv, rest))
			}
			if len(q) == 1 {
				at[0].storeBytes(q[0], dst)
			} else {
				s.packBytes(q, order)
				VMOVUPS(q[0], at[0].at(dst, 1))
			}
		})
		s.advance(dst, x)
	})
	Label("over")
	end()
}

// keptBlock is the length of block that 16 registers hold.
const keptBlock = 256

// encodeKept encodes blocks that it reads once: while loads wait for memory, a second load of the same line would wait with them.
func (s isa) encodeKept(dst, x reg.Register, abs, order reg.VecVirtual, rest bool) {
	left, zero := Load(Param("blocks"), GP64()), GP64()
	XORQ(zero, zero)
	Label("kept")
	kept, tops := make([]reg.VecVirtual, keptBlock/16), make([]reg.VecVirtual, 4)
	spots := make([]spot, len(kept))
	for i := range kept {
		spots[i] = spot{isa: s, index: zero, first: 16 * i}
		kept[i] = spots[i].load(x)
		if i < len(tops) {
			tops[i] = s.vector()
			s.and(kept[i], abs, tops[i])
			continue
		}
		size := s.vector()
		s.and(kept[i], abs, size)
		VPMAXUD(size, tops[i%len(tops)], tops[i%len(tops)])
	}
	scale, inv := s.scaleOf(tops, "keptTiny")
	s.useScale(dst, scale, inv)
	for i := 0; i < len(kept); i += 4 {
		var q []reg.VecVirtual
		for j := i; j < i+4; j++ {
			q = append(q, spots[j].quantise(kept[j], x, scale, inv, rest))
		}
		s.packBytes(q, order)
		VMOVUPS(q[0], spots[i].at(dst, 1))
	}
	s.advance(dst, x)
	DECQ(left)
	JNZ(LabelRef("kept"))
}

// useScale writes the scale of a block and gives every lane what the first has.
func (s isa) useScale(dst reg.Register, scale, inv reg.VecVirtual) {
	VMOVSS(scale.AsX(), Mem{Base: dst})
	VBROADCASTSS(scale.AsX(), scale)
	VBROADCASTSS(inv.AsX(), inv)
	ADDQ(Imm(4), dst)
}

// quantise is v in integers, and leaves the rest of it in x, if it is told to.
func (s spot) quantise(v reg.VecVirtual, x reg.Register, scale, inv reg.VecVirtual, rest bool) reg.VecVirtual {
	q := s.vector()
	VMULPS(inv, v, q)
	VCVTPS2DQ(q, q)
	if rest {
		made := s.vector()
		VCVTDQ2PS(q, made)
		VMULPS(scale, made, made)
		VSUBPS(made, v, v)
		s.store(v, x)
	}
	return q
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
	return s.scaleOf(tops, "tiny")
}

// scaleOf is int8Scale of largest magnitudes.
func (s isa) scaleOf(tops []reg.VecVirtual, tiny string) (scale, inv reg.VecVirtual) {
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
	JCS(LabelRef(tiny))
	limit := XMM()
	MOVL(U32(0x42fe0000), bits) // 127
	VMOVD(bits, limit)
	VDIVSS(limit, top, scale.AsX())
	VDIVSS(top, limit, inv.AsX())
	Label(tiny)
	return scale, inv
}

// packBytes brings four vectors of 32-bit integers into the first, as signed bytes, saturated. One store of them takes
// the place of four in the queue of stores, which is what fills when memory is slow.
func (s isa) packBytes(q []reg.VecVirtual, order reg.VecVirtual) {
	VPACKSSDW(q[1], q[0], q[0])
	VPACKSSDW(q[3], q[2], q[2])
	VPACKSSWB(q[2], q[0], q[0])
	VPERMD(q[0], order, q[0])
}

func (s isa) loadPackOrder(v reg.VecVirtual) {
	if s.wide {
		VMOVDQU32(NewDataAddr(NewStaticSymbol("packOrder512"), 0), v)
	} else {
		VMOVDQU(NewDataAddr(NewStaticSymbol("packOrder256"), 0), v)
	}
}

// packOrders say where packed vectors have the words of the result: packing is by lanes of 128 bits, and a lane has a word of each vector.
func packOrders() {
	for _, lanes := range []int{2, 4} {
		GLOBL(fmt.Sprintf("packOrder%d", 128*lanes), RODATA|NOPTR)
		for i := range 4 * lanes {
			DATA(4*i, U32(uint32(4*(i%lanes)+i/lanes)))
		}
	}
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

// decodeInt8 also adds, if it is told to. What it adds to is read first: read after the bytes are widened, with 512
// bits and out of memory, it takes a fifth longer.
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
			var sum reg.VecVirtual
			if add {
				sum = at.load(dst)
			}
			v := s.vector()
			if at.mask != nil {
				VPMOVSXBD_Z(at.at(src, 1), at.mask, v)
			} else {
				VPMOVSXBD(at.at(src, 1), v)
			}
			VCVTDQ2PS(v, v)
			VMULPS(scale, v, v)
			if add {
				VADDPS(v, sum, sum)
				v = sum
			}
			at.store(v, dst)
		})
		s.advance(src, dst)
	})
	end()
}
