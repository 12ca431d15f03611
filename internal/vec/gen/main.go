// Command gen writes the assembly of package vec for amd64, each kernel for AVX2 and for AVX-512. It is a module of its own, so that its dependency is not
// the product's. Run it by go generate in the package's directory; what it writes is committed.
package main

import (
	"flag"
	"fmt"
	"os"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/reg"
)

// isa is a set of instructions to write for.
type isa struct {
	suffix string
	wide   bool // 512 bits and masks, else 256 bits and none
}

// group is the kernels of one pair of files.
type group struct {
	data  []func() // constants
	write func(s isa)
}

func main() {
	name := flag.String("group", "", "sums, codecs, rules or tiles")
	flag.Parse()
	g, ok := map[string]group{
		"sums":   {[]func(){tailMasks}, sums},
		"codecs": {[]func(){tailMasks, lanesAscending, signShifts, packOrders}, codecs},
		"rules":  {nil, rules},
		"tiles":  {nil, tiles},
	}[*name]
	if !ok {
		fmt.Fprintf(os.Stderr, "no group %q\n", *name)
		os.Exit(2)
	}
	ConstraintExpr("amd64")
	for _, f := range g.data {
		f()
	}
	for _, s := range []isa{{"AVX2", false}, {"AVX512", true}} {
		g.write(s)
	}
	Generate()
}

// sums are those of vectors and their products.
func sums(s isa) {
	for _, f := range []func(isa){add, scale, axpy, axpby, dot, finite} {
		f(s)
	}
}

// codecs are what float32 vectors are made shorter by.
func codecs(s isa) {
	for _, f := range []func(isa){
		encodeF16, decodeF16, addF16, encodeBF16, decodeBF16, addBF16,
		maxAbs, absSum, addAbsSum, absSumAbove, selectAbs, packSigns, packSignsRest,
	} {
		f(s)
	}
	for _, also := range []bool{false, true} {
		unpackSigns(s, also)
		packTwoBit(s, also)
		unpackTwoBit(s, also)
		encodeInt8(s, also)
		decodeInt8(s, also)
	}
}

// rules are the update loops of optimizers, and their norms.
func rules(s isa) {
	for _, k := range elementKernels() {
		k.write(s)
	}
}

// tiles are rows of tables and parts of matrices.
func tiles(s isa) {
	gatherRows(s)
	gemmTile(s)
	transpose(s)
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
