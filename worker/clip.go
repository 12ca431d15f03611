package worker

import (
	"fmt"
	"math"
)

// Clip bounds the gradient of a step before it is pushed: this worker's own mean
// over its rows (its sum under Config.Sum), of all tables together. Value comes
// first. Infinities and NaN are left to the tables' policies.
type Clip struct {
	Value float64 // each element is moved to within [-Value, Value]; 0: no bound
	Norm  float64 // the whole is scaled down to this Euclidean norm; 0: no bound
}

func (p Clip) validate() error {
	bad := func(v float64) bool { return !(v >= 0) || math.IsInf(v, 0) }
	if bad(p.Value) || bad(p.Norm) {
		return fmt.Errorf("clip value %v, norm %v: want 0 or more", p.Value, p.Norm)
	}
	return nil
}

// apply clips sums of gradients over rows.
func (p Clip) apply(grads []Gradient, rows int) {
	if rows == 0 {
		return
	}
	if p.Value > 0 {
		limit := float32(p.Value * float64(rows))
		for _, g := range grads {
			bound(g.Values, limit)
		}
	}
	if p.Norm <= 0 {
		return
	}
	var squares float64
	for _, g := range grads {
		for _, v := range g.Values {
			squares += float64(v) * float64(v)
		}
	}
	norm := math.Sqrt(squares) / float64(rows)
	if !(norm > p.Norm) || math.IsInf(norm, 0) {
		return
	}
	scale := float32(p.Norm / norm)
	for _, g := range grads {
		for i := range g.Values {
			g.Values[i] *= scale
		}
	}
}

// bound moves finite values to within [-limit, limit].
func bound(values []float32, limit float32) {
	for i, v := range values {
		switch {
		case v > limit && v <= math.MaxFloat32:
			values[i] = limit
		case v < -limit && v >= -math.MaxFloat32:
			values[i] = -limit
		}
	}
}
