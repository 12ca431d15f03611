// Package metric judges predictions against labels, the same bits in whatever
// order and by however many workers the rows were counted.
//
// Binary is for probabilities: log loss, AUC, the area under the
// precision-recall curve, calibration and accuracy. Regression is for numbers:
// RMSE and MAE. Grouped is for ranking: GAUC, hit rate, recall and NDCG by user
// or any other field. Each of a job's workers counts its rows; Append and Decode
// carry what was counted, and Merge adds it up exactly.
//
// The package starts no goroutine.
package metric

import (
	"math"
	"slices"
)

// certain is the distance from 0 and 1 to which LogLoss moves scores: one
// confident mistake costs 16, not infinity. It is the rounding step of float32
// at 1.
const certain = 1.0 / (1 << 23)

// Binary collects the scores of a binary classifier, 4 bytes a row. The zero
// value is empty and ready. It is for one goroutine at a time, also the methods
// that only return something: they sort.
type Binary struct {
	pos, neg []float32 // scores of the rows with label 1 and 0
	sorted   bool
}

// Add counts one row: score is the predicted probability of label 1, from 0 to
// 1; label is 0 or 1, what is above 0.5 being 1. AUC also takes scores of any
// other scale. A NaN among the scores makes LogLoss and AUC NaN.
func (b *Binary) Add(score, label float32) {
	if label > 0.5 {
		b.pos = append(b.pos, score)
	} else {
		b.neg = append(b.neg, score)
	}
	b.sorted = false
}

// Merge adds all that o has counted; o is not changed.
func (b *Binary) Merge(o *Binary) {
	b.pos = append(b.pos, o.pos...)
	b.neg = append(b.neg, o.neg...)
	b.sorted = false
}

// Rows returns the number of rows counted.
func (b *Binary) Rows() int { return len(b.pos) + len(b.neg) }

// LogLoss returns the mean of -ln of the probability given to the true label, in
// nats; NaN without rows.
func (b *Binary) LogLoss() float64 {
	b.sort()
	var sum float64
	for _, s := range b.pos {
		sum -= math.Log(clip(float64(s)))
	}
	for _, s := range b.neg {
		sum -= math.Log(clip(1 - float64(s)))
	}
	return sum / float64(b.Rows())
}

func clip(p float64) float64 { return min(max(p, certain), 1-certain) }

// AUC returns the area under the ROC curve: the share of the pairs of a row with
// label 1 and a row with label 0 in which the first has the higher score, a tie
// counting half (Mann and Whitney's U). It is exact; NaN when a label is absent.
func (b *Binary) AUC() float64 {
	b.sort()
	if b.hasNaN() {
		return math.NaN()
	}
	var twice uint64 // the pairs won, a tie being 1
	below, upTo := 0, 0
	for _, s := range b.pos {
		for below < len(b.neg) && b.neg[below] < s {
			below++
		}
		for upTo < len(b.neg) && b.neg[upTo] <= s {
			upTo++
		}
		twice += uint64(below + upTo)
	}
	return float64(twice) / 2 / (float64(len(b.pos)) * float64(len(b.neg)))
}

// Accuracy returns the share of rows whose score is on the label's side of 0.5;
// 0.5 itself says label 0. NaN without rows.
func (b *Binary) Accuracy() float64 {
	hits := 0
	for _, s := range b.pos {
		if s > 0.5 {
			hits++
		}
	}
	for _, s := range b.neg {
		if s <= 0.5 {
			hits++
		}
	}
	return float64(hits) / float64(b.Rows())
}

// PRAUC returns the area under the precision-recall curve as average precision:
// the sum over thresholds of the recall gained times the precision there, rows
// of one score being taken at once. NaN without a row of label 1.
func (b *Binary) PRAUC() float64 {
	b.sort()
	if b.hasNaN() {
		return math.NaN()
	}
	var area float64
	p, n := len(b.pos), len(b.neg) // rows below the threshold
	for p > 0 {
		s := b.pos[p-1]
		from := p
		for p > 0 && b.pos[p-1] == s {
			p--
		}
		for n > 0 && b.neg[n-1] >= s {
			n--
		}
		hits, taken := len(b.pos)-p, len(b.pos)-p+len(b.neg)-n
		area += float64(from-p) * float64(hits) / float64(taken)
	}
	return area / float64(len(b.pos))
}

// Calibration returns the mean score divided by the mean label: 1 where the
// model predicts as many rows of label 1 as there are; NaN or infinite without
// one.
func (b *Binary) Calibration() float64 {
	var sum exactSum
	for _, scores := range [][]float32{b.pos, b.neg} {
		for _, s := range scores {
			sum.add(float64(s))
		}
	}
	return sum.value() / float64(len(b.pos))
}

// sort puts the scores in an order that does not depend on that of the rows.
func (b *Binary) sort() {
	if !b.sorted {
		slices.Sort(b.pos)
		slices.Sort(b.neg)
		b.sorted = true
	}
}

// hasNaN looks where sort puts NaN: first.
func (b *Binary) hasNaN() bool {
	nan := func(s []float32) bool { return len(s) > 0 && s[0] != s[0] }
	return nan(b.pos) || nan(b.neg)
}
