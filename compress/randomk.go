package compress

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"strconv"

	"hcclps/internal/vec"
)

// randomK sends a share of the elements, one of each of k runs of nearly equal length, as a seed draws them: workers
// with one seed send the same elements. Each element's chance is that share; what is sent is not scaled up, since the
// residual keeps the others. So the error has, on average, 1 - k / n of the vector's square.
//
// A code is k as a varint, the seed in 8 bytes, and the k float32 numbers.
type randomK struct{ share float64 }

func (c randomK) String() string {
	if c.share == defaultShare {
		return "randomk"
	}
	return "randomk:" + strconv.FormatFloat(c.share, 'g', -1, 64)
}

func (c randomK) MaxLen(n int) int {
	k := portion(c.share, n)
	return (bits.Len(uint(k)|1)+6)/7 + 8 + 4*k
}

func (c randomK) Append(dst []byte, x []float32, seed uint64) ([]byte, error) {
	if err := checkIndexed(RandomK, x); err != nil {
		return dst, err
	}
	k := portion(c.share, len(x))
	dst = binary.LittleEndian.AppendUint64(binary.AppendUvarint(dst, uint64(k)), seed)
	for i := range k {
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(x[drawn(i, k, len(x), seed)]))
	}
	return dst, nil
}

func (c randomK) AppendRest(dst []byte, x []float32, seed uint64) ([]byte, error) {
	dst, err := c.Append(dst, x, seed)
	if err != nil {
		return dst, err
	}
	k := portion(c.share, len(x))
	for i := range k {
		x[drawn(i, k, len(x), seed)] = 0
	}
	return dst, nil
}

func (c randomK) Decode(dst []float32, code []byte, mode Mode) error {
	k, code, err := countOf(RandomK, code, len(dst))
	if err != nil {
		return err
	}
	if uint64(len(dst)) > math.MaxUint32 || len(code) != 8+4*k {
		return fmt.Errorf("decode %s: %d bytes of seed and numbers for %d of %d elements: %w", c, len(code), k, len(dst), ErrMalformed)
	}
	seed, values := binary.LittleEndian.Uint64(code), code[8:]
	if mode == Set {
		clear(dst)
	}
	for i := range k {
		dst[drawn(i, k, len(dst), seed)] += math.Float32frombits(binary.LittleEndian.Uint32(values[4*i:]))
	}
	return nil
}

// drawn is the index that is drawn of run i of k runs of n elements; k and n are below 2^32.
func drawn(i, k, n int, seed uint64) uint64 {
	from, to := uint64(i)*uint64(n)/uint64(k), uint64(i+1)*uint64(n)/uint64(k)
	at, _ := bits.Mul64(vec.Mix64(uint64(i), seed), to-from)
	return from + at
}
