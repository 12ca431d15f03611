package vec

import "unsafe"

// detect: every arm64 CPU has NEON.
func detect() unit { return neon }

//go:noescape
func addNEON(dst, src *float32, n int)

//go:noescape
func scaleNEON(dst *float32, k float32, n int)

//go:noescape
func axpyNEON(dst *float32, k float32, src *float32, n int)

//go:noescape
func dotNEON(lanes, a, b *float32, n int)

func addFast(dst, src *float32, n int) int {
	if active != neon {
		return 0
	}
	addNEON(dst, src, n)
	return n &^ 3
}

func scaleFast(dst *float32, k float32, n int) int {
	if active != neon {
		return 0
	}
	scaleNEON(dst, k, n)
	return n &^ 3
}

func axpyFast(dst *float32, k float32, src *float32, n int) int {
	if active != neon {
		return 0
	}
	axpyNEON(dst, k, src, n)
	return n &^ 3
}

func dotFast(a, b []float32) (float32, bool) {
	if active != neon {
		return 0, false
	}
	var lanes [dotLanes]float32
	dotNEON(&lanes[0], unsafe.SliceData(a), unsafe.SliceData(b), len(a))
	done := len(a) &^ (dotLanes - 1)
	return dotRest(&lanes, a[done:], b[done:]), true
}
