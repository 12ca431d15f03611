package vec

import (
	"math"
	"unsafe"
)

// normLanes is the number of partial sums of a norm.
const normLanes = 8

// lanes are partial sums in float64: element i of a row is added to sum i mod 8, in ascending order.
type lanes [normLanes]float64

// fold adds the upper half of the sums to the lower until one is left.
func (l *lanes) fold() float64 {
	return ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]))
}

// SumSquares is the sum of the squares of g + decay x w, in float64, in eight partial sums that are folded by halves. len(w) must be at least len(g).
func SumSquares(decay float64, w, g []float32) float64 {
	n := len(g)
	w = w[:n]
	var sums lanes
	done := sumSquaresFast(decay, &sums[0], unsafe.SliceData(w), unsafe.SliceData(g), n)
	if done < n {
		sumSquaresPlain(decay, &sums, w[done:], g[done:])
	}
	return sums.fold()
}

func sumSquaresPlain(decay float64, sums *lanes, w, g []float32) {
	w = w[:len(g)]
	for i, g32 := range g {
		grad := float64(g32) + float64(decay*float64(w[i]))
		sums[i%normLanes] += float64(grad * grad)
	}
}

// adamNormsCoeffs are in the order the kernel reads them.
type adamNormsCoeffs struct {
	Adam
	apart float64
}

// Norms is the sum of the squares of w and that of the update that Update would make of it, Size x m / (sqrt(v) x Corr
// + Eps) + decay x w, with the moments after the gradient. It changes nothing. Order and precision are those of
// SumSquares.
func (p *Adam) Norms(decay float64, w, m, v, g []float32) (weights, update float64) {
	n := len(g)
	w, m, v = w[:n], m[:n], v[:n]
	var sums [2]lanes
	c := adamNormsCoeffs{*p, decay}
	done := adamNormsFast(&c, &sums[0][0], unsafe.SliceData(w), unsafe.SliceData(m), unsafe.SliceData(v), unsafe.SliceData(g), n)
	if done < n {
		p.normsPlain(decay, &sums, w[done:], m[done:], v[done:], g[done:])
	}
	return sums[0].fold(), sums[1].fold()
}

func (p *Adam) normsPlain(decay float64, sums *[2]lanes, w, m, v, g []float32) {
	w, m, v = w[:len(g)], m[:len(g)], v[:len(g)]
	c := *p
	for i, g32 := range g {
		old := float64(w[i])
		first, second := c.moments(old, m[i], v[i], g32)
		u := float64(c.Size*first)/(float64(math.Sqrt(second)*c.Corr)+c.Eps) + float64(decay*old)
		sums[0][i%normLanes] += float64(old * old)
		sums[1][i%normLanes] += float64(u * u)
	}
}
