package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const absBits = 0x7fffffff

// zeros are fresh registers of zeros.
func (s isa) zeros(n int) []reg.VecVirtual {
	v := make([]reg.VecVirtual, n)
	for i := range v {
		v[i] = s.vector()
		s.clear(v[i])
	}
	return v
}

// turnOf is which of the four vectors of a turn a spot is.
func (s spot) turnOf() int { return s.first / (s.bytes() / 4) }

func maxAbs(s isa) {
	s.text("maxAbs", "func(x *float32, n int) uint32", "has the bits of the largest magnitude; "+s.reach())
	x := Load(Param("x"), GP64())
	abs, tops := s.word(absBits), s.zeros(4)
	s.each("", Load(Param("n"), GP64()).(reg.GPVirtual), true, func(at spot) {
		top := tops[at.turnOf()]
		if at.mask != nil {
			v := at.load(x)
			s.and(abs, v, v)
			VPMAXUD(v, top, top)
			return
		}
		v := s.vector()
		s.and(at.at(x, 4), abs, v)
		VPMAXUD(v, top, top)
	})
	for _, top := range tops[1:] {
		VPMAXUD(top, tops[0], tops[0])
	}
	out := GP32()
	VMOVD(s.fold1(tops[0], VPMAXUD), out)
	Store(out, ReturnIndex(0))
	end()
}

func absSum(s isa) {
	s.text("absSum", "func(x *float32, n int) float32", "is the sum of magnitudes in the order of Dot.")
	x := Load(Param("x"), GP64())
	abs, accs := s.word(absBits), s.zeros(128/s.bytes())
	s.each32(x, Load(Param("n"), GP64()).(reg.GPVirtual), func(part int, v reg.VecVirtual, _ reg.Register) {
		s.and(abs, v, v)
		VADDPS(v, accs[part], accs[part])
	})
	s.fold(accs)
}

func addAbsSum(s isa) {
	s.text("addAbsSum", "func(sums, dst, src *float32, n int)", "takes the first n &^ 31 elements.")
	sums, dst, src := Load(Param("sums"), GP64()), Load(Param("dst"), GP64()), Load(Param("src"), GP64())
	abs, accs := s.word(absBits), s.loadSums(sums)
	s.whole32(Load(Param("n"), GP64()).(reg.GPVirtual), func(at spot, part int) {
		v := at.load(dst)
		VADDPS(at.at(src, 4), v, v)
		at.store(v, dst)
		s.and(abs, v, v)
		VADDPS(v, accs[part], accs[part])
	}, nil)
	s.storeSums(sums, accs)
	end()
}

// count adds ones to the lanes that atLeast marks.
func (s isa) count(k reg.OpmaskVirtual, v, one, acc reg.VecVirtual) {
	if s.wide {
		VPADDD(one, acc, k, acc)
	} else {
		VPSUBD(v, acc, acc)
	}
}

func (s isa) returnCount(counts []reg.VecVirtual, result int) {
	for _, c := range counts[1:] {
		VPADDD(c, counts[0], counts[0])
	}
	out := GP32()
	VMOVD(s.fold1(counts[0], VPADDD), out)
	wide := GP64()
	MOVL(out, wide.As32())
	Store(wide, ReturnIndex(result))
}

// last is the last lane of a vector.
func (s isa) last() string {
	if s.wide {
		return "15"
	}
	return "7"
}

func absSumAbove(s isa) {
	s.text("absSumAbove", "func(x *float32, t uint32, n int) (sum float32, count int)", "sums magnitudes of at least that in the order of Dot, and counts them.")
	x := Load(Param("x"), GP64())
	abs, least, accs := s.word(absBits), s.least("t"), s.zeros(128/s.bytes())
	counts := s.zeros(len(accs))
	var one reg.VecVirtual
	if s.wide {
		one = s.word(1)
	}
	s.each32(x, Load(Param("n"), GP64()).(reg.GPVirtual), func(part int, v reg.VecVirtual, mask reg.Register) {
		s.and(abs, v, v)
		k, marks := s.atLeast(v, least)
		if mask != nil && s.wide {
			KANDW(mask, k, k)
		} else if mask != nil {
			VPAND(mask, marks, marks)
		}
		s.count(k, marks, one, counts[part])
		if s.wide {
			VADDPS(v, accs[part], k, accs[part])
			return
		}
		VPAND(marks, v, v)
		VADDPS(v, accs[part], accs[part])
	})
	s.returnCount(counts, 1)
	s.fold(accs)
}

