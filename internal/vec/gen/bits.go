package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const signBits = 0x80000000

// signed is scale with the sign of x turned over where x has one.
func (s isa) signed(x, sign, scale reg.VecVirtual) reg.VecVirtual {
	d := s.vector()
	if s.wide {
		VMOVDQA32(x, d)
		const andXor = 0x6a // (d AND sign) XOR scale
		VPTERNLOGD(Imm(andXor), scale, sign, d)
		return d
	}
	VPAND(x, sign, d)
	VPXOR(scale, d, d)
	return d
}

// storeBits writes a bit a lane to byte element / 8 of p.
func (s spot) storeBits(k reg.OpmaskVirtual, v reg.VecVirtual, p reg.Register, eighth reg.Register) {
	to := Mem{Base: p, Index: eighth, Scale: 1, Disp: s.first / 8}
	if s.wide {
		KMOVW(k, to)
		return
	}
	bits := GP32()
	VMOVMSKPS(v, bits)
	MOVB(bits.As8(), to)
}

// eighth is the byte of bits of the spot's index.
func (s spot) eighth() reg.GPVirtual {
	e := GP64()
	MOVQ(s.index, e)
	SHRQ(Imm(3), e)
	return e
}

func packSigns(s isa) {
	s.text("packSigns", "func(dst *byte, x *float32, n int)", "takes the first n &^ "+s.last()+" elements.")
	dst, x := Load(Param("dst"), GP64()), Load(Param("x"), GP64())
	s.each("", Load(Param("n"), GP64()).(reg.GPVirtual), false, func(at spot) {
		v := at.load(x)
		at.storeBits(s.signsOf(v), v, dst, at.eighth())
	})
	end()
}

// signsOf is a mask of negative lanes, if there are masks.
func (s isa) signsOf(v reg.VecVirtual) reg.OpmaskVirtual {
	if !s.wide {
		return nil
	}
	k := K()
	VPMOVD2M(v, k)
	return k
}

func packSignsRest(s isa) {
	s.text("packSignsRest", "func(dst *byte, x *float32, scale float32, n int)", "takes the first n &^ "+s.last()+" elements.")
	dst, x := Load(Param("dst"), GP64()), Load(Param("x"), GP64())
	sign, scale := s.word(signBits), s.broadcast("scale")
	s.each("", Load(Param("n"), GP64()).(reg.GPVirtual), false, func(at spot) {
		v := at.load(x)
		at.storeBits(s.signsOf(v), v, dst, at.eighth())
		VSUBPS(s.signed(v, sign, scale), v, v)
		at.store(v, x)
	})
	end()
}

// bitsOf reads a bit a lane: a mask, or, without masks, what has the bit as its sign and other bits below.
func (s spot) bitsOf(p, eighth reg.Register, shifts reg.VecVirtual) (reg.OpmaskVirtual, reg.VecVirtual) {
	from := Mem{Base: p, Index: eighth, Scale: 1, Disp: s.first / 8}
	if s.wide {
		k := K()
		KMOVW(from, k)
		return k, nil
	}
	bits, x, v := GP32(), XMM(), s.vector()
	MOVBLZX(from, bits)
	VMOVD(bits, x)
	VPBROADCASTD(x, v)
	VPSLLVD(shifts, v, v)
	return nil, v
}

// shifts bring bit i to the sign of lane i; nil if there are masks.
func (s isa) shifts() reg.VecVirtual {
	if s.wide {
		return nil
	}
	v := s.vector()
	VMOVDQU(NewDataAddr(NewStaticSymbol("signShifts"), 0), v)
	return v
}

func signShifts() {
	GLOBL("signShifts", RODATA|NOPTR)
	for i := range 8 {
		DATA(4*i, U32(uint32(31-i)))
	}
}

