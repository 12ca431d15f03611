package p2p

import "fmt"

// DType is the type of an element of a tensor. Values are stable: they appear on the wire.
type DType uint8

// The element types. Zero is not one of them, so that a forgotten field is noticed.
const (
	Float32 DType = iota + 1
	Float16
	BFloat16
	Float64
	Int32
	Int64
	Uint8
)

// Size is the number of bytes of an element, 0 for an unknown type.
func (d DType) Size() int {
	switch d {
	case Float64, Int64:
		return 8
	case Float32, Int32:
		return 4
	case Float16, BFloat16:
		return 2
	case Uint8:
		return 1
	default:
		return 0
	}
}

// String is the name that ParseDType accepts.
func (d DType) String() string {
	switch d {
	case Float32:
		return "float32"
	case Float16:
		return "float16"
	case BFloat16:
		return "bfloat16"
	case Float64:
		return "float64"
	case Int32:
		return "int32"
	case Int64:
		return "int64"
	case Uint8:
		return "uint8"
	default:
		return fmt.Sprintf("dtype(%d)", uint8(d))
	}
}

// ParseDType is the inverse of String.
func ParseDType(s string) (DType, error) {
	for d := Float32; d <= Uint8; d++ {
		if d.String() == s {
			return d, nil
		}
	}
	return 0, fmt.Errorf("parse dtype %q: want float32, float16, bfloat16, float64, int32, int64 or uint8", s)
}
