package wire

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Schedule is how a table's learning rate changes from step to step: a factor of
// the optimizer's rate. It is part of the table's description; the leader
// of a shard evaluates it at the step of what it logs, and the factor travels in
// the entry. The zero value is a constant rate.
type Schedule struct {
	// Kind is what follows the warm-up: constant (or empty), linear, cosine, step
	// or inverse_sqrt.
	Kind string `json:"kind,omitempty"`
	// Warmup is the number of first steps in which the factor climbs from
	// 1/Warmup to 1 by equal parts.
	Warmup uint64 `json:"warmup,omitempty"`
	// Steps: linear and cosine reach Floor so many steps after the warm-up and stay
	// there; step multiplies by Decay after each Steps steps.
	Steps uint64 `json:"steps,omitempty"`
	// Floor is the factor that linear and cosine end at, from 0 to 1.
	Floor float64 `json:"floor,omitempty"`
	// Decay of step is above 0 and at most 1.
	Decay float64 `json:"decay,omitempty"`
}

// Schedules lists the kinds in alphabetical order.
func Schedules() []string {
	return []string{"constant", "cosine", "inverse_sqrt", "linear", "step"}
}

// Validate reports every fault of a schedule.
func (s Schedule) Validate() error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("schedule "+format, args...))
	}
	if s.Kind != "" && !slices.Contains(Schedules(), s.Kind) {
		fault("%q is unknown: want one of %s", s.Kind, strings.Join(Schedules(), ", "))
	}
	ramp := s.Kind == "linear" || s.Kind == "cosine"
	switch {
	case (ramp || s.Kind == "step") && s.Steps == 0:
		fault("%s: give the steps it takes", s.Kind)
	case !ramp && s.Kind != "step" && s.Steps != 0:
		fault("%s takes no steps", s.name())
	}
	if ramp && !(s.Floor >= 0 && s.Floor <= 1) || !ramp && s.Floor != 0 {
		fault("%s: floor %v: want 0 to 1, for linear and cosine only", s.name(), s.Floor)
	}
	if s.Kind == "step" && !(s.Decay > 0 && s.Decay <= 1) || s.Kind != "step" && s.Decay != 0 {
		fault("%s: decay %v: want above 0 and at most 1, for step only", s.name(), s.Decay)
	}
	return errors.Join(faults...)
}

// Constant says whether the factor is 1 at every step.
func (s Schedule) Constant() bool { return s.name() == "constant" && s.Warmup == 0 }

// String names the kind and what is not 0.
func (s Schedule) String() string {
	var b strings.Builder
	b.WriteString(s.name())
	for _, p := range []struct {
		name  string
		value float64
	}{{"warmup", float64(s.Warmup)}, {"steps", float64(s.Steps)}, {"floor", s.Floor}, {"decay", s.Decay}} {
		if p.value != 0 {
			fmt.Fprintf(&b, " %s=%v", p.name, p.value)
		}
	}
	return b.String()
}

func (s Schedule) name() string {
	if s.Kind == "" {
		return "constant"
	}
	return s.Kind
}

// At is the factor at a step, from 0. With n steps since the warm-up and t the
// lesser of n / Steps and 1:
//
//	linear        Floor + (1 - Floor) * (1 - t)
//	cosine        Floor + (1 - Floor) * (1 + cos(pi * t)) / 2      (Loshchilov and Hutter, ICLR 2017, without restarts)
//	step          Decay ^ floor(n / Steps)
//	inverse_sqrt  sqrt(w / (w + n)), w the larger of Warmup and 1  (Vaswani and others, NeurIPS 2017)
func (s Schedule) At(step uint64) float32 {
	if step < s.Warmup {
		return float32(float64(step+1) / float64(s.Warmup))
	}
	n := float64(step - s.Warmup)
	switch s.Kind {
	case "linear":
		return float32(s.Floor + (1-s.Floor)*(1-min(n/float64(s.Steps), 1)))
	case "cosine":
		return float32(s.Floor + (1-s.Floor)*(1+math.Cos(math.Pi*min(n/float64(s.Steps), 1)))/2)
	case "step":
		return float32(math.Pow(s.Decay, math.Floor(n/float64(s.Steps))))
	case "inverse_sqrt":
		w := float64(max(s.Warmup, 1))
		return float32(math.Sqrt(w / (w + n)))
	default:
		return 1
	}
}
