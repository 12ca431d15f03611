package optim

import "hcclps/internal/vec"

// lazyAdam is adam with t counted by the row: a row that is first seen late begins with a corrected step like one that
// was seen first, where adam's shared t would let its first step be 1 / sqrt(1 - beta2) times too bold. Moments rest
// while a row is not pushed, as in adam (and in torch.optim.SparseAdam and LazyAdam of TensorFlow Addons, whose t is
// the table's). The row's t is a float32 after the moments and ends at 2^24, where nothing is left to correct.
type lazyAdam struct{ moments }

func newLazyAdam(base config, p map[string]float64) Rule { return lazyAdam{newMoments(base, p)} }

func (lazyAdam) Slots(dim int) int          { return 2*dim + 1 }
func (lazyAdam) SlotInit(dim int) []float32 { return make([]float32, 2*dim+1) }

// Advance counts; the powers are the rows'.
func (lazyAdam) Advance(s *State) { s.Steps++ }

func (r lazyAdam) Step(_ *State, rate float32) Updater {
	k := r.kernel(r.lr * float64(rate))
	k.Decay = r.decay
	return &lazyStep{rule: k, settled: settled(max(r.beta1, r.beta2))}
}

type lazyStep struct {
	rule    vec.Adam // not corrected
	settled uint32   // steps of a row from which there is nothing to correct
}

func (u *lazyStep) Update(row, grad []float32) {
	n := len(grad)
	t := next(row[3*n])
	row[3*n] = t
	k := u.rule
	if count := uint32(t); count < u.settled {
		correct(&k, power(k.Beta1, count), power(k.Beta2, count))
	}
	k.Update(row, row[n:], row[2*n:], grad)
}

// next is the count after t; what is no count begins anew.
func next(t float32) float32 {
	switch {
	case t >= lastCount:
		return lastCount
	case t >= 1:
		return t + 1
	default:
		return 1
	}
}

// lastCount is the largest number that a float32 counts to by ones.
const lastCount = 1 << 24

// power is b^n for n > 0, by squaring: the same products on every CPU.
func power(b float64, n uint32) float64 {
	p := 1.0
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			p *= b
		}
		b *= b
	}
	return p
}

// settled is a number of steps from which on 1 - b^n is 1, exactly.
func settled(b float64) uint32 {
	n := uint32(1)
	for ; b > 0x1p-54 && n < lastCount; n *= 2 {
		b *= b
	}
	return n
}
