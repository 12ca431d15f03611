// Package optim holds the update rules that servers apply to rows of weights.
//
// A rule is a value made by New from a name and parameters. Once per log entry the owner calls Advance on the table's replicated State and
// then Step, and gives the Updater to the table, which calls it for every row:
//
//	rule, err := optim.New(optim.Config{Name: "adagrad", Params: map[string]float64{"lr": 0.1}})
//	rule.Advance(&state)
//	err = t.Apply(keys, grads, stamp, rule.Step(&state, 1))
//
// # Rules, parameters and defaults
//
//	sgd      lr 0.01  weight_decay 0                                       no slot
//	adagrad  lr 0.05  eps 1e-10  initial_accumulator 0.1  weight_decay 0   slot: sum of squares
//	adam     lr 0.001 beta1 0.9  beta2 0.999  eps 1e-8  weight_decay 0     slots: first and second moment
//
// weight_decay is the L2 form everywhere: it is added to the gradient. Rules see only the rows a push names; on embedding rows adam
// therefore is what PyTorch calls SparseAdam: the moments of other rows rest.
//
// # Arithmetic
//
// Every element is computed in float64 from its float32 state and rounded once to each float32 that is stored, by + - * / and sqrt alone, with an
// explicit conversion around every product, so that no compiler fuses it with a sum. The bits are the same on every CPU; a result that
// is not a number is stored as 0x7fc00000, since CPUs differ in the bits they choose.
//
// Everything here may be called concurrently, except that Advance changes its State.
package optim

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// Config names a rule and its parameters; a parameter not given has its default.
type Config struct {
	Name   string
	Params map[string]float64
}

// State is the part of a rule that belongs to the whole table. It is replicated, as plain fields, and advances once an entry.
type State struct {
	Steps uint64     // calls of Advance
	Pow   [2]float64 // beta1 and beta2 to the power of Steps, by repeated products; 0 before the first step
}

// Updater changes one row in place: the weights, as many as the gradient has, then each slot. It neither allocates nor keeps its arguments.
type Updater interface {
	Update(row, grad []float32)
}

// Rule is one optimizer with its parameters.
type Rule interface {
	// Config is the name and all parameters, defaults filled in; the map is the caller's.
	Config() Config
	// Slots is the number of float32 of state per weight.
	Slots() int
	// SlotInit is the first value of each slot.
	SlotInit() []float32
	// Advance counts one more step. It comes before Step.
	Advance(s *State)
	// Step is the update of one step. rate multiplies the learning rate: 1, or what a schedule says.
	Step(s *State, rate float32) Updater
}

// New makes a rule. An unknown name or parameter, or a value out of range, is refused; the error joins all faults and gives the nearest valid name.
func New(c Config) (Rule, error) {
	params := paramsOf(c.Name)
	if params == nil {
		return nil, fmt.Errorf("check optimizer: unknown name %q: nearest is %q", c.Name, Nearest(c.Name, Names()))
	}
	p, err := resolve(c, params)
	if err != nil {
		return nil, err
	}
	base := config{Config{Name: c.Name, Params: p}}
	switch c.Name {
	case "sgd":
		return sgd{config: base, lr: p["lr"], decay: p["weight_decay"]}, nil
	case "adagrad":
		return adagrad{config: base, lr: p["lr"], eps: p["eps"], first: p["initial_accumulator"], decay: p["weight_decay"]}, nil
	default:
		return adam{config: base, lr: p["lr"], beta1: p["beta1"], beta2: p["beta2"], eps: p["eps"], decay: p["weight_decay"]}, nil
	}
}

// Names lists the rules in alphabetical order.
func Names() []string { return []string{"adagrad", "adam", "sgd"} }

// param is a parameter's name, default and range.
type param struct {
	name     string
	value    float64
	min, max float64
	above    bool // min itself is refused
	below    bool // max itself is refused
}

func paramsOf(name string) []param {
	rate := func(lr float64) param { return param{name: "lr", value: lr, max: 1e6} }
	decay := param{name: "weight_decay", max: 1e6}
	switch name {
	case "sgd":
		return []param{rate(0.01), decay}
	case "adagrad":
		return []param{
			rate(0.05), decay,
			{name: "eps", value: 1e-10, max: 1, above: true},
			{name: "initial_accumulator", value: 0.1, max: 1e6},
		}
	case "adam":
		return []param{
			rate(0.001), decay,
			{name: "eps", value: 1e-8, max: 1, above: true},
			{name: "beta1", value: 0.9, max: 1, below: true},
			{name: "beta2", value: 0.999, max: 1, below: true},
		}
	}
	return nil
}

// resolve fills in the defaults and checks what is given, in alphabetical order.
func resolve(c Config, params []param) (map[string]float64, error) {
	values := make(map[string]float64, len(params))
	names := make([]string, 0, len(params))
	for _, p := range params {
		values[p.name] = p.value
		names = append(names, p.name)
	}
	slices.Sort(names)
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(c.Params)) {
		v := c.Params[name]
		at := slices.IndexFunc(params, func(p param) bool { return p.name == name })
		if at < 0 {
			faults = append(faults, fmt.Errorf("check optimizer %s: unknown parameter %q: nearest is %q", c.Name, name, Nearest(name, names)))
			continue
		}
		if p := params[at]; !p.allows(v) {
			faults = append(faults, fmt.Errorf("check optimizer %s: %s = %v: give %s", c.Name, name, v, p.limits()))
			continue
		}
		values[name] = v
	}
	return values, errors.Join(faults...)
}

func (p param) allows(v float64) bool {
	return v >= p.min && v <= p.max && (!p.above || v > p.min) && (!p.below || v < p.max)
}

func (p param) limits() string {
	lower, upper := "at least", "at most"
	if p.above {
		lower = "above"
	}
	if p.below {
		upper = "below"
	}
	return fmt.Sprintf("%s %v and %s %v", lower, p.min, upper, p.max)
}

// config is the part all rules share.
type config struct{ c Config }

func (c config) Config() Config { return Config{Name: c.c.Name, Params: maps.Clone(c.c.Params)} }

// rounded is the float32 nearest to v; all NaNs become one.
func rounded(v float64) float32 {
	f := float32(v)
	if f != f {
		return math.Float32frombits(0x7fc00000)
	}
	return f
}
