// Package metric judges predictions against labels: log loss, AUC and accuracy
// of a binary classifier, exact and mergeable over workers.
package metric

// Binary collects the scores of a binary classifier. The zero value is empty
// and ready. It is for one goroutine at a time.
type Binary struct {
	pos, neg []float32
	loss     float64
	hits     int
}

// Add counts one row: score is the predicted probability of label 1, in [0, 1];
// label is 0 or 1 (1 when above 0.5).
func (b *Binary) Add(score, label float32) {}

// Merge adds all that o has counted; o is not changed.
func (b *Binary) Merge(o *Binary) {}

// Rows returns the number of rows counted.
func (b *Binary) Rows() int { return 0 }

// LogLoss returns the mean of -ln(probability given to the true label).
func (b *Binary) LogLoss() float64 { return 0 }

// AUC returns the area under the ROC curve.
func (b *Binary) AUC() float64 { return 0 }

// Accuracy returns the share of rows whose score is on the label's side of 0.5.
func (b *Binary) Accuracy() float64 { return 0 }
