package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// elementKernel is a loop over the elements of some float32 slices that computes in float64.
type elementKernel struct {
	name   string
	coeffs int      // float64 coefficients, read through the first parameter
	slices []string // parameters, *float32
	sums   int      // groups of eight partial sums, added to those behind parameter sums
	body   func(e *env)
}

// lanesOfSums is how many partial sums a group has, whatever the width.
const lanesOfSums = 8

// env is what a body sees: the elements of one step of the loop.
type env struct {
	isa
	params  reg.GPVirtual
	hoisted []reg.VecVirtual
	ptrs    []reg.GPVirtual
	index   reg.GPVirtual
	disp    int
	mask    reg.OpmaskVirtual // nil but in the tail
	nan     reg.VecVirtual
	accs    []reg.VecVirtual // of this part of the lanes
}

func (s isa) lanes64() int { return s.bytes() / 8 }

func (k elementKernel) write(s isa) {
	sig := "func(coeffs *float64"
	if k.sums > 0 {
		sig += ", sums *float64"
	}
	for _, p := range k.slices {
		sig += ", " + p
	}
	s.text(k.name, sig+" *float32, n int)", k.doc(s))
	e := &env{isa: s, params: Load(Param("coeffs"), GP64()).(reg.GPVirtual)}
	for _, p := range k.slices {
		e.ptrs = append(e.ptrs, Load(Param(p), GP64()).(reg.GPVirtual))
	}
	n := Load(Param("n"), GP64()).(reg.GPVirtual)
	e.prepare(k)
	groups := k.loadSums(s)
	parts := 1
	if k.sums > 0 {
		parts = lanesOfSums / s.lanes64()
	}
	step := parts * s.lanes64()
	e.index = GP64()
	XORQ(e.index, e.index)
	SUBQ(U32(uint32(step)), n)
	JL(LabelRef("tail"))
	Label("loop")
	for part := range parts {
		e.disp = part * s.lanes64() * 4
		e.accs = groups[part]
		k.body(e)
	}
	e.disp = 0
	ADDQ(U32(uint32(step)), e.index)
	SUBQ(U32(uint32(step)), n)
	JGE(LabelRef("loop"))
	Label("tail")
	if s.wide {
		ADDQ(U32(uint32(step)), n)
		JZ(LabelRef("done"))
		bits := GP32()
		MOVL(I32(-1), bits)
		BZHIL(n.As32(), bits, bits)
		e.mask = K()
		KMOVW(bits, e.mask)
		e.accs = groups[0]
		k.body(e)
		Label("done")
	}
	k.storeSums(s, groups)
	VZEROUPPER()
	RET()
}

func (k elementKernel) doc(s isa) string {
	switch {
	case s.wide:
		return "takes any n."
	case k.sums > 0:
		return fmt.Sprintf("takes the first n &^ %d elements.", lanesOfSums-1)
	default:
		return fmt.Sprintf("takes the first n &^ %d elements.", s.lanes64()-1)
	}
}

// prepare keeps coefficients in registers as far as there are enough, and the NaN that is stored.
func (e *env) prepare(k elementKernel) {
	bits := GP32()
	MOVL(U32(0x7fc00000), bits)
	if k.stores() {
		if e.wide {
			e.nan = YMM()
			VPBROADCASTD(bits, e.nan)
		} else {
			e.nan = XMM()
			VMOVD(bits, e.nan)
			VPBROADCASTD(e.nan, e.nan)
		}
	}
	if !e.wide && k.coeffs > 5 {
		return
	}
	for i := range k.coeffs {
		v := e.vector()
		VBROADCASTSD(Mem{Base: e.params, Disp: 8 * i}, v)
		e.hoisted = append(e.hoisted, v)
	}
}

func (k elementKernel) stores() bool { return k.sums == 0 }

// loadSums fetches the partial sums: [part of the lanes][group].
func (k elementKernel) loadSums(s isa) [][]reg.VecVirtual {
	parts := lanesOfSums / s.lanes64()
	groups := make([][]reg.VecVirtual, parts)
	if k.sums == 0 {
		return groups
	}
	at := Load(Param("sums"), GP64())
	for part := range parts {
		for g := range k.sums {
			v := s.vector()
			VMOVUPD(Mem{Base: at, Disp: 8 * (g*lanesOfSums + part*s.lanes64())}, v)
			groups[part] = append(groups[part], v)
		}
	}
	return groups
}

