package vec

import (
	"fmt"
	"math"
	"testing"
)

// benchSizes are bytes of one slice: in the second cache, in the third, in memory.
func benchSizes() []int { return []int{64 << 10, 1 << 20, 64 << 20} }

// benchCoeffs are those of a rule with its defaults, by kernel.
func benchCoeffs(k kernel) []float64 {
	switch k.name {
	case "rms":
		return []float64{0.05, 1, 1, 1e-10, 0}
	case "adam", "amsgrad":
		return []float64{0.001, 1, 1e-8, 0.9, 0.999, 0, 1}
	case "adamNorms":
		return []float64{0.001, 1, 1e-8, 0.9, 0.999, 0, 1, 0.01}
	case "ftrl":
		return []float64{1, 10, 1, 0.1, 0.1}
	case "momentum", "nesterov":
		return []float64{0.01, 0.9, 0}
	case "scale":
		return []float64{0.999999}
	case "absSumAbove", "packTwoBit":
		return []float64{0.05}
	case "packTwoBitRest":
		return []float64{0.05, 0.07}
	case "selectAbs":
		return []float64{0.0975, unspoilt} // one of 89
	case "encodeInt8", "encodeInt8Rest", "decodeInt8", "addInt8":
		return []float64{31} // blocks of 256
	case "axpy":
		return []float64{1e-6}
	}
	return []float64{0.01, 0.001}[:k.coeffs]
}

// benchSlices are filled with small numbers, none of them special.
func benchSlices(n, count int) [][]float32 {
	s := make([][]float32, count)
	for i := range s {
		s[i] = make([]float32, n)
		for j := range s[i] {
			s[i][j] = 0.01 + 0.001*float32((i*31+j)%89)
		}
	}
	return s
}

// touched is how many bytes a call reads and writes.
func (k kernel) touched(n int) int64 {
	if bytes := codecTouched(k.name, n); bytes > 0 {
		return int64(bytes)
	}
	reads, writes := k.slices, k.slices-1
	switch k.name {
	case "add", "axpy", "scale":
		writes = 1
	case "dot", "nonFinite", "sumSquares", "adamNorms":
		writes = 0
	}
	return int64(4 * n * (reads + writes))
}

// BenchmarkKernels runs every kernel in every unit: MB/s count all bytes read and written.
func BenchmarkKernels(b *testing.B) {
	for _, k := range allKernels() {
		for _, size := range benchSizes() {
			in := benchSlices(size/4, k.slices)
			c := benchCoeffs(k)
			for _, u := range units() {
				b.Run(fmt.Sprintf("%s/%dKiB/%s", k.name, size>>10, u), func(b *testing.B) {
					b.SetBytes(k.touched(size / 4))
					with(b, u, func() {
						for b.Loop() {
							k.run(c, in)
						}
					})
				})
			}
		}
	}
}

// deepShapes are the layers of a deep model, batch 256: rows of a, columns of a, columns of b.
func deepShapes() [][3]int {
	return [][3]int{{256, 429, 256}, {256, 256, 128}, {256, 128, 64}, {1024, 429, 256}, {512, 512, 512}}
}

// BenchmarkGemm reports GFLOP/s of every form and unit.
func BenchmarkGemm(b *testing.B) {
	for _, s := range deepShapes() {
		m, k, n := s[0], s[1], s[2]
		in := benchSlices(max(m*k, k*n, m*n), 3)
		for _, p := range products() {
			for _, u := range units() {
				b.Run(fmt.Sprintf("%dx%dx%d/%s/%s", m, k, n, p.name, u), func(b *testing.B) {
					with(b, u, func() {
						for b.Loop() {
							p.run(in[0], in[1], in[2], m, k, n, false)
						}
					})
					b.ReportMetric(2*float64(m)*float64(k)*float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
					if math.IsNaN(float64(in[0][0])) {
						b.Fatal("not a number")
					}
				})
			}
		}
	}
}
