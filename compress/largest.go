package compress

import (
	"math"

	"hcclps/internal/vec"
)

// sampled is how many elements, at most, a first threshold is guessed from: one of 16.
const sampled = 4096

// largest are the indexes of the k largest magnitudes, ascending; of equal ones those that come first. They are valid until the next call. x has no NaN.
//
// A sample gives a threshold that k elements reach, most likely, and not many more. What reaches it is collected;
// whenever there is no room for more, all but the k largest are dropped, which raises the threshold. So the result is
// exact, whatever the sample was.
func (s *selection) largest(x []float32, k int) []uint32 {
	room := min(len(x), 2*k+1024)
	if cap(s.index) < room {
		s.index = make([]uint32, room)
	}
	for threshold := s.guess(x, k); ; threshold = 0 {
		if found := s.collect(x, k, threshold, s.index[:room]); len(found) == k {
			return found
		}
	}
}

// guess is a threshold that more than k elements reach, most likely.
func (s *selection) guess(x []float32, k int) float32 {
	count := min(sampled, len(x)/16)
	if count == 0 {
		return 0
	}
	expected := float64(k) / float64(len(x)) * float64(count)
	rank := int(expected + 3*math.Sqrt(expected) + 3)
	if rank >= count {
		return 0
	}
	s.keys = s.keys[:0]
	stride := uint64(len(x) / count)
	for i := range uint64(count) {
		at := i*stride + vec.Mix64(i, 0)%stride
		s.keys = append(s.keys, uint64(math.Float32bits(x[at])&0x7fffffff))
	}
	return math.Float32frombits(uint32(nth(s.keys, rank)))
}

// collect is the k largest of those that reach a threshold, or all of them if they are fewer.
func (s *selection) collect(x []float32, k int, threshold float32, index []uint32) []uint32 {
	have, base := 0, 0
	for {
		found, seen := vec.SelectAbs(index[have:], x[base:], threshold)
		for i := range index[have : have+found] {
			index[have+i] += uint32(base)
		}
		have, base = have+found, base+seen
		if have > k {
			threshold = s.trim(x, k, index[:have])
			have = k
		}
		if base == len(x) {
			return index[:have]
		}
	}
}

// trim keeps the k largest, in their order, and returns the least of them.
func (s *selection) trim(x []float32, k int, index []uint32) float32 {
	s.keys = s.keys[:0]
	for _, i := range index {
		s.keys = append(s.keys, keyOf(x[i], i))
	}
	least := nth(s.keys, k-1)
	kept := index[:0]
	for _, i := range index {
		if keyOf(x[i], i) >= least {
			kept = append(kept, i)
		}
	}
	return math.Float32frombits(uint32(least >> 32))
}

// keyOf orders elements by magnitude, equal ones by index from the last.
func keyOf(v float32, i uint32) uint64 {
	return uint64(math.Float32bits(v)&0x7fffffff)<<32 | uint64(^i)
}

// nth is the number that would be at index n if v, which it mixes up, were sorted from the largest (Hoare 1961, FIND).
func nth(v []uint64, n int) uint64 {
	for lo, hi := 0, len(v)-1; lo < hi; {
		pivot := middle(v[lo], v[lo+(hi-lo)/2], v[hi])
		i, j := lo, hi
		for i <= j {
			for v[i] > pivot {
				i++
			}
			for v[j] < pivot {
				j--
			}
			if i <= j {
				v[i], v[j] = v[j], v[i]
				i++
				j--
			}
		}
		switch {
		case n <= j:
			hi = j
		case n >= i:
			lo = i
		default:
			return v[n]
		}
	}
	return v[n]
}

func middle(a, b, c uint64) uint64 {
	return max(min(a, b), min(max(a, b), c))
}
