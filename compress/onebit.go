package compress

import "hcclps/internal/vec"

// bitChunk shares a scale: 130 bytes for 4096.
const bitChunk = 1024

const scaleLen = 2

// oneBit sends signs and, for each chunk, the mean of the magnitudes (Bernstein et al. 2018, signSGD; with the residual
// Karimireddy et al. 2019, EF-signSGD). The error of a chunk is, as a vector, not longer than the chunk, by more than
// rounding.
//
// A chunk is the mean as bfloat16, then a bit an element as vec.PackSigns has it.
type oneBit struct{ chunk int }

func (oneBit) String() string { return "onebit" }

func (c oneBit) MaxLen(n int) int {
	whole, last := n/c.chunk, n%c.chunk
	size := whole * (scaleLen + (c.chunk+7)/8)
	if last > 0 {
		size += scaleLen + (last+7)/8
	}
	return size
}

func (c oneBit) Append(dst []byte, x []float32, _ uint64) ([]byte, error) {
	if err := check(OneBit, x, limit); err != nil {
		return dst, err
	}
	dst, code := grow(dst, c.MaxLen(len(x)))
	for len(x) > 0 {
		n := min(len(x), c.chunk)
		putScale(code, mean(vec.AbsSum(x[:n]), n))
		vec.PackSigns(code[scaleLen:], x[:n])
		x, code = x[n:], code[scaleLen+(n+7)/8:]
	}
	return dst, nil
}

func (c oneBit) AppendRest(dst []byte, x []float32, _ uint64) ([]byte, error) {
	if err := check(OneBit, x, limit); err != nil {
		return dst, err
	}
	dst, code := grow(dst, c.MaxLen(len(x)))
	for len(x) > 0 {
		n := min(len(x), c.chunk)
		code = c.rest(code, x[:n], vec.AbsSum(x[:n]))
		x = x[n:]
	}
	return dst, nil
}

// appendSum adds g to rest and is then AppendRest, in fewer passes. Both are checked.
func (c oneBit) appendSum(dst []byte, rest, g []float32) []byte {
	dst, code := grow(dst, c.MaxLen(len(rest)))
	for len(rest) > 0 {
		n := min(len(rest), c.chunk)
		code = c.rest(code, rest[:n], vec.AddAbsSum(rest[:n], g[:n]))
		rest, g = rest[n:], g[n:]
	}
	return dst
}

// rest writes a chunk and returns the room for the next one.
func (c oneBit) rest(code []byte, x []float32, sum float32) []byte {
	scale := mean(sum, len(x))
	putScale(code, scale)
	vec.PackSignsRest(code[scaleLen:], x, scale)
	return code[scaleLen+(len(x)+7)/8:]
}

// mean is a sum of n magnitudes / n, as it is sent.
func mean(sum float32, n int) float32 { return brain(sum / float32(n)) }

func (c oneBit) Decode(dst []float32, code []byte, mode Mode) error {
	if want := c.MaxLen(len(dst)); len(code) != want {
		return wrongLen(OneBit, len(dst), len(code), want)
	}
	for len(dst) > 0 {
		n := min(len(dst), c.chunk)
		if mode == Add {
			vec.AddSigns(dst[:n], code[scaleLen:], scaleOf(code))
		} else {
			vec.UnpackSigns(dst[:n], code[scaleLen:], scaleOf(code))
		}
		dst, code = dst[n:], code[scaleLen+(n+7)/8:]
	}
	return nil
}
