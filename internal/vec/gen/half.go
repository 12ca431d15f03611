package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func encodeF16(s isa) {
	s.text("encodeF16", "func(dst *byte, src *float32, n int)", "rounds to binary16; "+s.reach())
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	const nearestEven = 0
	s.each("", Load(Param("n"), GP64()).(reg.GPVirtual), true, func(at spot) {
		x := at.load(src)
		if at.mask != nil {
			VCVTPS2PH(Imm(nearestEven), x, at.mask, at.at(dst, 2))
		} else {
			VCVTPS2PH(Imm(nearestEven), x, at.at(dst, 2))
		}
	})
	end()
}

func decodeF16(s isa) {
	s.text("decodeF16", "func(dst *float32, src *byte, n int)", "widens binary16; "+s.reach())
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	s.each("", Load(Param("n"), GP64()).(reg.GPVirtual), true, func(at spot) { at.store(at.loadF16(src), dst) })
	end()
}

func addF16(s isa) {
	s.text("addF16", "func(dst *float32, src *byte, n int)", "adds widened binary16; "+s.reach())
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	s.each("", Load(Param("n"), GP64()).(reg.GPVirtual), true, func(at spot) { at.addTo(dst, at.loadF16(src)) })
	end()
}

func (s spot) loadF16(p reg.Register) reg.VecVirtual {
	x := s.vector()
	if s.mask != nil {
		VCVTPH2PS_Z(s.at(p, 2), s.mask, x)
	} else {
		VCVTPH2PS(s.at(p, 2), x)
	}
	return x
}

// addTo adds x to float32 elements in memory.
func (s spot) addTo(p reg.Register, x reg.VecVirtual) {
	y := s.load(p)
	VADDPS(x, y, y)
	s.store(y, p)
}

func encodeBF16(s isa) {
	s.text("encodeBF16", "func(dst *byte, src *float32, n int)", "rounds to bfloat16; "+s.reach())
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	one, half, quiet := s.word(1), s.word(0x7fff), s.word(0x40)
	s.each("", Load(Param("n"), GP64()).(reg.GPVirtual), true, func(at spot) {
		x := at.load(src)
		upper, sum := s.vector(), s.vector()
		if s.wide {
			VPSRLD(Imm(16), x, upper)
			VPANDD(one, upper, sum)
			VPADDD(half, sum, sum)
			VPADDD(x, sum, sum)
			VPSRLD(Imm(16), sum, sum)
			nan := K()
			VCMPPS(Imm(3), x, x, nan)
			VPORD(quiet, upper, nan, sum)
			if at.mask != nil {
				VPMOVDW(sum, at.mask, at.at(dst, 2))
			} else {
				VPMOVDW(sum, at.at(dst, 2))
			}
			return
		}
		nan := s.vector()
		VCMPPS(Imm(3), x, x, nan)
		VPSRLD(Imm(16), x, upper)
		VPAND(one, upper, sum)
		VPADDD(half, sum, sum)
		VPADDD(x, sum, sum)
		VPSRLD(Imm(16), sum, sum)
		VPOR(quiet, upper, upper)
		VPBLENDVB(nan, upper, sum, sum)
		VPACKUSDW(sum, sum, sum)
		VPERMQ(Imm(0x08), sum, sum)
		VMOVDQU(sum.AsX(), at.at(dst, 2))
	})
	end()
}

func decodeBF16(s isa) {
	s.text("decodeBF16", "func(dst *float32, src *byte, n int)", "widens bfloat16; "+s.reach())
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	s.each("", Load(Param("n"), GP64()).(reg.GPVirtual), true, func(at spot) { at.store(at.loadBF16(src), dst) })
	end()
}

func addBF16(s isa) {
	s.text("addBF16", "func(dst *float32, src *byte, n int)", "adds widened bfloat16; "+s.reach())
	dst, src := Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	s.each("", Load(Param("n"), GP64()).(reg.GPVirtual), true, func(at spot) { at.addTo(dst, at.loadBF16(src)) })
	end()
}

func (s spot) loadBF16(p reg.Register) reg.VecVirtual {
	x := s.vector()
	if s.mask != nil {
		VPMOVZXWD_Z(s.at(p, 2), s.mask, x)
	} else {
		VPMOVZXWD(s.at(p, 2), x)
	}
	VPSLLD(Imm(16), x, x)
	return x
}
