package metric

import (
	"cmp"
	"math"
	"slices"
)

// Grouped collects scores with the group each row belongs to, a user for
// instance: 16 bytes a row. Groups are judged one by one and averaged. Rows of
// one score have no order among them: a metric is its mean over all orders. The
// zero value is empty and ready. It is for one goroutine at a time, also the
// methods that only return something: they sort.
type Grouped struct {
	rows   []groupedRow
	sorted bool
}

type groupedRow struct {
	group        uint64
	score, label float32
}

// Add counts one row: of two rows, the one with the higher score is ranked
// first. A label above 0.5 makes the row a positive one; NDCG takes it as the
// gain. A NaN among the scores makes all metrics NaN.
func (g *Grouped) Add(group uint64, score, label float32) {
	g.rows = append(g.rows, groupedRow{group, score, label})
	g.sorted = false
}

// Merge adds all that o has counted; o is not changed.
func (g *Grouped) Merge(o *Grouped) {
	g.rows = append(g.rows, o.rows...)
	g.sorted = false
}

// Rows returns the number of rows counted.
func (g *Grouped) Rows() int { return len(g.rows) }

// GAUC returns the mean AUC of the groups that have both labels, weighted by
// their rows (Zhu and others: Optimized cost per click in Taobao display
// advertising, 2017). NaN without such a group.
func (g *Grouped) GAUC() float64 {
	var sum, weight float64
	g.each(func(rows []groupedRow) {
		pos := positives(rows)
		if pos == 0 || pos == len(rows) {
			return
		}
		twice, above := 0, 0 // pairs won, a tie being 1; positives so far
		ties(rows, func(tie []groupedRow) {
			p := positives(tie)
			twice += (len(tie) - p) * (2*above + p)
			above += p
		})
		auc := float64(twice) / 2 / (float64(pos) * float64(len(rows)-pos))
		sum += float64(len(rows)) * auc
		weight += float64(len(rows))
	})
	return g.mean(sum, weight)
}

// HitRate returns the share of groups with a positive row that have one among
// their first k.
func (g *Grouped) HitRate(k int) float64 {
	return g.average(func(rows []groupedRow, _ int) float64 {
		miss, rank := 1.0, 0
		ties(rows, func(tie []groupedRow) {
			miss *= missChance(len(tie), positives(tie), min(max(k-rank, 0), len(tie)))
			rank += len(tie)
		})
		return 1 - miss
	})
}

// missChance is the chance that r of n rows, drawn without order, hold none of
// the p positive ones.
func missChance(n, p, r int) float64 {
	miss := 1.0
	for i := range r {
		miss *= float64(max(n-p-i, 0)) / float64(n-i)
	}
	return miss
}

// Recall returns the mean, over groups with a positive row, of the share of
// these that are among the first k rows.
func (g *Grouped) Recall(k int) float64 {
	return g.average(func(rows []groupedRow, pos int) float64 {
		hits, rank := 0.0, 0
		ties(rows, func(tie []groupedRow) {
			in := min(max(k-rank, 0), len(tie))
			hits += float64(positives(tie)) * float64(in) / float64(len(tie))
			rank += len(tie)
		})
		return hits / float64(pos)
	})
}

// NDCG returns the mean, over groups with a positive row, of the normalized
// discounted cumulative gain of their first k rows: a row of rank i from 0 gains
// label / log2(i+2), and the best order of the group would gain 1 (Järvelin and
// Kekäläinen, 2002; ties as in McSherry and Najork, 2008).
func (g *Grouped) NDCG(k int) float64 {
	var best []float32
	return g.average(func(rows []groupedRow, _ int) float64 {
		best = best[:0]
		gain, rank := 0.0, 0
		ties(rows, func(tie []groupedRow) {
			labels, discounts := 0.0, 0.0
			for i, r := range tie {
				labels += float64(r.label)
				discounts += discount(rank+i, k)
				best = append(best, r.label)
			}
			gain += labels / float64(len(tie)) * discounts
			rank += len(tie)
		})
		slices.SortFunc(best, func(a, b float32) int { return cmp.Compare(b, a) })
		ideal := 0.0
		for i, l := range best[:min(max(k, 0), len(best))] {
			ideal += float64(l) * discount(i, k)
		}
		if ideal == 0 {
			return 0
		}
		return gain / ideal
	})
}

func discount(rank, k int) float64 {
	if rank >= k {
		return 0
	}
	return 1 / math.Log2(float64(rank)+2)
}

// average is the mean of a metric over the groups with a positive row; NaN
// without one.
func (g *Grouped) average(of func(rows []groupedRow, pos int) float64) float64 {
	var sum, groups float64
	g.each(func(rows []groupedRow) {
		if pos := positives(rows); pos > 0 {
			sum += of(rows, pos)
			groups++
		}
	})
	return g.mean(sum, groups)
}

func (g *Grouped) mean(sum, weight float64) float64 {
	if slices.ContainsFunc(g.rows, func(r groupedRow) bool { return r.score != r.score }) {
		return math.NaN()
	}
	return sum / weight
}

// each calls f with the rows of each group, in the order of groups, the best
// score first.
func (g *Grouped) each(f func(rows []groupedRow)) {
	if !g.sorted {
		slices.SortFunc(g.rows, func(a, b groupedRow) int {
			return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(b.score, a.score), cmp.Compare(b.label, a.label))
		})
		g.sorted = true
	}
	for at := 0; at < len(g.rows); {
		to := at + 1
		for to < len(g.rows) && g.rows[to].group == g.rows[at].group {
			to++
		}
		f(g.rows[at:to])
		at = to
	}
}

// ties calls f with the rows of each score, the best first.
func ties(rows []groupedRow, f func(tie []groupedRow)) {
	for at := 0; at < len(rows); {
		to := at + 1
		for to < len(rows) && rows[to].score == rows[at].score {
			to++
		}
		f(rows[at:to])
		at = to
	}
}

func positives(rows []groupedRow) int {
	n := 0
	for _, r := range rows {
		if r.label > 0.5 {
			n++
		}
	}
	return n
}
