package collective

import (
	"encoding/binary"
	"fmt"
	"math"

	"hcclps/internal/vec"
	"hcclps/p2p"
)

// Reduction says how the elements of all ranks become one. Values are stable: they appear on the wire.
type Reduction uint8

// The reductions. Integers wrap; Max and Min of a NaN and anything is a NaN; Avg is the sum divided by the number of ranks, of integers toward zero.
const (
	Sum Reduction = iota + 1
	Prod
	Max
	Min
	Avg
)

// String is the name in lower case.
func (r Reduction) String() string {
	switch r {
	case Sum:
		return "sum"
	case Prod:
		return "prod"
	case Max:
		return "max"
	case Min:
		return "min"
	case Avg:
		return "avg"
	default:
		return fmt.Sprintf("reduction(%d)", uint8(r))
	}
}

// reducer folds vectors of one element type by one reduction. It has memory to work in: one goroutine uses it.
type reducer interface {
	// into makes dst the fold of dst and src, element by element; both are of one length.
	into(dst, src []byte)
	// fold makes dst the fold of all parts in their order. dst may be one of them.
	fold(dst []byte, parts [][]byte)
	// finish makes what is folded of n ranks the result.
	finish(dst []byte, n int)
}

// newReducer chooses the reducer; types and reductions are checked before.
func newReducer(t p2p.DType, r Reduction) reducer {
	switch t {
	case p2p.Float32:
		f := newFolder(4, loadFloat32, storeFloat32, r, divide[float32])
		if r == Sum || r == Avg {
			f.op = vec.Add
			f.direct = addFloat32
		}
		return f
	case p2p.Float16:
		return halfFolder(vec.DecodeF16, vec.EncodeF16, r)
	case p2p.BFloat16:
		return halfFolder(vec.DecodeBF16, vec.EncodeBF16, r)
	case p2p.Float64:
		return newFolder(8, loadFloat64, storeFloat64, r, divide[float64])
	case p2p.Int32:
		return newFolder(4, loadInt32, storeInt32, r, divideWhole[int32])
	case p2p.Int64:
		return newFolder(8, loadInt64, storeInt64, r, divideWhole[int64])
	default:
		return newFolder(1, loadUint8, storeUint8, r, divideWhole[uint8])
	}
}

type number interface {
	float32 | float64 | int32 | int64 | uint8
}

// folder folds blocks that fit the cache in type T and rounds to the element type when a block is stored: once a call.
type folder[T number] struct {
	width  int
	load   func(dst []T, src []byte)
	store  func(dst []byte, src []T)
	op     func(dst, src []T)
	direct func(dst, src []byte) bool // into without copies, if the memory allows it
	divide func(x []T, n int)         // nil: nothing to finish

	sum, x []T // a block each
	pair   [2][]byte
}

const block = 512 // elements

func newFolder[T number](width int, load func([]T, []byte), store func([]byte, []T), r Reduction, divide func([]T, int)) *folder[T] {
	f := &folder[T]{width: width, load: load, store: store, sum: make([]T, block), x: make([]T, block)}
	switch r {
	case Prod:
		f.op = multiply[T]
	case Max:
		f.op = larger[T]
	case Min:
		f.op = smaller[T]
	case Avg:
		f.op, f.divide = add[T], divide
	default:
		f.op = add[T]
	}
	return f
}

func (f *folder[T]) into(dst, src []byte) {
	if f.direct == nil || !f.direct(dst, src) {
		f.pair = [2][]byte{dst, src}
		f.fold(dst, f.pair[:])
	}
}

func (f *folder[T]) fold(dst []byte, parts [][]byte) {
	if f.direct != nil && f.foldDirect(dst, parts) {
		return
	}
	sum, x := f.sum, f.x
	for lo := 0; lo < len(dst); lo += block * f.width {
		hi := min(lo+block*f.width, len(dst))
		n := (hi - lo) / f.width
		f.load(sum[:n], parts[0][lo:hi])
		for _, p := range parts[1:] {
			f.load(x[:n], p[lo:hi])
			f.op(sum[:n], x[:n])
		}
		f.store(dst[lo:hi], sum[:n])
	}
}

