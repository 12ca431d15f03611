package metric

import "math"

// Regression collects the errors of predicted numbers, in memory that does not
// grow with the rows. The zero value is empty and ready. It is for one goroutine
// at a time.
type Regression struct {
	rows    uint64
	squares exactSum
	sizes   exactSum
}

// Add counts one row.
func (r *Regression) Add(score, label float32) {
	e := float64(score) - float64(label)
	r.rows++
	r.squares.add(e * e)
	r.sizes.add(math.Abs(e))
}

// Merge adds all that o has counted; o is not changed.
func (r *Regression) Merge(o *Regression) {
	r.rows += o.rows
	r.squares.merge(&o.squares)
	r.sizes.merge(&o.sizes)
}

// Rows returns the number of rows counted.
func (r *Regression) Rows() int { return int(r.rows) }

// RMSE returns the root of the mean squared error; NaN without rows.
func (r *Regression) RMSE() float64 { return math.Sqrt(r.squares.value() / float64(r.rows)) }

// MAE returns the mean of the absolute error; NaN without rows.
func (r *Regression) MAE() float64 { return r.sizes.value() / float64(r.rows) }
