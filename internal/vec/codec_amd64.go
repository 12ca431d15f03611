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
