package metric

import (
	"math"
	"slices"
)

// exactSum adds float64 values without rounding, so that its value does not
// depend on their order or on how they were grouped: Shewchuk, Adaptive
// precision floating-point arithmetic, 1997. The zero value is 0.
type exactSum struct {
	parts   []float64 // of rising magnitude, no two overlapping; their sum is exact
	special float64   // sum of the infinities and NaN among the values
}

// add adds x. The partial sums must stay finite, which those of errors of
// float32 do.
func (s *exactSum) add(x float64) {
	if x-x != 0 {
		s.special += x
		return
	}
	n := 0
	for _, y := range s.parts {
		if math.Abs(x) < math.Abs(y) {
			x, y = y, x
		}
		hi := x + y
		if lo := y - (hi - x); lo != 0 {
			s.parts[n] = lo
			n++
		}
		x = hi
	}
	s.parts = append(s.parts[:n], x)
}

// merge adds all of o, which is not changed.
func (s *exactSum) merge(o *exactSum) {
	s.special += o.special
	for _, x := range slices.Clone(o.parts) {
		s.add(x)
	}
}

// value is the sum, correctly rounded.
func (s *exactSum) value() float64 {
	if s.special != 0 {
		return s.special
	}
	i := len(s.parts) - 1
	if i < 0 {
		return 0
	}
	hi, lo := s.parts[i], 0.0
	for i--; i >= 0; i-- {
		x, y := hi, s.parts[i]
		hi = x + y
		if lo = y - (hi - x); lo != 0 {
			break
		}
	}
	// Half way between two numbers, what lies below decides.
	if i > 0 && (lo < 0 && s.parts[i-1] < 0 || lo > 0 && s.parts[i-1] > 0) {
		y := lo * 2
		if x := hi + y; y == x-hi {
			hi = x
		}
	}
	return hi
}
