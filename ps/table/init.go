package table

import (
	"math"

	"hcclps/internal/vec"
)

// golden is 2^64 divided by the golden ratio: the step of the SplitMix64 sequence.
const golden = 0x9e3779b97f4a7c15

// truncated is Phi(2) - Phi(-2), the mass of the normal distribution within two deviations, in units of 2^-32.
const truncated = 0xf45a183f

type draw uint8

const (
	drawConstant draw = iota
	drawUniform
	drawNormal
	drawTruncated
)

// initial is an initializer ready to run: base, or base + span x u, or base + span x z.
type initial struct {
	kind       draw
	base, span float32
	seed       uint64
}

//go:generate go run gen_normal.go

// newInitial resolves the names. Only sqrt and division are used, which are exact to the last bit on every CPU.
func newInitial(in Init, seed uint64) initial {
	fanIn, fanOut := float64(in.FanIn), float64(in.FanOut)
	symmetric := func(bound float64) initial {
		b := float32(bound)
		return initial{drawUniform, -b, 2 * b, seed}
	}
	switch in.Kind {
	case "constant":
		return initial{kind: drawConstant, base: in.A}
	case "uniform":
		return initial{drawUniform, in.A, in.B - in.A, seed}
	case "normal":
		return initial{drawNormal, in.A, in.B, seed}
	case "truncnormal":
		return initial{drawTruncated, in.A, in.B, seed}
	case "xavier_uniform":
		return symmetric(math.Sqrt(6 / (fanIn + fanOut)))
	case "xavier_normal":
		return initial{drawNormal, 0, float32(math.Sqrt(2 / (fanIn + fanOut))), seed}
	case "he_uniform":
		return symmetric(math.Sqrt(6 / fanIn))
	case "he_normal":
		return initial{drawNormal, 0, float32(math.Sqrt(2 / fanIn)), seed}
	default:
		return initial{kind: drawConstant}
	}
}

// fill writes the first weights of key: a pure function of (seed, key, element).
func (in *initial) fill(key uint64, weights []float32) {
	state := vec.Mix64(key, in.seed)
	switch in.kind {
	case drawConstant:
		for i := range weights {
			weights[i] = in.base
		}
	case drawUniform:
		for i := range weights {
			state += golden
			u := float32(vec.Mix64(state, 0)>>40) * (1.0 / (1 << 24))
			weights[i] = in.base + float32(in.span*u)
		}
	case drawNormal:
		for i := range weights {
			state += golden
			u := vec.Mix64(state, 0) >> 40
			weights[i] = in.base + float32(in.span*quantile(uint32(u&(1<<23-1)), u>>23 != 0))
		}
	case drawTruncated:
		for i := range weights {
			state += golden
			u := vec.Mix64(state, 0) >> 40
			within := uint32((u & (1<<23 - 1)) * truncated >> 32)
			weights[i] = in.base + float32(in.span*quantile(within, u>>23 != 0))
		}
	}
}

// quantile is the inverse of the normal distribution function at 1/2 + u x 2^-24, u below 2^23, or its mirror image below 1/2:
// linear between the 2,049 committed points.
func quantile(u uint32, negative bool) float32 {
	i, frac := u>>12, float32(u&0xfff)*(1.0/4096)
	lo, hi := math.Float32frombits(normalTable[i]), math.Float32frombits(normalTable[i+1])
	z := lo + float32((hi-lo)*frac)
	if negative {
		return -z
	}
	return z
}