// unpackSigns also adds, if it is told to.
func unpackSigns(s isa, add bool) {
	name := "unpackSigns"
	if add {
		name = "addSigns"
	}
	s.text(name, "func(dst *float32, src *byte, scale float32, n int)", "takes the first n &^ "+s.last()+" elements.")
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	sign, scale, shifts := s.word(signBits), s.broadcast("scale"), s.shifts()
	var other reg.VecVirtual
	if s.wide {
		other = s.vector()
		VPXORD(sign, scale, other)
	}
	s.each("", Load(Param("n"), GP64()).(reg.GPVirtual), false, func(at spot) {
		k, bits := at.bitsOf(src, at.eighth(), shifts)
		v := s.vector()
		if s.wide {
			VBLENDMPS(other, scale, k, v)
		} else {
			v = s.signed(bits, sign, scale)
		}
		if add {
			at.addTo(dst, v)
		} else {
			at.store(v, dst)
		}
	})
	end()
}

// packTwoBit also leaves the rest in x, if it is told to.
func packTwoBit(s isa, rest bool) {
	name, sig := "packTwoBit", "func(some, neg *byte, x *float32, t uint32, n int)"
	if rest {
		name, sig = "packTwoBitRest", "func(some, neg *byte, x *float32, t uint32, level float32, n int)"
	}
	s.text(name, sig, "takes the first n &^ "+s.last()+" elements.")
	some, neg, x := Load(Param("some"), GP64()), Load(Param("neg"), GP64()), Load(Param("x"), GP64())
	abs, least := s.word(absBits), s.least("t")
	var sign, level reg.VecVirtual
	if rest {
		sign, level = s.word(signBits), s.broadcast("level")
	}
	s.each("", Load(Param("n"), GP64()).(reg.GPVirtual), false, func(at spot) {
		v, size := at.load(x), s.vector()
		s.and(v, abs, size)
		k, marks := s.atLeast(size, least)
		eighth := at.eighth()
		at.storeBits(k, marks, some, eighth)
		if s.wide {
			minus := K()
			VPMOVD2M(v, minus)
			KANDW(k, minus, minus)
			at.storeBits(minus, nil, neg, eighth)
			if rest {
				VSUBPS(s.signed(v, sign, level), v, k, v)
				at.store(v, x)
			}
			return
		}
		minus := s.vector()
		VPAND(v, marks, minus)
		at.storeBits(nil, minus, neg, eighth)
		if rest {
			d := s.signed(v, sign, level)
			VSUBPS(d, v, d)
			VBLENDVPS(marks, d, v, v)
			at.store(v, x)
		}
	})
	end()
}

func unpackTwoBit(s isa, add bool) {
	name := "unpackTwoBit"
	if add {
		name = "addTwoBit"
	}
	s.text(name, "func(dst *float32, some, neg *byte, level float32, n int)", "takes the first n &^ "+s.last()+" elements.")
	dst, some, neg := Load(Param("dst"), GP64()), Load(Param("some"), GP64()), Load(Param("neg"), GP64())
	sign, level, shifts := s.word(signBits), s.broadcast("level"), s.shifts()
	var other reg.VecVirtual
	if s.wide {
		other = s.vector()
		VPXORD(sign, level, other)
	}
	s.each("", Load(Param("n"), GP64()).(reg.GPVirtual), false, func(at spot) {
		eighth := at.eighth()
		k, bits := at.bitsOf(some, eighth, shifts)
		minus, minusBits := at.bitsOf(neg, eighth, shifts)
		if s.wide {
			v := s.vector()
			VBLENDMPS(other, level, minus, v)
			if add {
				y := at.load(dst)
				VADDPS(v, y, k, y)
				at.store(y, dst)
				return
			}
			VMOVAPS_Z(v, k, v)
			at.store(v, dst)
			return
		}
		v := s.signed(minusBits, sign, level)
		if add {
			y := at.load(dst)
			VADDPS(v, y, v)
			VBLENDVPS(bits, v, y, y)
			at.store(y, dst)
			return
		}
		VPSRAD(Imm(31), bits, bits)
		VPAND(bits, v, v)
		at.store(v, dst)
	})
	end()
}
