// Command gen writes the assembly of package vec for amd64, each kernel for AVX2 and for AVX-512. It is a module of its own, so that its dependency is not
// the product's. Run it by go generate in the package's directory; what it writes is committed.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/reg"
)

// isa is a set of instructions to write for.
type isa struct {
	suffix string
	wide   bool // 512 bits and masks, else 256 bits and none
}

func main() {
	ConstraintExpr("amd64")
	tailMasks()
	lanesAscending()
	signShifts()
	for _, s := range []isa{{"AVX2", false}, {"AVX512", true}} {
		add(s)
		scale(s)
		axpy(s)
		axpby(s)
		dot(s)
		finite(s)
		encodeF16(s)
		decodeF16(s)
		addF16(s)
		encodeBF16(s)
		decodeBF16(s)
		addBF16(s)
		maxAbs(s)
		absSum(s)
		addAbsSum(s)
		absSumAbove(s)
		selectAbs(s)
		packSigns(s)
		packSignsRest(s)
		for _, also := range []bool{false, true} {
			unpackSigns(s, also)
			packTwoBit(s, also)
			unpackTwoBit(s, also)
			encodeInt8(s, also)
			decodeInt8(s, also)
		}
		for _, k := range elementKernels() {
			k.write(s)
		}
		gatherRows(s)
		gemmTile(s)
		transpose(s)
	}
	Generate()
}

// vector is a fresh register of the full width.
func (s isa) vector() reg.VecVirtual {
	if s.wide {
		return ZMM()
	}
	return YMM()
}

// bytes is the width of a vector.
func (s isa) bytes() int {
	if s.wide {
		return 64
	}
	return 32
}

// text begins a function.
func (s isa) text(name, signature, doc string) {
	TEXT(name+s.suffix, NOSPLIT|NOFRAME, signature)
	Pragma("noescape")
	Doc(name + s.suffix + " " + doc)
}
