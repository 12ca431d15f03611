package vec

// As in fast_amd64.go, the functions below return how many elements a kernel took.

func encodeF16Fast(dst *byte, src *float32, n int) int {
	switch active {
	case avx512:
		encodeF16AVX512(dst, src, n)
		return n
	case avx2:
		encodeF16AVX2(dst, src, n)
		return n &^ 7
	default:
		return 0
	}
}

func decodeF16Fast(dst *float32, src *byte, n int) int {
	switch active {
	case avx512:
		decodeF16AVX512(dst, src, n)
		return n
	case avx2:
		decodeF16AVX2(dst, src, n)
		return n &^ 7
	default:
		return 0
	}
}

func addF16Fast(dst *float32, src *byte, n int) int {
	switch active {
	case avx512:
		addF16AVX512(dst, src, n)
		return n
	case avx2:
		addF16AVX2(dst, src, n)
		return n &^ 7
	default:
		return 0
	}
}

func encodeBF16Fast(dst *byte, src *float32, n int) int {
	switch active {
	case avx512:
		encodeBF16AVX512(dst, src, n)
		return n
	case avx2:
		encodeBF16AVX2(dst, src, n)
		return n &^ 7
	default:
		return 0
	}
}

func decodeBF16Fast(dst *float32, src *byte, n int) int {
	switch active {
	case avx512:
		decodeBF16AVX512(dst, src, n)
		return n
	case avx2:
		decodeBF16AVX2(dst, src, n)
		return n &^ 7
	default:
		return 0
	}
}

func addBF16Fast(dst *float32, src *byte, n int) int {
	switch active {
	case avx512:
		addBF16AVX512(dst, src, n)
		return n
	case avx2:
		addBF16AVX2(dst, src, n)
		return n &^ 7
	default:
		return 0
	}
}

func maxAbsFast(x *float32, n int) (top uint32, done int) {
	switch active {
	case avx512:
		return maxAbsAVX512(x, n), n
	case avx2:
		return maxAbsAVX2(x, n), n &^ 7
	default:
		return 0, 0
	}
}

func absSumFast(x *float32, n int) (sum float32, ok bool) {
	switch active {
	case avx512:
		return absSumAVX512(x, n), true
	case avx2:
		return absSumAVX2(x, n), true
	default:
		return 0, false
	}
}

func addAbsSumFast(sums, dst, src *float32, n int) int {
	switch active {
	case avx512:
		addAbsSumAVX512(sums, dst, src, n)
		return n &^ 31
	case avx2:
		addAbsSumAVX2(sums, dst, src, n)
		return n &^ 31
	default:
		return 0
	}
}

func absSumAboveFast(x *float32, t uint32, n int) (sum float32, count int, ok bool) {
	switch active {
	case avx512:
		sum, count = absSumAboveAVX512(x, t, n)
		return sum, count, true
	case avx2:
		sum, count = absSumAboveAVX2(x, t, n)
		return sum, count, true
	default:
		return 0, 0, false
	}
}

func selectAbsFast(index *uint32, room int, x *float32, t uint32, n int) (found, seen int) {
	switch active {
	case avx512:
		return selectAbsAVX512(index, room, x, t, n)
	case avx2:
		return selectAbsAVX2(index, room, x, t, n)
	default:
		return 0, 0
	}
}

func packSignsFast(dst *byte, x *float32, n int) int {
	switch active {
	case avx512:
		packSignsAVX512(dst, x, n)
		return n &^ 15
	case avx2:
		packSignsAVX2(dst, x, n)
		return n &^ 7
	default:
		return 0
	}
}

func packSignsRestFast(dst *byte, x *float32, scale float32, n int) int {
	switch active {
	case avx512:
		packSignsRestAVX512(dst, x, scale, n)
		return n &^ 15
	case avx2:
		packSignsRestAVX2(dst, x, scale, n)
		return n &^ 7
	default:
		return 0
	}
}

func unpackSignsFast(dst *float32, src *byte, scale float32, n int) int {
	switch active {
	case avx512:
		unpackSignsAVX512(dst, src, scale, n)
		return n &^ 15
	case avx2:
		unpackSignsAVX2(dst, src, scale, n)
		return n &^ 7
	default:
		return 0
	}
}

func addSignsFast(dst *float32, src *byte, scale float32, n int) int {
	switch active {
	case avx512:
		addSignsAVX512(dst, src, scale, n)
		return n &^ 15
	case avx2:
		addSignsAVX2(dst, src, scale, n)
		return n &^ 7
	default:
		return 0
	}
}

func packTwoBitFast(some, neg *byte, x *float32, t uint32, n int) int {
	switch active {
	case avx512:
		packTwoBitAVX512(some, neg, x, t, n)
		return n &^ 15
	case avx2:
		packTwoBitAVX2(some, neg, x, t, n)
		return n &^ 7
	default:
		return 0
	}
}

func packTwoBitRestFast(some, neg *byte, x *float32, t uint32, level float32, n int) int {
	switch active {
	case avx512:
		packTwoBitRestAVX512(some, neg, x, t, level, n)
		return n &^ 15
	case avx2:
		packTwoBitRestAVX2(some, neg, x, t, level, n)
		return n &^ 7
	default:
		return 0
	}
}

func unpackTwoBitFast(dst *float32, some, neg *byte, level float32, n int) int {
	switch active {
	case avx512:
		unpackTwoBitAVX512(dst, some, neg, level, n)
		return n &^ 15
	case avx2:
		unpackTwoBitAVX2(dst, some, neg, level, n)
		return n &^ 7
	default:
		return 0
	}
}

func addTwoBitFast(dst *float32, some, neg *byte, level float32, n int) int {
	switch active {
	case avx512:
		addTwoBitAVX512(dst, some, neg, level, n)
		return n &^ 15
	case avx2:
		addTwoBitAVX2(dst, some, neg, level, n)
		return n &^ 7
	default:
		return 0
	}
}

// encodeInt8Fast is how many blocks it took, of which there is one at least.
func encodeInt8Fast(dst *byte, x *float32, blocks, block int) int {
	switch {
	case active == avx512:
		encodeInt8AVX512(dst, x, blocks, block)
	case active == avx2 && block&7 == 0:
		encodeInt8AVX2(dst, x, blocks, block)
	default:
		return 0
	}
	return blocks
}

// encodeInt8RestFast is how many blocks it took, of which there is one at least.
func encodeInt8RestFast(dst *byte, x *float32, blocks, block int) int {
	switch {
	case active == avx512:
		encodeInt8RestAVX512(dst, x, blocks, block)
	case active == avx2 && block&7 == 0:
		encodeInt8RestAVX2(dst, x, blocks, block)
	default:
		return 0
	}
	return blocks
}

// decodeInt8Fast is how many blocks it took, of which there is one at least.
func decodeInt8Fast(dst *float32, src *byte, blocks, block int) int {
	switch {
	case active == avx512:
		decodeInt8AVX512(dst, src, blocks, block)
	case active == avx2 && block&7 == 0:
		decodeInt8AVX2(dst, src, blocks, block)
	default:
		return 0
	}
	return blocks
}

// addInt8Fast is how many blocks it took, of which there is one at least.
func addInt8Fast(dst *float32, src *byte, blocks, block int) int {
	switch {
	case active == avx512:
		addInt8AVX512(dst, src, blocks, block)
	case active == avx2 && block&7 == 0:
		addInt8AVX2(dst, src, blocks, block)
	default:
		return 0
	}
	return blocks
}
