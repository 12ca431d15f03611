package compress

import "hcclps/internal/vec"

// Mean is the side that gets codes of one tensor from several workers and sends back the code of their mean, with a
// residual of its own: compression in both directions (Tang et al. 2019, DoubleSqueeze). The mean has the same bits
// wherever codes are added in one order. One goroutine uses it at a time.
type Mean struct {
	back *Feedback
	sum  []float32
	n    int
}

// NewMean makes one that has nothing yet.
func NewMean(c Codec, shape ...int) (*Mean, error) {
	f, err := NewFeedback(c, shape...)
	if err != nil {
		return nil, err
	}
	return &Mean{back: f, sum: make([]float32, elements(shape))}, nil
}

// Feedback is what encodes the mean: a checkpoint keeps its residual.
func (m *Mean) Feedback() *Feedback { return m.back }

// Add adds a worker's code. After an error the sum is as it was.
func (m *Mean) Add(c Codec, code []byte) error {
	if err := c.Decode(m.sum, code, Add); err != nil {
		return err
	}
	m.n++
	return nil
}

// Close appends the code of the mean of what was added since the last call, and of the residual. Of nothing it is the code of the residual alone.
func (m *Mean) Close(dst []byte, seed uint64) ([]byte, error) {
	if m.n > 1 {
		vec.Scale(m.sum, 1/float32(m.n))
	}
	dst, err := m.back.Append(dst, m.sum, seed)
	clear(m.sum)
	m.n = 0
	return dst, err
}
