package collective

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Sample is a measured AllReduce.
type Sample struct {
	Algorithm Algorithm
	Bytes     int
	Seconds   float64
}

// Fit finds the link with which the cost model comes closest to samples of AllReduce between ranks of one level: the sum of the squares of relative errors
// is least. What the samples do not determine, such as the split between transfer and reduction where only their sum is seen, is as good one way as another.
func Fit(ranks int, samples []Sample) (Link, error) {
	if ranks < 2 || len(samples) == 0 {
		return Link{}, fmt.Errorf("fit %d samples of %d ranks: want some, and 2 ranks or more", len(samples), ranks)
	}
	best, least := Link{}, math.Inf(1)
	for ports := 1; ports < ranks; ports++ {
		l, err := fitPorts(ranks, ports, samples)
		if err != nil {
			return Link{}, err
		}
		if e := misfit(l, ranks, samples); e < least*(1-1e-9) {
			best, least = l, e
		}
	}
	if math.IsInf(least, 1) {
		return Link{}, errors.New("fit samples: no link comes near them")
	}
	return best, nil
}

// Predict is the seconds of an AllReduce by an algorithm between ranks that such links connect.
func (l Link) Predict(a Algorithm, ranks, bytes int) float64 {
	return cost(l, work{op: AllReduce, n: bytes, ranks: ranks}, a)
}

// misfit is the sum of the squares of relative errors.
func misfit(l Link, ranks int, samples []Sample) (sum float64) {
	for _, s := range samples {
		e := l.Predict(s.Algorithm, ranks, s.Bytes)/s.Seconds - 1
		sum += e * e
	}
	return sum
}

// fitPorts fits alpha, beta and gamma, in which the model is linear. None is negative: of all subsets of them the best is taken.
func fitPorts(ranks, ports int, samples []Sample) (Link, error) {
	unit := [3]Link{
		{Alpha: time.Second, Bandwidth: math.Inf(1), Reduce: math.Inf(1), Ports: ports},
		{Bandwidth: 1, Reduce: math.Inf(1), Ports: ports},
		{Bandwidth: math.Inf(1), Reduce: 1, Ports: ports},
	}
	var rows [][3]float64 // of the model, relative to the sample
	for _, s := range samples {
		var row [3]float64
		for i, l := range unit {
			if row[i] = l.Predict(s.Algorithm, ranks, s.Bytes) / s.Seconds; math.IsInf(row[i], 0) || math.IsNaN(row[i]) || !(s.Seconds > 0) {
				return Link{}, fmt.Errorf("fit %v of %d bytes in %v s: the model has no such", s.Algorithm, s.Bytes, s.Seconds)
			}
		}
		rows = append(rows, row)
	}
	best, least := Link{}, math.Inf(1)
	for subset := 1; subset < 8; subset++ {
		x, ok := leastSquares(rows, subset)
		if !ok {
			continue
		}
		l := Link{Alpha: time.Duration(x[0] * float64(time.Second)), Bandwidth: 1 / max(x[1], 1e-18), Reduce: 1 / max(x[2], 1e-18), Ports: ports}
		if e := misfit(l, ranks, samples); e < least*(1-1e-9) {
			best, least = l, e
		}
	}
	return best, nil
}

// leastSquares makes the rows times x as close to one as can be with only those of x that are in a subset. It fails where one of them would be negative, or
// is not determined.
func leastSquares(rows [][3]float64, subset int) (x [3]float64, ok bool) {
	var m [3][4]float64 // normal equations, with a one on the diagonal for what is left out
	for i := range 3 {
		if subset>>i&1 == 0 {
			m[i][i] = 1
			continue
		}
		for _, r := range rows {
			for j := range 3 {
				if subset>>j&1 == 1 {
					m[i][j] += r[i] * r[j]
				}
			}
			m[i][3] += r[i]
		}
	}
	for i := range 3 { // Gauss without pivots: the matrix is positive definite where it has a solution
		if !(m[i][i] > 0) {
			return x, false
		}
		for k := i + 1; k < 3; k++ {
			f := m[k][i] / m[i][i]
			for j := i; j < 4; j++ {
				m[k][j] -= f * m[i][j]
			}
			if subset>>k&1 == 1 && m[k][k] <= 1e-12*math.Abs(f*m[i][k]) {
				return x, false // two columns are the same
			}
		}
	}
	for i := 2; i >= 0; i-- {
		x[i] = m[i][3]
		for j := i + 1; j < 3; j++ {
			x[i] -= m[i][j] * x[j]
		}
		if x[i] /= m[i][i]; x[i] < 0 {
			return x, false
		}
	}
	return x, true
}

// RuleOfThumb is what articles advise without measuring: a ring for small messages, a mesh for large ones, and halving and doubling where nobody is at
// the centre. It is here to be compared with.
func RuleOfThumb(bytes int, decentralized bool) Algorithm {
	const large = 16 << 20
	switch {
	case decentralized:
		return HalvingDoubling
	case bytes < large:
		return Ring
	default:
		return Mesh
	}
}
