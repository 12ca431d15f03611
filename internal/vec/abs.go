package vec

import (
	"math"
	"unsafe"
)

// MaxAbs is the largest magnitude in x, 0 of nothing. Magnitudes compare as their bits do: an infinity is above all numbers, a NaN above that.
func MaxAbs(x []float32) float32 {
	top, done := maxAbsFast(unsafe.SliceData(x), len(x))
	return math.Float32frombits(max(top, maxAbsPlain(x[done:])))
}

func maxAbsPlain(x []float32) uint32 {
	top := uint32(0)
	for _, v := range x {
		top = max(top, magnitude(v))
	}
	return top
}

// magnitude has the bits of |v|.
func magnitude(v float32) uint32 { return math.Float32bits(v) & 0x7fffffff }

// sums32 are partial sums of magnitudes: element i is added to sum i mod 32, in ascending order.
type sums32 [dotLanes]float32

// fold adds the upper half of the partial sums to the lower until one is left.
func (s *sums32) fold() float32 {
	for half := dotLanes / 2; half > 0; half /= 2 {
		for i := range half {
			s[i] += s[i+half]
		}
	}
	return s[0]
}

// AbsSum is the sum of the magnitudes of x, in the order of Dot.
func AbsSum(x []float32) float32 {
	if sum, ok := absSumFast(unsafe.SliceData(x), len(x)); ok {
		return sum
	}
	var sums sums32
	absSumPlain(&sums, x)
	return sums.fold()
}

func absSumPlain(sums *sums32, x []float32) {
	for i, v := range x {
		sums[i%dotLanes] += math.Float32frombits(magnitude(v))
	}
}

// AddAbsSum adds src to dst and is the sum of the magnitudes of that, in the order of Dot. len(src) must be at least len(dst).
func AddAbsSum(dst, src []float32) float32 {
	n := len(dst)
	src = src[:n]
	var sums sums32
	done := addAbsSumFast(&sums[0], unsafe.SliceData(dst), unsafe.SliceData(src), n)
	addAbsSumPlain(&sums, dst[done:], src[done:])
	return sums.fold()
}

func addAbsSumPlain(sums *sums32, dst, src []float32) {
	src = src[:len(dst)]
	for i := range dst {
		v := dst[i] + src[i]
		dst[i] = v
		sums[i%dotLanes] += math.Float32frombits(magnitude(v))
	}
}

// AbsSumAbove is the sum and the number of the magnitudes that are at least t, which is not negative: the sum in the order of Dot, the comparison as in MaxAbs.
func AbsSumAbove(x []float32, t float32) (sum float32, count int) {
	if sum, count, ok := absSumAboveFast(unsafe.SliceData(x), magnitude(t), len(x)); ok {
		return sum, count
	}
	var sums sums32
	count = absSumAbovePlain(&sums, x, magnitude(t))
	return sums.fold(), count
}

func absSumAbovePlain(sums *sums32, x []float32, t uint32) int {
	n := 0
	for i, v := range x {
		if a := magnitude(v); a >= t {
			sums[i%dotLanes] += math.Float32frombits(a)
			n++
		}
	}
	return n
}

// SelectAbs writes the indexes of the elements whose magnitude is at least t, ascending, until index is full. It
// returns how many there are and how many elements come before the next that would be one, or all. Bits are compared,
// as in MaxAbs; t is not negative and len(x) below 2^32.
func SelectAbs(index []uint32, x []float32, t float32) (found, seen int) {
	found, seen = selectAbsFast(unsafe.SliceData(index), len(index), unsafe.SliceData(x), magnitude(t), len(x))
	return selectAbsPlain(index, x, magnitude(t), found, seen)
}

func selectAbsPlain(index []uint32, x []float32, t uint32, found, seen int) (int, int) {
	for ; seen < len(x); seen++ {
		if magnitude(x[seen]) < t {
			continue
		}
		if found == len(index) {
			break
		}
		index[found] = uint32(seen)
		found++
	}
	return found, seen
}
