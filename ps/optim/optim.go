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
//	sgd              lr 0.01  weight_decay 0                                       no slot
//	momentum         lr 0.01  momentum 0.9  weight_decay 0                         slot: speed
//	nesterov         as momentum                                                   slot: speed
//	adagrad          lr 0.05  eps 1e-10  initial_accumulator 0.1  weight_decay 0   slot: sum of squares
//	rowwise_adagrad  as adagrad                                                    one float32 a row: sum of mean squares
//	rmsprop          lr 0.01  alpha 0.99  eps 1e-8  weight_decay 0                 slot: mean of squares
//	adam             lr 0.001 beta1 0.9  beta2 0.999  eps 1e-8  weight_decay 0     slots: first and second moment
//	lazy_adam        as adam                                                       slots: the same, and one float32 a row: its steps
//	adamw            as adam, but weight_decay 0.01, decoupled                     slots: first and second moment
//	amsgrad          as adam                                                       slots: the same, and the largest second moment
//	ftrl             lr 0.1  beta 1  l1 0  l2 0  initial_accumulator 0             slots: z and n
//	lamb             as adam, but eps 1e-6 and weight_decay 0.01, decoupled        slots: first and second moment
//	onebit_adam      as adam, and freeze_step 1000  floor 0.1                      slots: the same, and one float32 a row: whether the second one stands
//
// weight_decay is the L2 form unless it is called decoupled: it is added to the gradient. Rules see only the rows a push names; on embedding rows adam
// therefore is what PyTorch calls SparseAdam: the moments of other rows rest. lamb takes its norms over a row. onebit_adam is adam for freeze_step steps, and
// then wants momenta in the place of gradients: see [MomentumRule].
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
	"fmt"
	"math"
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

// Updater changes one row in place: the weights, as many as the gradient has, then the optimizer slots, Slots of them. It neither allocates nor keeps its
// arguments, and may be used by many goroutines.
type Updater interface {
	Update(row, grad []float32)
}

// Rule is one optimizer with its parameters.
type Rule interface {
	// Config is the name and all parameters, defaults filled in; the map is the caller's.
	Config() Config
	// Slots is the number of float32 of state in a row of dim weights.
	Slots(dim int) int
	// SlotInit is the first value of each of them; the slice is the caller's.
	SlotInit(dim int) []float32
	// Advance counts one more step. It comes before Step.
	Advance(s *State)
	// Step is the update of one step. rate multiplies the learning rate: 1, or what a schedule says.
	Step(s *State, rate float32) Updater
}

// New makes a rule. An unknown name or parameter, or a value out of range, is refused; the error joins all faults and gives the nearest valid name.
func New(c Config) (Rule, error) {
	for _, k := range kinds() {
		if k.name != c.Name {
			continue
		}
		p, err := resolve(c, k.params)
		if err != nil {
			return nil, err
		}
		return k.make(config{Config{Name: c.Name, Params: p}}, p), nil
	}
	return nil, fmt.Errorf("check optimizer: unknown name %q: nearest is %q", c.Name, Nearest(c.Name, Names()))
}

// Names lists the rules in alphabetical order.
func Names() []string {
	var names []string
	for _, k := range kinds() {
		names = append(names, k.name)
	}
	return names
}

// rounded is the float32 nearest to v; all NaNs become one.
func rounded(v float64) float32 {
	f := float32(v)
	if f != f {
		return math.Float32frombits(0x7fc00000)
	}
	return f
}
