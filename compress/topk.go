package compress

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"sync"
)

// topK sends a share of the elements, those of the largest magnitudes, of equal ones those that come first. The error
// is, as a vector, at most sqrt(1 - k / n) as long as the vector.
//
// A code is k as a varint, the k indexes as ascending numbers, and the k float32 numbers.
type topK struct {
	share float64
	room  sync.Pool // of *selection
}

// selection is memory to select in.
type selection struct {
	index []uint32
	keys  []uint64
}

func (c *topK) String() string {
	if c.share == defaultShare {
		return "topk"
	}
	return "topk:" + strconv.FormatFloat(c.share, 'g', -1, 64)
}

// Share is the share of the elements that a codec sends: less than 1 for topk and randomk.
func Share(c Codec) float64 {
	switch c := c.(type) {
	case *topK:
		return c.share
	case randomK:
		return c.share
	default:
		return 1
	}
}

// portion is how many of n elements a share is: one at least, if there are any.
func portion(share float64, n int) int {
	return min(n, max(1, int(math.Ceil(share*float64(n)))))
}

func (c *topK) MaxLen(n int) int {
	k := portion(c.share, n)
	if k == 0 {
		return 1
	}
	// The widths of groups add up to most when the largest gaps of all groups are equal.
	groups := (k + group - 1) / group
	width := min(32, bits.Len(uint(n/groups))+1)
	return 2*binary.MaxVarintLen32 + groups*(1+group*width/8) + 4*k
}

func (c *topK) Append(dst []byte, x []float32, _ uint64) ([]byte, error) {
	return c.append(dst, x, false)
}

func (c *topK) AppendRest(dst []byte, x []float32, _ uint64) ([]byte, error) {
	return c.append(dst, x, true)
}

func (c *topK) append(dst []byte, x []float32, rest bool) ([]byte, error) {
	if err := checkIndexed(TopK, x); err != nil {
		return dst, err
	}
	s, _ := c.room.Get().(*selection)
	if s == nil {
		s = &selection{}
	}
	defer c.room.Put(s)
	k := portion(c.share, len(x))
	index := s.largest(x, k)
	s.keys = slices.Grow(s.keys[:0], k)
	for _, i := range index {
		s.keys = append(s.keys, uint64(i))
	}
	dst = binary.AppendUvarint(dst, uint64(k))
	dst = appendAscending(dst, s.keys)
	for _, i := range index {
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(x[i]))
		if rest {
			x[i] = 0
		}
	}
	return dst, nil
}

// checkIndexed is check for codecs that send indexes.
func checkIndexed(k Kind, x []float32) error {
	if uint64(len(x)) > math.MaxUint32 {
		return fmt.Errorf("encode %s: %d elements, want at most %d", k, len(x), uint32(math.MaxUint32))
	}
	return check(k, x, limit)
}

func (c *topK) Decode(dst []float32, code []byte, mode Mode) error {
	k, code, err := countOf(TopK, code, len(dst))
	if err != nil {
		return err
	}
	if k == 0 {
		if len(code) > 0 {
			return wrongLen(TopK, len(dst), len(code)+1, 1)
		}
		return nil
	}
	last := uint64(len(dst) - 1)
	values, err := eachAscending(code, k, last, func(int, uint64) {})
	if err != nil {
		return fmt.Errorf("decode %s: %w", c, err)
	}
	if len(values) != 4*k {
		return fmt.Errorf("decode %s: %d bytes of numbers, want %d: %w", c, len(values), 4*k, ErrMalformed)
	}
	if mode == Set {
		clear(dst)
	}
	_, err = eachAscending(code, k, last, func(i int, at uint64) {
		dst[at] += math.Float32frombits(binary.LittleEndian.Uint32(values[4*i:]))
	})
	return err
}

// countOf reads how many of n elements a code has.
func countOf(kind Kind, code []byte, n int) (k int, rest []byte, err error) {
	v, used := uvarint(code)
	if used <= 0 || v > uint64(n) || v == 0 && n > 0 {
		return 0, nil, fmt.Errorf("decode %s: no number of elements from 1 to %d: %w", kind, n, ErrMalformed)
	}
	return int(v), code[used:], nil
}
