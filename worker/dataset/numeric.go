package dataset

import "math"

// numeric appends a number, or the number of its bucket as an id. The bucket
// behind the last is that of missing values.
func (s *slot) numeric(rec *record, v []byte, dst *rows) *RowError {
	x, missing := 0.0, len(v) == 0
	if !missing {
		var want string
		if x, want = parseFloat(v); want != "" {
			return s.bad(rec, v, want)
		}
	}
	switch t := s.f.transform(); {
	case !s.f.ragged():
		y := float32(0)
		if !missing {
			y = float32(transform(t, x, s.f.Fit))
		}
		if math.IsInf(float64(y), 0) {
			return s.bad(rec, v, wantFinite)
		}
		dst.numeric = append(dst.numeric, y)
		return nil
	case !missing:
		dst.add(uint64(bucket(s.edges, x)), 1)
	case s.missed == MissingOwn:
		dst.add(uint64(len(s.edges))+1, 1)
	}
	dst.endBag()
	return nil
}

// bucket is how many of the rising edges are at most x.
func bucket(edges []float64, x float64) int {
	lo, hi := 0, len(edges)
	for lo < hi {
		mid := (lo + hi) / 2
		if edges[mid] <= x {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

func transform(t string, x float64, fit *Fit) float64 {
	switch {
	case t == TransformLog:
		return math.Copysign(math.Log1p(math.Abs(x)), x)
	case t == TransformStandard && fit != nil:
		return (x - fit.Mean) / fit.Deviation
	}
	return x
}
