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

// each runs body over the elements, four vectors a turn, then one, then with a mask if there are any: without, fewer than a vector are left over. What body keeps in registers is
// made before.
func (s isa) each(n reg.GPVirtual, body func(spot)) {
	lanes := s.bytes() / 4
	here := spot{isa: s, index: GP64()}
	XORQ(here.index, here.index)
	SUBQ(U32(uint32(4*lanes)), n)
	JL(LabelRef("few"))
	Label("loop")
	for i := range 4 {
		body(spot{isa: s, index: here.index, first: i * lanes})
	}
	ADDQ(U32(uint32(4*lanes)), here.index)
	SUBQ(U32(uint32(4*lanes)), n)
	JGE(LabelRef("loop"))
	Label("few")
	ADDQ(U32(uint32(3*lanes)), n)
	JL(LabelRef("tail"))
	Label("one")
	body(here)
	ADDQ(U32(uint32(lanes)), here.index)
	SUBQ(U32(uint32(lanes)), n)
	JGE(LabelRef("one"))
	Label("tail")
	if s.wide {
		ADDQ(U32(uint32(lanes)), n)
		JZ(LabelRef("done"))
		here.mask = maskOf(n)
		body(here)
		Label("done")
	}
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
