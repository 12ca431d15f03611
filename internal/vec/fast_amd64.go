package vec

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

//go:generate go -C gen run . -group sums -out ../kernels_sums_amd64.s -stubs ../kernels_sums_amd64.go -pkg vec
//go:generate go -C gen run . -group codecs -out ../kernels_codecs_amd64.s -stubs ../kernels_codecs_amd64.go -pkg vec
//go:generate go -C gen run . -group rules -out ../kernels_rules_amd64.s -stubs ../kernels_rules_amd64.go -pkg vec
//go:generate go -C gen run . -group tiles -out ../kernels_tiles_amd64.s -stubs ../kernels_tiles_amd64.go -pkg vec

// detect finds the widest unit the CPU has.
func detect() unit {
	x := &cpu.X86
	switch {
	case !x.HasAVX2 || !x.HasFMA || !x.HasF16C || !x.HasBMI2:
		return plain
	case x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL:
		return avx512
	default:
		return avx2
	}
}

// The functions below run a kernel on the first elements and return how many they took; the plain twin takes the others. They are calls by name,
// not through a table of functions, so that what is passed stays on the caller's stack.

func addFast(dst, src *float32, n int) int {
	switch active {
	case avx512:
		addAVX512(dst, src, n)
		return n
	case avx2:
		addAVX2(dst, src, n)
		return n &^ 7
	default:
		return 0
	}
}

func scaleFast(dst *float32, k float32, n int) int {
	switch active {
	case avx512:
		scaleAVX512(dst, k, n)
		return n
	case avx2:
		scaleAVX2(dst, k, n)
		return n &^ 7
	default:
		return 0
	}
}

func axpyFast(dst *float32, k float32, src *float32, n int) int {
	switch active {
	case avx512:
		axpyAVX512(dst, k, src, n)
		return n
	case avx2:
		axpyAVX2(dst, k, src, n)
		return n &^ 7
	default:
		return 0
	}
}

func axpbyFast(dst *float32, a float32, x *float32, b float32, y *float32, n int) int {
	switch active {
	case avx512:
		axpbyAVX512(dst, a, x, b, y, n)
		return n
	case avx2:
		axpbyAVX2(dst, a, x, b, y, n)
		return n &^ 7
	default:
		return 0
	}
}

func sgdFast(c *float64, w, g *float32, n int) int {
	switch active {
	case avx512:
		sgdAVX512(c, w, g, n)
		return n
	case avx2:
		sgdAVX2(c, w, g, n)
		return n &^ 3
	default:
		return 0
	}
}

func momentumFast(c *float64, w, m, g *float32, n int) int {
	switch active {
	case avx512:
		momentumAVX512(c, w, m, g, n)
		return n
	case avx2:
		momentumAVX2(c, w, m, g, n)
		return n &^ 3
	default:
		return 0
	}
}

func nesterovFast(c *float64, w, m, g *float32, n int) int {
	switch active {
	case avx512:
		nesterovAVX512(c, w, m, g, n)
		return n
	case avx2:
		nesterovAVX2(c, w, m, g, n)
		return n &^ 3
	default:
		return 0
	}
}

func rmsFast(c *float64, w, s, g *float32, n int) int {
	switch active {
	case avx512:
		rmsAVX512(c, w, s, g, n)
		return n
	case avx2:
		rmsAVX2(c, w, s, g, n)
		return n &^ 3
	default:
		return 0
	}
}

func adamFast(c *float64, w, m, v, g *float32, n int) int {
	switch active {
	case avx512:
		adamAVX512(c, w, m, v, g, n)
		return n
	case avx2:
		adamAVX2(c, w, m, v, g, n)
		return n &^ 3
	default:
		return 0
	}
}

func amsgradFast(c *float64, w, m, v, top, g *float32, n int) int {
	switch active {
	case avx512:
		amsgradAVX512(c, w, m, v, top, g, n)
		return n
	case avx2:
		amsgradAVX2(c, w, m, v, top, g, n)
		return n &^ 3
	default:
		return 0
	}
}

func ftrlFast(c *float64, w, z, sum, g *float32, n int) int {
	switch active {
	case avx512:
		ftrlAVX512(c, w, z, sum, g, n)
		return n
	case avx2:
		ftrlAVX2(c, w, z, sum, g, n)
		return n &^ 3
	default:
		return 0
	}
}

func sumSquaresFast(decay float64, sums *float64, w, g *float32, n int) int {
	switch active {
	case avx512:
		sumSquaresAVX512(&decay, sums, w, g, n)
		return n
	case avx2:
		sumSquaresAVX2(&decay, sums, w, g, n)
		return n &^ 7
	default:
		return 0
	}
}

func adamNormsFast(c *adamNormsCoeffs, sums *float64, w, m, v, g *float32, n int) int {
	switch active {
	case avx512:
		adamNormsAVX512(&c.Size, sums, w, m, v, g, n)
		return n
	case avx2:
		adamNormsAVX2(&c.Size, sums, w, m, v, g, n)
		return n &^ 7
	default:
		return 0
	}
}

func dotFast(a, b []float32) (float32, bool) {
	x, y := unsafe.SliceData(a), unsafe.SliceData(b)
	switch active {
	case avx512:
		return dotAVX512(x, y, len(a)), true
	case avx2:
		return dotAVX2(x, y, len(a)), true
	default:
		return 0, false
	}
}

// finiteFast is how many elements it has seen to be finite.
func finiteFast(x *float32, n int) int {
	switch active {
	case avx512:
		return finiteAVX512(x, n)
	case avx2:
		return finiteAVX2(x, n)
	default:
		return 0
	}
}

// gatherRowsFast says whether it took the rows, of which there is one at least.
func gatherRowsFast(dst *float32, rows **float32, n, dim int) bool {
	switch {
	case active == avx512:
		gatherRowsAVX512(dst, rows, n, dim)
	case active == avx2 && dim&3 == 0:
		gatherRowsAVX2(dst, rows, n, dim)
	default:
		return false
	}
	return true
}

// tileShape is the part of a product that gemmTile makes; 0 rows if there is no kernel.
func tileShape() (rows, cols int) {
	switch active {
	case avx512:
		return 8, 32
	case avx2:
		return 6, 16
	default:
		return 0, 0
	}
}

func gemmTile(k int, a *float32, row, col int, panel, c *float32, ldc int, accumulate bool) {
	if active == avx512 {
		gemmTileAVX512(k, a, row, col, panel, c, ldc, accumulate)
	} else {
		gemmTileAVX2(k, a, row, col, panel, c, ldc, accumulate)
	}
}

func transpose8(dst *float32, ldd int, src *float32, lds int) { transpose8AVX2(dst, ldd, src, lds) }
