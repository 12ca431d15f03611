package collbench

import (
	"encoding/binary"
	"math"

	"hcclps/p2p"
	"hcclps/p2p/collective"
)

// period is after how many elements contents repeat: a prime, so that a part in the wrong place is noticed.
const period = 251

// contents are the elements of a vector, by their place in it modulo period.
type contents [period]float64

// sent is what a rank puts into vector number v: small whole numbers, whose sums are exact in every type.
func sent(rank, v, ranks int, r collective.Reduction) (c contents) {
	for i := range c {
		c[i] = float64(1 + (31*rank+17*v+i)%period%3)
		if r == collective.Prod { // one rank has a 2
			c[i] = 1
			if (i+v)%ranks == rank {
				c[i] = 2
			}
		}
	}
	return c
}

// reduced is what all ranks together make of vector v.
func reduced(ranks, v int, r collective.Reduction) contents {
	out := sent(0, v, ranks, r)
	for rank := 1; rank < ranks; rank++ {
		for i, x := range sent(rank, v, ranks, r) {
			switch r {
			case collective.Prod:
				out[i] *= x
			case collective.Max:
				out[i] = max(out[i], x)
			case collective.Min:
				out[i] = min(out[i], x)
			default:
				out[i] += x
			}
		}
	}
	if r == collective.Avg {
		for i := range out {
			out[i] /= float64(ranks)
		}
	}
	return out
}

// fill writes the contents to b, from their element first on.
func (c *contents) fill(t p2p.DType, b []byte, first int) {
	width := t.Size()
	block := min(len(b)/width, period)
	for i := range block {
		put(t, b[i*width:], c[(first+i)%period])
	}
	for done := block * width; 0 < done && done < len(b); done *= 2 {
		copy(b[done:], b[:done])
	}
}

// wrong counts the elements of b that are not those of the contents from first on.
func (c *contents) wrong(t p2p.DType, b []byte, first int) (n int) {
	width := t.Size()
	for i := 0; i*width < len(b); i++ {
		want := c[(first+i)%period]
		if got := get(t, b[i*width:]); !(math.Abs(got-round(t, want)) <= precision(t)*want) { // a NaN is wrong
			n++
		}
	}
	return n
}

// round is what a type of whole numbers keeps.
func round(t p2p.DType, x float64) float64 {
	if t == p2p.Int32 || t == p2p.Int64 || t == p2p.Uint8 {
		return math.Trunc(x)
	}
	return x
}

// precision is the relative error that a quotient may have.
func precision(t p2p.DType) float64 {
	switch t {
	case p2p.Float16:
		return 0x1p-11
	case p2p.BFloat16:
		return 0x1p-8
	case p2p.Float32:
		return 0x1p-24
	default:
		return 0
	}
}

// put writes a small whole number.
func put(t p2p.DType, b []byte, x float64) {
	switch t {
	case p2p.Float32:
		binary.LittleEndian.PutUint32(b, math.Float32bits(float32(x)))
	case p2p.Float64:
		binary.LittleEndian.PutUint64(b, math.Float64bits(x))
	case p2p.Float16: // 1, 2 and 3
		binary.LittleEndian.PutUint16(b, [...]uint16{0, 0x3c00, 0x4000, 0x4200}[int(x)])
	case p2p.BFloat16:
		binary.LittleEndian.PutUint16(b, uint16(math.Float32bits(float32(x))>>16))
	case p2p.Int32:
		binary.LittleEndian.PutUint32(b, uint32(x))
	case p2p.Int64:
		binary.LittleEndian.PutUint64(b, uint64(x))
	default:
		b[0] = byte(x)
	}
}

func get(t p2p.DType, b []byte) float64 {
	switch t {
	case p2p.Float32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	case p2p.Float64:
		return math.Float64frombits(binary.LittleEndian.Uint64(b))
	case p2p.Float16: // positive and finite, else NaN
		h := binary.LittleEndian.Uint16(b)
		if e := int(h >> 10); e > 0 && e < 31 {
			return math.Ldexp(float64(1024+h&0x3ff), e-25)
		}
		return math.NaN()
	case p2p.BFloat16:
		return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16))
	case p2p.Int32:
		return float64(int32(binary.LittleEndian.Uint32(b)))
	case p2p.Int64:
		return float64(int64(binary.LittleEndian.Uint64(b)))
	default:
		return float64(b[0])
	}
}
