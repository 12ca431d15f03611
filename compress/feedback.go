package compress

import (
	"fmt"
	"math"
	"slices"

	"hcclps/internal/vec"
)

// Feedback encodes the vectors of one tensor, step after step, and keeps what the codes did not hold, the residual,
// which is added to the next vector (Seide et al. 2014). So the sum of what is decoded follows the sum of the vectors,
// and differs from it by the last residual. One goroutine uses it at a time.
type Feedback struct {
	codec Codec
	shape []int
	rest  []float32
}

// NewFeedback makes one with a residual of zeros.
func NewFeedback(c Codec, shape ...int) (*Feedback, error) {
	if err := checkShape(shape); err != nil {
		return nil, fmt.Errorf("make feedback: %w", err)
	}
	return &Feedback{codec: c, shape: slices.Clone(shape), rest: make([]float32, elements(shape))}, nil
}

// Codec is the codec in use.
func (f *Feedback) Codec() Codec { return f.codec }

// Switch changes the codec. The residual stays.
func (f *Feedback) Switch(c Codec) { f.codec = c }

// Append appends the code of g and the residual. An error is ErrNotFinite or ErrMismatch, and then the residual is as it was.
func (f *Feedback) Append(dst []byte, g []float32, seed uint64) ([]byte, error) {
	if err := f.check(g); err != nil {
		return dst, err
	}
	return f.part(dst, g, 0, seed)
}

// AppendFrame is Append of a frame.
func (f *Feedback) AppendFrame(dst []byte, g []float32, seed uint64) ([]byte, error) {
	if err := f.check(g); err != nil {
		return dst, err
	}
	return appendFrame(dst, f.codec, f.shape, len(g), func(dst []byte) ([]byte, error) { return f.part(dst, g, 0, seed) })
}

// check wants a vector of the tensor, with room above it for a residual.
func (f *Feedback) check(g []float32) error {
	if len(g) != len(f.rest) {
		return fmt.Errorf("encode with residual: %d elements, the residual has %d: %w", len(g), len(f.rest), ErrMismatch)
	}
	return check(KindOf(f.codec), g, Limit(f.codec))
}

// Limit is the largest magnitude of what is encoded with a residual.
func Limit(c Codec) float32 {
	if top := KindOf(c).most(); top > 0 {
		return top / 2
	}
	return limit // no NaN may get into the residual
}

// part encodes elements of g from an offset on, where blocks of the codec begin, by pieces that stay in the cache.
func (f *Feedback) part(dst []byte, g []float32, from int, seed uint64) ([]byte, error) {
	rest := f.rest[from:][:len(g)]
	if c, ok := f.codec.(oneBit); ok {
		return c.appendSum(dst, rest, g), nil
	}
	piece := len(g)
	if block := Block(f.codec); block > 0 {
		piece = max(1, cached/block) * block
	}
	for {
		n := min(len(g), piece)
		vec.Add(rest[:n], g[:n])
		var err error
		if dst, err = f.codec.AppendRest(dst, rest[:n], seed); err != nil {
			return dst, err
		}
		if rest, g = rest[n:], g[n:]; len(g) == 0 {
			return dst, nil
		}
	}
}

// cached is how many elements stay in the cache between two passes.
const cached = 8 << 10

// Residual is the residual itself, valid until the next call of another method: a checkpoint copies it.
func (f *Feedback) Residual() []float32 { return f.rest }

// Restore makes the residual what Residual was.
func (f *Feedback) Restore(residual []float32) error {
	if len(residual) != len(f.rest) {
		return fmt.Errorf("restore residual: %d elements, want %d: %w", len(residual), len(f.rest), ErrMismatch)
	}
	if err := check(KindOf(f.codec), residual, math.MaxFloat32); err != nil {
		return fmt.Errorf("restore residual: %w", err)
	}
	copy(f.rest, residual)
	return nil
}

// Return puts back into the residual what a code holds that was not used.
func (f *Feedback) Return(code []byte) error { return f.codec.Decode(f.rest, code, Add) }

// Reset makes the residual zeros.
func (f *Feedback) Reset() { clear(f.rest) }

// Norm is the length of the residual as a vector.
func (f *Feedback) Norm() float64 { return Norm(f.rest) }

// Norm is the length of a vector.
func Norm(x []float32) float64 { return math.Sqrt(vec.SumSquares(0, x, x)) }
