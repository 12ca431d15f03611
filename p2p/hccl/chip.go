package hccl

import (
	"fmt"
	"strings"

	"hcclps/p2p"
	"hcclps/p2p/hccl/acl"
)

// family is a generation of chips, by what HCCL can do on it.
type family string

const (
	family910A    family = "910A"
	family910B    family = "910B"
	familyA3      family = "A3"
	family950     family = "950"
	family310P    family = "310P"
	familyUnknown family = "unknown"
)

// familyOf sorts the name that the runtime gives a chip.
func familyOf(soc string) family {
	switch name := strings.TrimPrefix(soc, "Ascend"); {
	case strings.HasPrefix(name, "910_93"):
		return familyA3
	case strings.HasPrefix(name, "910B"):
		return family910B
	case name == "910", strings.HasPrefix(name, "910A"), strings.HasPrefix(name, "910Pro"), strings.HasPrefix(name, "910Premium"):
		return family910A
	case strings.HasPrefix(name, "310P"):
		return family310P
	case strings.HasPrefix(name, "950"):
		return family950
	default:
		return familyUnknown
	}
}

// canAbort says whether work can be taken back from a stream.
func (f family) canAbort() bool { return f != family910A && f != family310P }

// ringSize is how many devices of a server with 910A share a ring: two devices of different rings cannot pair.
const ringSize = 4

// checkChip refuses chips on which two ranks cannot exchange messages at all.
func checkChip(soc string) error {
	if familyOf(soc) == family310P {
		return fmt.Errorf("use chip %s: HCCL has no Send and Recv on it: %w", soc, ErrChip)
	}
	return nil
}

// agree decides whether two devices can pair. It is the same function of the two on both sides.
func agree(a, b hello) error {
	switch fa, fb := familyOf(a.Chip), familyOf(b.Chip); {
	case a.Protocol != b.Protocol:
		return fmt.Errorf("pair protocols %d and %d: run the same version on both hosts: %w", a.Protocol, b.Protocol, ErrRefused)
	case a.Rank == b.Rank:
		return fmt.Errorf("pair two sides that both are rank %d: %w", a.Rank, ErrRefused)
	case fa == family310P || fb == family310P:
		return fmt.Errorf("pair chips %s and %s: HCCL has no Send and Recv on 310P: %w", a.Chip, b.Chip, ErrChip)
	case fa != fb:
		return fmt.Errorf("pair chips %s and %s: they are of different families: %w", a.Chip, b.Chip, ErrChip)
	case (a.Simulator != "") != (b.Simulator != ""):
		return fmt.Errorf("pair a simulator with a device: %w", ErrRefused)
	case a.Version != b.Version:
		return fmt.Errorf("pair CANN runtime %s with %s: install the same on both hosts: %w", a.Version, b.Version, ErrRefused)
	case a.key() == b.key():
		return fmt.Errorf("pair device %d of host %s with itself: one rank a device: %w", a.Physical, a.Host, ErrRefused)
	case fa == family910A && a.Host == b.Host && a.Physical/ringSize != b.Physical/ringSize:
		return fmt.Errorf("pair devices %d and %d of one server with %s: 0-3 and 4-7 are separate rings: %w",
			min(a.Physical, b.Physical), max(a.Physical, b.Physical), a.Chip, ErrChip)
	}
	return nil
}

// reduces says whether HCCL folds elements of a type by an operator on every chip of the family, however its operators are expanded.
func (f family) reduces(t acl.DataType, op acl.ReduceOp) bool {
	switch t {
	case acl.Float32, acl.Float16, acl.Int32:
		return op != acl.Prod || f != familyA3
	case acl.Int64:
		return f == family910A || f == family910B || f == family950
	case acl.BFloat:
		return op != acl.Prod && (f == family910B || f == familyA3 || f == family950)
	default:
		return false
	}
}

// Reduces says whether the AllReduce, Reduce and ReduceScatter of a World on devices of this kind take a type with an operator.
func (d *Device) Reduces(t p2p.DType, op acl.ReduceOp) bool {
	number, err := dataType(t)
	return err == nil && familyOf(d.self.Chip).reduces(number, op)
}
