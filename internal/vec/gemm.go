package vec

// Gemm is the matrix product c = a x b, or c += a x b with accumulate, of row-major matrices: c is m x n, a is m x k, b is k x n.
func Gemm(c, a, b []float32, m, k, n int, accumulate bool) {
	gemm(c, operand{a[:m*k], k, 1}, operand{b[:k*n], n, 1}, m, k, n, accumulate)
}

// GemmTA is Gemm with the transpose of a, which is k x m.
func GemmTA(c, a, b []float32, m, k, n int, accumulate bool) {
	gemm(c, operand{a[:m*k], 1, m}, operand{b[:k*n], n, 1}, m, k, n, accumulate)
}

// GemmTB is Gemm with the transpose of b, which is n x k.
func GemmTB(c, a, b []float32, m, k, n int, accumulate bool) {
	gemm(c, operand{a[:m*k], k, 1}, operand{b[:k*n], 1, k}, m, k, n, accumulate)
}

// operand is a matrix whose element (i, j) is at i x row + j x col.
type operand struct {
	data     []float32
	row, col int
}

func gemm(c []float32, a, b operand, m, k, n int, accumulate bool) {
	c = c[:m*n]
	for i := range m {
		for j := range n {
			sum := float32(0)
			for l := range k {
				sum += float32(a.data[i*a.row+l*a.col] * b.data[l*b.row+j*b.col])
			}
			if accumulate {
				sum += c[i*n+j]
			}
			c[i*n+j] = sum
		}
	}
}
