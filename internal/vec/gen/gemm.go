package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// tile is the part of the product that registers hold: 8 rows of 2 vectors with 32 registers, 6 of 2 with 16.
func (s isa) tile() (rows, vectors int) {
	if s.wide {
		return 8, 2
	}
	return 6, 2
}

// gemmTile is the innermost product: rows x (2 vectors) of c from k columns of a and a packed panel of b. Every sum runs over k in order, fused.
func gemmTile(s isa) {
	rows, vectors := s.tile()
	s.text("gemmTile", "func(k int, a *float32, row, col int, panel, c *float32, ldc int, accumulate bool)",
		"is c (+)= a x panel for one tile; strides are in bytes.")
	k := Load(Param("k"), GP64())
	base := Load(Param("a"), GP64())
	row, col := Load(Param("row"), GP64()), Load(Param("col"), GP64())
	panel := Load(Param("panel"), GP64())
	at := rowAddresses(base, row, rows)
	acc := make([][]reg.VecVirtual, rows)
	for i := range acc {
		for range vectors {
			v := s.vector()
			s.clear(v)
			acc[i] = append(acc[i], v)
		}
	}
	Label("loop")
	var b []reg.VecVirtual
	for v := range vectors {
		x := s.vector()
		VMOVUPS(Mem{Base: panel, Disp: v * s.bytes()}, x)
		b = append(b, x)
	}
	for i := range rows {
		a := s.vector()
		VBROADCASTSS(at.mem(i), a)
		for v := range vectors {
			VFMADD231PS(b[v], a, acc[i][v])
		}
	}
	for _, p := range at.bases {
		ADDQ(col, p)
	}
	ADDQ(U32(uint32(vectors*s.bytes())), panel)
	DECQ(k)
	JNZ(LabelRef("loop"))
	s.storeTile(acc)
}

// addresses reaches rows by few registers: row i is at base i / 3 with (i mod 3) times the stride.
type addresses struct {
	bases  []reg.GPVirtual
	stride reg.Register
}

func rowAddresses(base, stride reg.Register, rows int) addresses {
	three := GP64()
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, three)
	at := addresses{stride: stride}
	for i := 0; i < rows; i += 3 {
		p := GP64()
		if i == 0 {
			MOVQ(base, p)
		} else {
			LEAQ(Mem{Base: at.bases[len(at.bases)-1], Index: three, Scale: 1}, p)
		}
		at.bases = append(at.bases, p)
	}
	return at
}

func (a addresses) mem(i int) Mem {
	m := Mem{Base: a.bases[i/3]}
	if i%3 > 0 {
		m.Index, m.Scale = a.stride, uint8(i%3)
	}
	return m
}

// storeTile writes the tile, or adds it to what is there.
func (s isa) storeTile(acc [][]reg.VecVirtual) {
	c, ldc := Load(Param("c"), GP64()), Load(Param("ldc"), GP64())
	flag := Load(Param("accumulate"), GP8())
	at := rowAddresses(c, ldc, len(acc))
	each := func(do func(m Mem, v reg.VecVirtual)) {
		for i, vs := range acc {
			for v, x := range vs {
				m := at.mem(i)
				m.Disp = v * s.bytes()
				do(m, x)
			}
		}
	}
	TESTB(flag, flag)
	JZ(LabelRef("store"))
	each(func(m Mem, v reg.VecVirtual) { VADDPS(m, v, v) })
	Label("store")
	each(func(m Mem, v reg.VecVirtual) { VMOVUPS(v, m) })
	VZEROUPPER()
	RET()
}

// transpose turns blocks of 8 x 8, for panels of a transposed operand. It is the same for both sets of instructions, and written once.
func transpose(s isa) {
	if s.wide {
		return
	}
	s.text("transpose8", "func(dst *float32, ldd int, src *float32, lds int)", "writes 8 x 8 elements of src to dst, transposed; strides are in bytes.")
	dst, ldd := Load(Param("dst"), GP64()), Load(Param("ldd"), GP64())
	src, lds := Load(Param("src"), GP64()), Load(Param("lds"), GP64())
	from, to := rowAddresses(src, lds, 8), rowAddresses(dst, ldd, 8)
	var r, t [8]reg.VecVirtual
	for i := range 4 { // halves of rows i and i + 4 side by side
		for half := range 2 {
			v := YMM()
			low, high := from.mem(i), from.mem(i+4)
			low.Disp, high.Disp = 16*half, 16*half
			VMOVUPS(low, v.AsX())
			VINSERTF128(Imm(1), high, v, v)
			r[i+4*half] = v
		}
	}
	for half := 0; half < 8; half += 4 {
		for i := range 2 {
			t[half+2*i], t[half+2*i+1] = YMM(), YMM()
			VUNPCKLPS(r[half+2*i+1], r[half+2*i], t[half+2*i])
			VUNPCKHPS(r[half+2*i+1], r[half+2*i], t[half+2*i+1])
		}
		out := func(n int, imm uint8, lo, hi reg.VecVirtual) {
			v := YMM()
			VSHUFPS(Imm(uint64(imm)), hi, lo, v)
			VMOVUPS(v, to.mem(half+n))
		}
		out(0, 0x44, t[half], t[half+2])
		out(1, 0xee, t[half], t[half+2])
		out(2, 0x44, t[half+1], t[half+3])
		out(3, 0xee, t[half+1], t[half+3])
	}
	VZEROUPPER()
	RET()
}
