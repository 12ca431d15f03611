package dataset

import (
	"math"
	"slices"
)

// fitColumns is how many features are fitted in one pass over the sample: it
// bounds the memory for their values, 25 MiB.
const fitColumns = 32

// fit completes the numeric features of the schema from the sample.
func (p *plan) fit() error {
	var open []*Feature
	for i := range p.schema.Features {
		if f := &p.schema.Features[i]; f.fits() {
			open = append(open, f)
		}
	}
	for group := range slices.Chunk(open, fitColumns) {
		if err := p.fitGroup(group); err != nil {
			return err
		}
	}
	return nil
}

func (p *plan) fitGroup(group []*Feature) error {
	slots := make([]slot, len(group))
	values := make([][]float64, len(group))
	for i, f := range group {
		var err error
		if slots[i], err = newSlot(p.schema, f, p.columns); err != nil {
			return err
		}
	}
	err := p.sample(func(rec *record) *RowError {
		for i := range slots {
			v := slots[i].value(rec)
			if len(v) == 0 {
				continue
			}
			x, want := parseFloat(v)
			if want != "" {
				return slots[i].bad(rec, v, want)
			}
			values[i] = append(values[i], x)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, f := range group {
		f.Fit = &Fit{}
		if f.transform() == TransformQuantile {
			n := f.Buckets
			if n == 0 {
				n = defaultBuckets
			}
			f.Fit.Edges = quantiles(values[i], n)
		} else {
			f.Fit.Mean, f.Fit.Deviation = moments(values[i])
		}
	}
	return nil
}

// quantiles returns the borders of at most n buckets that have about the same
// number of values each. A value too frequent for that has a bucket of its own,
// and the others share what is left. It sorts values.
func quantiles(values []float64, n int) []float64 {
	slices.Sort(values)
	var edges []float64
	fill, left, buckets := 0, len(values), n // values in the open bucket; values and buckets from it on
	for i := 0; i < len(values); {
		j := i + 1
		for j < len(values) && values[j] == values[i] {
			j++
		}
		target := float64(left) / float64(max(buckets, 1))
		// A new bucket begins here if the open one is full, or if it would be
		// fuller than it may be and closer to full without this value.
		over := float64(fill+j-i) - target
		if fill > 0 && buckets > 1 && (float64(fill) >= target || over > target-float64(fill)) {
			edges = append(edges, values[i])
			left -= fill
			buckets--
			fill = 0
		}
		fill += j - i
		i = j
	}
	return edges
}

// moments returns mean and standard deviation; of a constant, or of nothing,
// the deviation is 1.
func moments(values []float64) (mean, deviation float64) {
	if len(values) == 0 {
		return 0, 1
	}
	for _, v := range values {
		mean += v / float64(len(values))
	}
	var sum float64
	for _, v := range values {
		sum += (v - mean) * (v - mean)
	}
	deviation = math.Sqrt(sum / float64(len(values)))
	if !(deviation > 0) || math.IsInf(deviation, 0) {
		deviation = 1
	}
	return mean, deviation
}