// foldDirect is fold without the way through blocks, unless the memory does not allow it. Blocks are larger here: they only keep dst in the cache.
func (f *folder[T]) foldDirect(dst []byte, parts [][]byte) bool {
	first := 0
	for i, p := range parts {
		if same(dst, p) && i > 0 {
			first = i
		}
	}
	if first > 1 || len(parts) == 1 {
		return false // the first two may change places, no others
	}
	for lo := 0; lo < len(dst); lo += 8 * block * f.width {
		hi := min(lo+8*block*f.width, len(dst))
		place(dst[lo:hi], parts[first][lo:hi])
		if !f.direct(dst[lo:hi], parts[1-first][lo:hi]) {
			return false // nothing is lost: the first block is as it was, or a copy of parts[0]
		}
		for _, p := range parts[2:] {
			f.direct(dst[lo:hi], p[lo:hi])
		}
	}
	return true
}

func (f *folder[T]) finish(dst []byte, ranks int) {
	if f.divide == nil || ranks == 1 {
		return
	}
	x := f.x
	for lo := 0; lo < len(dst); lo += block * f.width {
		hi := min(lo+block*f.width, len(dst))
		n := (hi - lo) / f.width
		f.load(x[:n], dst[lo:hi])
		f.divide(x[:n], ranks)
		f.store(dst[lo:hi], x[:n])
	}
}

func add[T number](dst, src []T) {
	src = src[:len(dst)]
	for i := range dst {
		dst[i] += src[i]
	}
}

func multiply[T number](dst, src []T) {
	src = src[:len(dst)]
	for i := range dst {
		dst[i] *= src[i]
	}
}

func larger[T number](dst, src []T) {
	src = src[:len(dst)]
	for i := range dst {
		dst[i] = max(dst[i], src[i])
	}
}

func smaller[T number](dst, src []T) {
	src = src[:len(dst)]
	for i := range dst {
		dst[i] = min(dst[i], src[i])
	}
}

func divide[T float32 | float64](x []T, n int) {
	for i := range x {
		x[i] /= T(n)
	}
}

func divideWhole[T int32 | int64 | uint8](x []T, n int) {
	for i := range x {
		x[i] = T(int64(x[i]) / int64(n))
	}
}

// addFloat32 adds in place, unless dst does not lie as float32 values must.
func addFloat32(dst, src []byte) bool {
	if len(dst) == 0 {
		return true
	}
	d := vec.Floats(dst)
	if !same(vec.BytesOfFloats(d), dst) {
		return false
	}
	vec.Add(d, vec.Floats(src))
	return true
}

// same says whether two slices begin in one place.
func same(a, b []byte) bool {
	return len(a) > 0 && len(b) > 0 && &a[0] == &b[0]
}

func loadFloat32(dst []float32, src []byte)  { copy(vec.BytesOfFloats(dst), src) }
func storeFloat32(dst []byte, src []float32) { copy(dst, vec.BytesOfFloats(src)) }

func loadFloat64(dst []float64, src []byte) {
	for i := range dst {
		dst[i] = math.Float64frombits(binary.LittleEndian.Uint64(src[8*i:]))
	}
}

func storeFloat64(dst []byte, src []float64) {
	for i, x := range src {
		binary.LittleEndian.PutUint64(dst[8*i:], math.Float64bits(x))
	}
}

func loadInt32(dst []int32, src []byte) {
	for i := range dst {
		dst[i] = int32(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

func storeInt32(dst []byte, src []int32) {
	for i, x := range src {
		binary.LittleEndian.PutUint32(dst[4*i:], uint32(x))
	}
}

func loadInt64(dst []int64, src []byte) {
	for i := range dst {
		dst[i] = int64(binary.LittleEndian.Uint64(src[8*i:]))
	}
}

func storeInt64(dst []byte, src []int64) {
	for i, x := range src {
		binary.LittleEndian.PutUint64(dst[8*i:], uint64(x))
	}
}

func loadUint8(dst []uint8, src []byte)  { copy(dst, src) }
func storeUint8(dst []byte, src []uint8) { copy(dst, src) }

// halfFolder folds 16-bit floats as float32.
func halfFolder(load func([]float32, []byte), store func([]byte, []float32), r Reduction) *folder[float32] {
	f := newFolder(2, load, store, r, divide[float32])
	if r == Sum || r == Avg {
		f.op = vec.Add
	}
	return f
}