func (k elementKernel) storeSums(s isa, groups [][]reg.VecVirtual) {
	if k.sums == 0 {
		return
	}
	at := Load(Param("sums"), GP64())
	for part, accs := range groups {
		for g, v := range accs {
			VMOVUPD(v, Mem{Base: at, Disp: 8 * (g*lanesOfSums + part*s.lanes64())})
		}
	}
}

// c is coefficient i in every lane.
func (e *env) c(i int) reg.VecVirtual {
	if i < len(e.hoisted) {
		return e.hoisted[i]
	}
	v := e.vector()
	VBROADCASTSD(Mem{Base: e.params, Disp: 8 * i}, v)
	return v
}

func (e *env) mem(slice int) Mem {
	return Mem{Base: e.ptrs[slice], Index: e.index, Scale: 4, Disp: e.disp}
}

// load widens the elements of a slice.
func (e *env) load(slice int) reg.VecVirtual {
	v := e.vector()
	if e.mask != nil {
		VCVTPS2PD_Z(e.mem(slice), e.mask, v)
	} else {
		VCVTPS2PD(e.mem(slice), v)
	}
	return v
}

// store rounds v into a slice, every NaN to the same bits.
func (e *env) store(slice int, v reg.VecVirtual) {
	if !e.wide {
		x, unordered := XMM(), XMM()
		VCVTPD2PSY(v, x)
		VCMPPS(Imm(3), x, x, unordered)
		VBLENDVPS(unordered, e.nan, x, x)
		VMOVUPS(x, e.mem(slice))
		return
	}
	y, unordered := YMM(), K()
	VCVTPD2PS(v, y)
	VCMPPS(Imm(3), y, y, unordered)
	VMOVAPS(e.nan, unordered, y)
	if e.mask != nil {
		VMOVUPS(y, e.mask, e.mem(slice))
	} else {
		VMOVUPS(y, e.mem(slice))
	}
}

// accumulate adds v to a group of partial sums.
func (e *env) accumulate(group int, v reg.VecVirtual) {
	if acc := e.accs[group]; e.mask != nil {
		VADDPD(v, acc, e.mask, acc)
	} else {
		VADDPD(v, acc, acc)
	}
}

func (e *env) add(a, b reg.VecVirtual) reg.VecVirtual { return e.op(VADDPD, a, b) }
func (e *env) sub(a, b reg.VecVirtual) reg.VecVirtual { return e.op(VSUBPD, a, b) }
func (e *env) mul(a, b reg.VecVirtual) reg.VecVirtual { return e.op(VMULPD, a, b) }
func (e *env) div(a, b reg.VecVirtual) reg.VecVirtual { return e.op(VDIVPD, a, b) }

// max is a if a > b, else b, also where they do not compare.
func (e *env) max(a, b reg.VecVirtual) reg.VecVirtual { return e.op(VMAXPD, a, b) }

func (e *env) sqrt(a reg.VecVirtual) reg.VecVirtual {
	v := e.vector()
	VSQRTPD(a, v)
	return v
}

// signBit has the sign bit of every lane.
func (e *env) signBit() reg.VecVirtual {
	v := e.vector()
	e.ones(v)
	VPSLLQ(Imm(63), v, v)
	return v
}

func (e *env) ones(v reg.VecVirtual) {
	if e.wide {
		VPTERNLOGQ(U8(0xff), v, v, v)
		return
	}
	VPCMPEQD(v, v, v)
}

func (e *env) and(a, b reg.VecVirtual) reg.VecVirtual {
	v := e.vector()
	if e.wide {
		VPANDQ(b, a, v)
	} else {
		VPAND(b, a, v)
	}
	return v
}

func (e *env) xor(a, b reg.VecVirtual) reg.VecVirtual {
	v := e.vector()
	if e.wide {
		VPXORQ(b, a, v)
	} else {
		VPXOR(b, a, v)
	}
	return v
}

func (e *env) zero() reg.VecVirtual {
	v := e.vector()
	if e.wide {
		VPXORQ(v, v, v)
	} else {
		VPXOR(v, v, v)
	}
	return v
}

func (e *env) op(emit func(...Op), a, b reg.VecVirtual) reg.VecVirtual {
	v := e.vector()
	emit(b, a, v)
	return v
}
