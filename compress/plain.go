package compress

import (
	"encoding/binary"
	"math"

	"hcclps/internal/vec"
)

// none keeps the float32 numbers, little endian.
type none struct{}

func (none) String() string   { return "none" }
func (none) MaxLen(n int) int { return 4 * n }

func (none) Append(dst []byte, x []float32, _ uint64) ([]byte, error) {
	return append(dst, vec.BytesOfFloats(x)...), nil
}

func (c none) AppendRest(dst []byte, x []float32, seed uint64) ([]byte, error) {
	dst, err := c.Append(dst, x, seed)
	clear(x)
	return dst, err
}

func (none) Decode(dst []float32, code []byte, mode Mode) error {
	if len(code) != 4*len(dst) {
		return wrongLen(None, len(dst), len(code), 4*len(dst))
	}
	if mode == Set {
		copy(vec.BytesOfFloats(dst), code)
		return nil
	}
	var block [1024]float32 // code may lie at any address
	for len(dst) > 0 {
		n := min(len(dst), len(block))
		copy(vec.BytesOfFloats(block[:n]), code)
		vec.Add(dst[:n], block[:n])
		dst, code = dst[n:], code[4*n:]
	}
	return nil
}

// fp16 rounds to IEEE 754 binary16. The error is at most 2^-11 of the element, or 2^-25 where that is more.
type fp16 struct{}

func (fp16) String() string   { return "fp16" }
func (fp16) MaxLen(n int) int { return 2 * n }

func (fp16) Append(dst []byte, x []float32, _ uint64) ([]byte, error) {
	if err := check(FP16, x, largestF16); err != nil {
		return dst, err
	}
	dst, code := grow(dst, 2*len(x))
	vec.EncodeF16(code, x)
	return dst, nil
}

func (fp16) AppendRest(dst []byte, x []float32, _ uint64) ([]byte, error) {
	if err := check(FP16, x, largestF16); err != nil {
		return dst, err
	}
	dst, code := grow(dst, 2*len(x))
	vec.EncodeF16(code, x)
	subtract(FP16, x, code)
	return dst, nil
}

func (fp16) Decode(dst []float32, code []byte, mode Mode) error {
	if len(code) != 2*len(dst) {
		return wrongLen(FP16, len(dst), len(code), 2*len(dst))
	}
	if mode == Add {
		vec.AddF16(dst, code)
	} else {
		vec.DecodeF16(dst, code)
	}
	return nil
}

// bf16 rounds to bfloat16. The error is at most 2^-8 of the element, or 2^-134 where that is more. NaNs and infinities are kept.
type bf16 struct{}

func (bf16) String() string   { return "bf16" }
func (bf16) MaxLen(n int) int { return 2 * n }

func (bf16) Append(dst []byte, x []float32, _ uint64) ([]byte, error) {
	dst, code := grow(dst, 2*len(x))
	vec.EncodeBF16(code, x)
	return dst, nil
}

func (bf16) AppendRest(dst []byte, x []float32, _ uint64) ([]byte, error) {
	dst, code := grow(dst, 2*len(x))
	vec.EncodeBF16(code, x)
	subtract(BF16, x, code)
	return dst, nil
}

func (bf16) Decode(dst []float32, code []byte, mode Mode) error {
	if len(code) != 2*len(dst) {
		return wrongLen(BF16, len(dst), len(code), 2*len(dst))
	}
	if mode == Add {
		vec.AddBF16(dst, code)
	} else {
		vec.DecodeBF16(dst, code)
	}
	return nil
}

// subtract takes from x what a code of two bytes an element decodes to, by blocks that stay in the first cache.
func subtract(k Kind, x []float32, code []byte) {
	var block [1024]float32
	for len(x) > 0 {
		n := min(len(x), len(block))
		if k == FP16 {
			vec.DecodeF16(block[:n], code)
		} else {
			vec.DecodeBF16(block[:n], code)
		}
		vec.Axpy(x[:n], -1, block[:n])
		x, code = x[n:], code[2*n:]
	}
}

// brain is v, which is finite, rounded to bfloat16, as scales are sent.
func brain(v float32) float32 {
	bits := math.Float32bits(v)
	return math.Float32frombits((bits + 0x7fff + bits>>16&1) &^ 0xffff)
}

// putScale writes a scale that brain has rounded.
func putScale(code []byte, scale float32) {
	binary.LittleEndian.PutUint16(code, uint16(math.Float32bits(scale)>>16))
}

// scaleOf reads a scale.
func scaleOf(code []byte) float32 {
	return math.Float32frombits(uint32(binary.LittleEndian.Uint16(code)) << 16)
}
