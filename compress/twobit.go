package compress

import (
	"strconv"

	"hcclps/internal/vec"
)

// twoBit sends 0, +level or -level for each element. With a threshold given, elements of at least that magnitude are
// sent as the threshold (Strom 2015, as MXNet has it). Else a chunk's threshold is 0.7 of its mean magnitude and its
// level the mean of the magnitudes that reach it (Li and Liu 2016, ternary weight networks): then the error of a chunk
// is, as a vector, not longer than the chunk, by more than rounding.
//
// A chunk is the level as bfloat16, then the two rows of bits of vec.PackTwoBit.
type twoBit struct {
	chunk     int
	threshold float32 // as bfloat16 has it; 0 is that of the chunk
}

func (c twoBit) String() string {
	if c.threshold == 0 {
		return "twobit"
	}
	return "twobit:" + strconv.FormatFloat(float64(c.threshold), 'g', -1, 32)
}

func (c twoBit) MaxLen(n int) int {
	whole, last := n/c.chunk, n%c.chunk
	size := whole * (scaleLen + 2*((c.chunk+7)/8))
	if last > 0 {
		size += scaleLen + 2*((last+7)/8)
	}
	return size
}

// levels are the threshold and the level of a chunk.
func (c twoBit) levels(x []float32) (threshold, level float32) {
	if c.threshold > 0 {
		return c.threshold, c.threshold
	}
	threshold = 0.7 * (vec.AbsSum(x) / float32(len(x)))
	sum, n := vec.AbsSumAbove(x, threshold)
	return threshold, mean(sum, max(n, 1))
}

func (c twoBit) Append(dst []byte, x []float32, _ uint64) ([]byte, error) {
	if err := check(TwoBit, x, limit); err != nil {
		return dst, err
	}
	dst, code := grow(dst, c.MaxLen(len(x)))
	for len(x) > 0 {
		n := min(len(x), c.chunk)
		threshold, level := c.levels(x[:n])
		some, neg, next := rowsOfBits(code, n)
		putScale(code, level)
		vec.PackTwoBit(some, neg, x[:n], threshold)
		x, code = x[n:], next
	}
	return dst, nil
}

func (c twoBit) AppendRest(dst []byte, x []float32, _ uint64) ([]byte, error) {
	if err := check(TwoBit, x, limit); err != nil {
		return dst, err
	}
	dst, code := grow(dst, c.MaxLen(len(x)))
	for len(x) > 0 {
		n := min(len(x), c.chunk)
		threshold, level := c.levels(x[:n])
		some, neg, next := rowsOfBits(code, n)
		putScale(code, level)
		vec.PackTwoBitRest(some, neg, x[:n], threshold, level)
		x, code = x[n:], next
	}
	return dst, nil
}

func (c twoBit) Decode(dst []float32, code []byte, mode Mode) error {
	if want := c.MaxLen(len(dst)); len(code) != want {
		return wrongLen(TwoBit, len(dst), len(code), want)
	}
	for len(dst) > 0 {
		n := min(len(dst), c.chunk)
		some, neg, next := rowsOfBits(code, n)
		if mode == Add {
			vec.AddTwoBit(dst[:n], some, neg, scaleOf(code))
		} else {
			vec.UnpackTwoBit(dst[:n], some, neg, scaleOf(code))
		}
		dst, code = dst[n:], next
	}
	return nil
}

// rowsOfBits are the parts of a chunk behind its level, and what follows the chunk.
func rowsOfBits(code []byte, n int) (some, neg, next []byte) {
	row := (n + 7) / 8
	code = code[scaleLen:]
	return code[:row], code[row : 2*row], code[2*row:]
}
