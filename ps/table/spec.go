package table

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Partitions is the number of virtual hash buckets every table is cut into. It is part of every format and never changes.
const Partitions = 1024

const (
	headBytes  = 16      // of a row record, before its values
	maxRow     = 1 << 20 // bytes of a row record
	maxSlots   = 4       // float32 of state per weight
	pageUnits  = 8       // copy units of a page
	unitTarget = 4096    // bytes of a copy unit, unless one row is larger
)

// Spec says what a table holds. Everything but Budget, Memory and Cold is part of the schema and must be the same on every replica.
type Spec struct {
	Dim      int       // float32 weights of a row, from 1
	Slots    int       // float32 of optimizer state in a row, 0 to 4 x Dim
	SlotInit []float32 // first value of each of them; nil means zeros
	Init     Init      // first weights of a row
	Seed     uint64    // of the initial weights
	HashSeed uint64    // of the partition function
	Budget   *Budget   // of copies made for captures; nil means one of its own, with the default limit

	Memory *Memory     // counts the table's bytes; nil: nobody does
	Cold   func() Cold // makes the store of rows that Memory has no room for; nil, or no Memory: all rows stay in memory
}

// Init names how the weights of a row begin. The zero value means zeros. See the package comment for the arithmetic.
type Init struct {
	// Kind is one of Kinds; empty means "zeros".
	Kind string
	// A and B are the parameters: constant A; uniform in [A, B]; normal and truncnormal of mean A and deviation B.
	A, B float32
	// FanIn and FanOut are the units that feed a weight and that it feeds; the xavier kinds need both, the he kinds FanIn.
	FanIn, FanOut int
}

// Kinds lists the names of the initializers in alphabetical order.
func Kinds() []string {
	return []string{
		"constant", "he_normal", "he_uniform", "normal", "truncnormal",
		"uniform", "xavier_normal", "xavier_uniform", "zeros",
	}
}

// Stride is the length of a row record in bytes: 16 + 4 x (Dim + Slots).
func (s Spec) Stride() int { return headBytes + 4*(s.Dim+s.Slots) }

// PageRows is the number of rows of a full page: 64, or fewer, down to 8, where eight rows are more than 4 KiB.
func (s Spec) PageRows() int { return pageUnits << s.unitShift() }

// unitShift is the binary logarithm of the rows of a copy unit.
func (s Spec) unitShift() uint {
	shift := uint(3)
	for shift > 0 && s.Stride()<<shift > unitTarget {
		shift--
	}
	return shift
}

// Validate returns all faults joined, or nil.
func (s Spec) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("check table: "+format, args...)) }
	const most = (maxRow - headBytes) / 4
	switch {
	case s.Dim < 1 || s.Dim > most:
		fault("dim %d: give 1 to %d", s.Dim, most)
	case s.Slots < 0 || s.Slots > maxSlots*s.Dim:
		fault("slots %d: give 0 to %d, %d a weight", s.Slots, maxSlots*s.Dim, maxSlots)
	case s.Dim+s.Slots > most:
		fault("dim %d and slots %d: give at most %d together", s.Dim, s.Slots, most)
	}
	if len(s.SlotInit) != 0 && len(s.SlotInit) != s.Slots {
		fault("%d initial values for slots %d: give one each, or none", len(s.SlotInit), s.Slots)
	}
	for i, v := range s.SlotInit {
		if !finite(v) {
			fault("initial value %v of slot %d is not finite", v, i)
		}
	}
	if err := s.Init.validate(); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

func (in Init) validate() error {
	if in.Kind != "" && !slices.Contains(Kinds(), in.Kind) {
		return fmt.Errorf("check table: unknown initializer %q: give one of %s", in.Kind, strings.Join(Kinds(), ", "))
	}
	if !finite(in.A) || !finite(in.B) || !finite(in.B-in.A) {
		return fmt.Errorf("check table: initializer %s with %v and %v: give finite values", in.Kind, in.A, in.B)
	}
	switch in.Kind {
	case "uniform":
		if in.A > in.B {
			return fmt.Errorf("check table: initializer uniform from %v to %v: give the lower first", in.A, in.B)
		}
	case "normal", "truncnormal":
		if in.B < 0 {
			return fmt.Errorf("check table: initializer %s with deviation %v: give 0 or more", in.Kind, in.B)
		}
	case "xavier_uniform", "xavier_normal":
		if in.FanIn < 1 || in.FanOut < 1 {
			return fmt.Errorf("check table: initializer %s with fan in %d and fan out %d: give both, from 1", in.Kind, in.FanIn, in.FanOut)
		}
	case "he_uniform", "he_normal":
		if in.FanIn < 1 {
			return fmt.Errorf("check table: initializer %s with fan in %d: give 1 or more", in.Kind, in.FanIn)
		}
	}
	return nil
}

func finite(v float32) bool { return !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) }
