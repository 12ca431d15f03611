package compress

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"hcclps/internal/vec"
)

// Codec turns a vector of float32 into a code of fewer bytes, and that back into a vector that is near. Any number of goroutines may use one codec.
//
// A code does not say how many elements it has; a frame does. Equal input gives equal codes on every machine.
type Codec interface {
	// String is the name, which Parse understands.
	String() string
	// MaxLen is the most bytes that the code of n elements takes. All codecs but topk take exactly as many.
	MaxLen(n int) int
	// Append appends the code of x, which it leaves alone. seed chooses the elements that randomk sends; the others do
	// not look at it. The error is ErrNotFinite, and then nothing is appended.
	Append(dst []byte, x []float32, seed uint64) ([]byte, error)
	// AppendRest is Append, and takes from x what the code will decode to. After an error x is as it was.
	AppendRest(dst []byte, x []float32, seed uint64) ([]byte, error)
	// Decode decodes len(dst) elements into dst, or adds them to it. The error is ErrMalformed, and then dst is as it was.
	Decode(dst []float32, code []byte, mode Mode) error
}

// Mode says what decoding does with a destination.
type Mode uint8

// The modes.
const (
	Set Mode = iota // the destination becomes what is decoded
	Add             // what is decoded is added to it
)

// Kind is a kind of codec as frames have it. Values are stable.
type Kind uint8

// The kinds. A code can be decoded by its kind: parameters of a codec are for its encoder.
const (
	None Kind = iota + 1
	FP16
	BF16
	Int8
	OneBit
	TwoBit
	TopK
	RandomK
)

// Errors that callers tell apart.
var (
	// ErrMalformed is that of bytes that no encoder has made, or that were changed.
	ErrMalformed = errors.New("malformed code")
	// ErrNotFinite is that of a vector with a NaN, an infinity, or a number beyond what the codec can hold.
	ErrNotFinite = errors.New("not a finite number the codec can hold")
	// ErrMismatch is that of a frame, a residual or a state that belongs to something else.
	ErrMismatch = errors.New("not what is expected")
)

// Names are those that Parse understands, without parameters, from the most exact codec to those that send least.
func Names() []string {
	return []string{"none", "bf16", "fp16", "int8", "twobit", "onebit", "topk", "randomk"}
}

// Parse makes a codec of its name: none, fp16, bf16, int8, onebit, twobit or twobit:THRESHOLD, topk or topk:SHARE,
// randomk or randomk:SHARE. A share is that of the elements which are sent, above 0 and up to 1, 0.01 by default.
func Parse(name string) (Codec, error) {
	word, parameter, given := strings.Cut(name, ":")
	value := 0.0
	if given {
		var err error
		if value, err = strconv.ParseFloat(parameter, 64); err != nil || !(value > 0) || math.IsInf(value, 0) {
			return nil, fmt.Errorf("parse codec %q: want a number above 0 after the colon", name)
		}
	}
	switch word {
	case "none", "fp16", "bf16", "int8", "onebit":
		if given {
			return nil, fmt.Errorf("parse codec %q: %s has no parameter", name, word)
		}
	case "topk", "randomk":
		if !given {
			value = defaultShare
		}
		if value > 1 {
			return nil, fmt.Errorf("parse codec %q: want a share up to 1", name)
		}
	case "twobit":
		if value > float64(limit) || given && value < float64(smallest) {
			return nil, fmt.Errorf("parse codec %q: want a threshold from %g to %g", name, smallest, limit)
		}
	default:
		return nil, fmt.Errorf("parse codec %q: want one of %s", name, strings.Join(Names(), ", "))
	}
	return build(word, value), nil
}

const defaultShare = 0.01

// build makes a codec whose parameter is checked; a threshold of 0 is that of the codec.
func build(word string, value float64) Codec {
	switch word {
	case "fp16":
		return fp16{}
	case "bf16":
		return bf16{}
	case "int8":
		return int8s{block: int8Block}
	case "onebit":
		return oneBit{chunk: bitChunk}
	case "twobit":
		return twoBit{chunk: bitChunk, threshold: brain(float32(value))}
	case "topk":
		return &topK{share: value}
	case "randomk":
		return randomK{share: value}
	default:
		return none{}
	}
}

// KindOf is the kind of a codec that Parse made, else 0.
func KindOf(c Codec) Kind {
	switch c.(type) {
	case none:
		return None
	case fp16:
		return FP16
	case bf16:
		return BF16
	case int8s:
		return Int8
	case oneBit:
		return OneBit
	case twoBit:
		return TwoBit
	case *topK:
		return TopK
	case randomK:
		return RandomK
	default:
		return 0
	}
}

// String is the name of the kind, as Parse has it.
func (k Kind) String() string {
	switch k {
	case None:
		return "none"
	case FP16:
		return "fp16"
	case BF16:
		return "bf16"
	case Int8:
		return "int8"
	case OneBit:
		return "onebit"
	case TwoBit:
		return "twobit"
	case TopK:
		return "topk"
	case RandomK:
		return "randomk"
	default:
		return fmt.Sprintf("codec(%d)", uint8(k))
	}
}

// decoder is a codec that decodes codes of a kind, nil for an unknown one.
func (k Kind) decoder() Codec {
	if k < None || k > RandomK {
		return nil
	}
	return build(k.String(), defaultShare)
}

// Block is the number of elements at whose multiples a vector can be cut: the codes of the parts, one after another,
// are the code of the whole. It is 0 for a codec that needs the whole vector.
func Block(c Codec) int {
	switch c := c.(type) {
	case none, fp16, bf16:
		return 1
	case int8s:
		return c.block
	case oneBit:
		return c.chunk
	case twoBit:
		return c.chunk
	default:
		return 0
	}
}

const (
	// limit is the largest magnitude that codecs with a scale take: what is beyond is no gradient, and sums and residuals stay far from overflow.
	limit float32 = 0x1p64
	// smallest is the least threshold.
	smallest float32 = 0x1p-100
	// largestF16 is the largest number of binary16.
	largestF16 float32 = 65504
)

// most is the largest magnitude that a kind takes; 0 is any, NaNs too.
func (k Kind) most() float32 {
	switch k {
	case None, BF16:
		return 0
	case FP16:
		return largestF16
	default:
		return limit
	}
}

// check wants no magnitude above top; 0 is any.
func check(k Kind, x []float32, top float32) error {
	if top == 0 || vec.MaxAbs(x) <= top {
		return nil
	}
	for i, v := range x {
		if !(v <= top && v >= -top) {
			return fmt.Errorf("encode %s: element %d of %d is %v, over %v: %w", k, i, len(x), v, top, ErrNotFinite)
		}
	}
	return nil
}

// wrongLen is the error of a code that is not as long as it must be.
func wrongLen(k Kind, n, got, want int) error {
	return fmt.Errorf("decode %s: %d bytes for %d elements, want %d: %w", k, got, n, want, ErrMalformed)
}

// uvarint reads a varint; used is 0 if b ends in it, and negative if it is not as short as it can be or over 64 bits.
func uvarint(b []byte) (v uint64, used int) {
	v, used = binary.Uvarint(b)
	if used > 1 && b[used-1] == 0 {
		return 0, -used
	}
	return v, used
}

// grow makes room for n more bytes, of unknown content, and returns them too.
func grow(dst []byte, n int) (all, more []byte) {
	at := len(dst)
	if cap(dst)-at < n {
		dst = append(dst, make([]byte, n)...)
	} else {
		dst = dst[:at+n]
	}
	return dst, dst[at:]
}
