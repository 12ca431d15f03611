package compress

import "hcclps/internal/vec"

// int8Block shares a scale: 260 bytes for 1024.
const int8Block = 256

// int8s rounds to multiples of a scale for each block, the largest magnitude / 127. The error is at most 0.501 scales, or 2^-100 in a block of tiny numbers.
type int8s struct{ block int }

func (int8s) String() string     { return "int8" }
func (c int8s) MaxLen(n int) int { return vec.Int8Len(n, c.block) }

func (c int8s) Append(dst []byte, x []float32, _ uint64) ([]byte, error) {
	if err := check(Int8, x, limit); err != nil {
		return dst, err
	}
	dst, code := grow(dst, c.MaxLen(len(x)))
	vec.EncodeInt8(code, x, c.block)
	return dst, nil
}

func (c int8s) AppendRest(dst []byte, x []float32, _ uint64) ([]byte, error) {
	if err := check(Int8, x, limit); err != nil {
		return dst, err
	}
	dst, code := grow(dst, c.MaxLen(len(x)))
	vec.EncodeInt8Rest(code, x, c.block)
	return dst, nil
}

func (c int8s) Decode(dst []float32, code []byte, mode Mode) error {
	if want := c.MaxLen(len(dst)); len(code) != want {
		return wrongLen(Int8, len(dst), len(code), want)
	}
	if mode == Add {
		vec.AddInt8(dst, code, c.block)
	} else {
		vec.DecodeInt8(dst, code, c.block)
	}
	return nil
}