// selectAbs looks at whole turns of four vectors while there is room for the indexes of two of them.
func selectAbs(s isa) {
	s.text("selectAbs", "func(index *uint32, room int, x *float32, t uint32, n int) (found, seen int)",
		"collects indexes of elements of at least that magnitude, in whole turns, while there is room for two turns.")
	to, room := Load(Param("index"), GP64()), Load(Param("room"), GP64())
	x, n := Load(Param("x"), GP64()), Load(Param("n"), GP64())
	abs, least := s.word(absBits), s.least("t")
	turn := s.bytes() // elements: four vectors of four-byte ones
	found, seen := GP64(), GP64()
	XORQ(found, found)
	XORQ(seen, seen)
	SUBQ(U32(uint32(turn)), n)
	JL(LabelRef("over"))
	SUBQ(U32(uint32(2*turn)), room)
	JL(LabelRef("over"))
	var places, step reg.VecVirtual
	if s.wide {
		places, step = s.vector(), s.word(16)
		VMOVDQU32(NewDataAddr(NewStaticSymbol("lanesAscending"), 0), places)
	}
	Label("turn")
	at := spot{isa: s, index: seen}
	if s.wide {
		s.selectTurn(at, x, to, found, abs, least, places, step)
	} else {
		s.selectBits(at, x, to, found, abs, least)
	}
	ADDQ(U32(uint32(turn)), seen)
	CMPQ(found, room)
	JG(LabelRef("over"))
	SUBQ(U32(uint32(turn)), n)
	JGE(LabelRef("turn"))
	Label("over")
	Store(found, ReturnIndex(0))
	Store(seen, ReturnIndex(1))
	end()
}

// selectTurn compresses the places of what is found to the front and writes the whole vector: what follows is written
// over later. Without a branch it takes the same time whatever it finds.
func (s isa) selectTurn(at spot, x, to, found reg.Register, abs, least, places, step reg.VecVirtual) {
	for i := range 4 {
		at.first = i * 16
		v, packed, hits := s.vector(), s.vector(), GP64()
		s.and(at.at(x, 4), abs, v)
		k, _ := s.atLeast(v, least)
		VPCOMPRESSD_Z(places, k, packed)
		VMOVDQU32(packed, Mem{Base: to, Index: found, Scale: 4})
		KMOVW(k, hits.As32())
		POPCNTL(hits.As32(), hits.As32())
		ADDQ(hits, found)
		VPADDD(step, places, places)
	}
}

// selectBits takes the marks of a turn as the bits of a word.
func (s isa) selectBits(at spot, x, to, found reg.Register, abs, least reg.VecVirtual) {
	bits := GP64()
	for i := range 4 {
		at.first = i * 8
		v := s.vector()
		s.and(at.at(x, 4), abs, v)
		_, marks := s.atLeast(v, least)
		if i == 0 {
			VMOVMSKPS(marks, bits.As32())
			continue
		}
		more := GP64()
		VMOVMSKPS(marks, more.As32())
		SHLQ(Imm(uint64(8*i)), more)
		ORQ(more, bits)
	}
	TESTQ(bits, bits)
	JZ(LabelRef("none"))
	Label("bit")
	place := GP64()
	TZCNTQ(bits, place)
	ADDQ(at.index, place)
	MOVL(place.As32(), Mem{Base: to, Index: found, Scale: 4})
	INCQ(found)
	BLSRQ(bits, bits)
	JNZ(LabelRef("bit"))
	Label("none")
}

// lanesAscending is 0 to 15.
func lanesAscending() {
	GLOBL("lanesAscending", RODATA|NOPTR)
	for i := range 16 {
		DATA(4*i, U32(uint32(i)))
	}
}
