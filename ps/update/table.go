package update

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"hcclps/ps/optim"
	"hcclps/ps/table"
	"hcclps/ps/wire"
)

const (
	// MaxDim bounds the width of a row.
	MaxDim  = 1 << 16
	maxName = 255
)

// Policies for gradients that are not finite (wire.Table.NonFinite).
const (
	Reject = "reject" // the step is refused
	Zero   = "zero"   // the value counts as 0
	Clip   = "clip"   // an infinity counts as the largest float32, a NaN as 0
)

// Config is what a table must know that its description does not say.
type Config struct {
	HashSeed uint64            // of the partition function
	Budget   *table.Budget     // of copies for captures; nil: one of its own
	Memory   *table.Memory     // counts the bytes of tables; nil: nobody does
	Cold     func() table.Cold // makes the store of rows of an embedding that Memory has no room for; nil: all stay there
	Momenta  bool              // whoever applies makes momenta of gradients where a rule wants them: see Table.Momentum
}

// Table is a table with its optimizer.
type Table struct {
	Spec wire.Table
	Opt  optim.State
	Rows *table.Table `json:"-"`
	// Seen is what the admission of keys remembers of those without a row, as rows; nil: nothing. Who keeps Rows keeps Seen too.
	Seen *table.Table `json:"-"`
	Kept Kept         `json:"kept,omitzero"`

	rule  optim.Rule
	still bool     // the rule wants momenta, which nobody makes here
	gate  gate     // nil: every key is admitted
	evict *evictor // nil: no row is evicted
	work  scratch
}

// New makes an empty table from its description, or says what is wrong with that.
func New(spec wire.Table, cfg Config) (*Table, error) {
	if !wire.ValidName(spec.Name) {
		return nil, fmt.Errorf("table %d: want a name (UTF-8, 1 to %d bytes)", spec.ID, maxName)
	}
	if spec.Dim == 0 || spec.Dim > MaxDim {
		return nil, fmt.Errorf("table %q: %d values a row: want 1 to %d", spec.Name, spec.Dim, MaxDim)
	}
	switch spec.NonFinite {
	case Reject, Zero, Clip:
	default:
		return nil, fmt.Errorf("table %q: policy %q for gradients that are not finite: want %s, %s or %s", spec.Name, spec.NonFinite, Reject, Zero, Clip)
	}
	if err := checkCodec(spec.Compress); err != nil {
		return nil, fmt.Errorf("table %q: %w", spec.Name, err)
	}
	if err := spec.Schedule.Validate(); err != nil {
		return nil, fmt.Errorf("table %q: %w", spec.Name, err)
	}
	if err := checkKeeping(&spec); err != nil {
		return nil, fmt.Errorf("table %q: %w", spec.Name, err)
	}
	rule, err := optim.New(optim.Config{Name: spec.Optimizer, Params: spec.Params})
	if err != nil {
		return nil, fmt.Errorf("table %q: %w", spec.Name, err)
	}
	_, momenta := rule.(optim.MomentumRule)
	if momenta && spec.Shape == nil {
		return nil, fmt.Errorf("table %q: %s is for dense tensors: give embeddings adam", spec.Name, spec.Optimizer)
	}
	ini, err := initOf(spec.Init, spec.InitParams)
	if err != nil {
		return nil, fmt.Errorf("table %q: %w", spec.Name, err)
	}
	dim, cold := int(spec.Dim), cfg.Cold
	if spec.Shape != nil {
		cold = nil // all of a dense tensor is used in each step
	}
	rows, err := table.New(table.Spec{
		Dim: dim, Slots: rule.Slots(dim), SlotInit: rule.SlotInit(dim),
		Init: ini, Seed: spec.Seed, HashSeed: cfg.HashSeed, Budget: cfg.Budget,
		Memory: cfg.Memory, Cold: cold,
	})
	if err != nil {
		return nil, fmt.Errorf("table %q: %w", spec.Name, err)
	}
	t := &Table{Spec: spec, rule: rule, still: momenta && !cfg.Momenta, Rows: rows, evict: newEvictor(&spec, rows.Spec().Stride())}
	if t.gate, t.Seen, err = newGate(&spec, cfg); err != nil {
		return nil, fmt.Errorf("table %q: %w", spec.Name, err)
	}
	return t, nil
}

// checkKeeping says what is wrong with the rules of admission and eviction.
func checkKeeping(spec *wire.Table) error {
	if spec.Shape != nil && (spec.Admit != (wire.Admit{}) || spec.Evict != (wire.Evict{})) {
		return errors.New("a dense tensor has all its rows: admission and eviction are for embeddings")
	}
	return errors.Join(spec.Admit.Validate(), spec.Evict.Validate())
}

// Close frees the memory of rows.
func (t *Table) Close() error {
	err := t.Rows.Close()
	if t.Seen != nil {
		err = errors.Join(err, t.Seen.Close())
	}
	return err
}

// Restore gives a table without rows what another knew beside them.
func (t *Table) Restore(opt optim.State, kept Kept) error {
	if err := kept.check(); err != nil {
		return fmt.Errorf("table %q: %w", t.Spec.Name, err)
	}
	if len(kept.Marks) == 0 {
		kept.Marks = nil
	}
	t.Opt, t.Kept = opt, kept
	return nil
}

// initOf reads the parameters of an initializer: constant: value; uniform: low,
// high; normal and truncnormal: mean, std; the xavier and he kinds: fan_in,
// fan_out.
func initOf(kind string, params map[string]float64) (table.Init, error) {
	ini := table.Init{Kind: kind}
	for _, name := range slices.Sorted(maps.Keys(params)) {
		v := params[name]
		switch {
		case name == "value" && kind == "constant", name == "low" && kind == "uniform", name == "mean" && (kind == "normal" || kind == "truncnormal"):
			ini.A = float32(v)
		case name == "high" && kind == "uniform", name == "std" && (kind == "normal" || kind == "truncnormal"):
			ini.B = float32(v)
		case (name == "fan_in" || name == "fan_out") && v >= 0 && v <= 1<<31:
			if name == "fan_in" {
				ini.FanIn = int(v)
			} else {
				ini.FanOut = int(v)
			}
		default:
			return ini, fmt.Errorf("initializer %q has no parameter %q that can be %v", kind, name, v)
		}
	}
	return ini, nil
}

// Width is the number of values of a row: weights and optimizer slots.
func (t *Table) Width() int {
	spec := t.Rows.Spec()
	return spec.Dim + spec.Slots
}

// The reasons to refuse a gradient, for errors.Is.
var (
	ErrNonFinite = errors.New("non-finite gradient")
	ErrUnfit     = errors.New("gradient does not fit")
)

// Takes checks a gradient of the table, of which value number bad is not finite
// (-1: none is). Where the table's policy says so, values are mended in place.
func (t *Table) Takes(s wire.Section, bad int) error {
	switch {
	case t.still:
		return refusal{fmt.Sprintf("table %q learns by %s, for which workers have to sum gradients themselves: train it in mode allreduce or hybrid", t.Spec.Name, t.Spec.Optimizer), ErrUnfit}
	case s.Dim != int(t.Spec.Dim):
		return refusal{fmt.Sprintf("table %q has rows of %d values, the gradient of %d", t.Spec.Name, t.Spec.Dim, s.Dim), ErrUnfit}
	case bad < 0:
	case t.Spec.NonFinite == Reject:
		return refusal{fmt.Sprintf("table %q, key %d: the gradient is %v", t.Spec.Name, s.Keys[bad/s.Dim], s.Values[bad]), ErrNonFinite}
	default:
		mend(s.Values, t.Spec.NonFinite)
	}
	return nil
}

// refusal says in its own words what is of a kind.
type refusal struct {
	text string
	kind error
}

func (r refusal) Error() string { return r.text }
func (r refusal) Unwrap() error { return r.kind }

// Advance counts one more step. It comes once a step, before Apply.
func (t *Table) Advance() { t.rule.Advance(&t.Opt) }

// Step is the update of this step; rate multiplies the learning rate.
func (t *Table) Step(rate float32) table.Updater { return t.rule.Step(&t.Opt, rate) }

// Apply updates the rows of a gradient that Takes has let pass; u is that of Step. Keys that the table does not admit are left out.
func (t *Table) Apply(s wire.Section, stamp table.Stamp, u table.Updater) error {
	stamp.Halving = uint32(t.Spec.Evict.HalfLife)
	if t.gate != nil {
		if t.work.missing = t.Rows.Missing(s.Keys, t.work.missing[:0]); len(t.work.missing) > 0 {
			var err error
			if s, err = t.admitted(s, stamp, t.work.missing); err != nil {
				return err
			}
		}
	}
	if err := t.Rows.Apply(s.Keys, s.Values, stamp, u); err != nil {
		return fmt.Errorf("update table %q: %w", t.Spec.Name, err)
	}
	return nil
}

// mend replaces values that are not finite.
func mend(values []float32, policy string) { Mend(values, policy, math.MaxFloat32) }

// Mend replaces values that are not finite, or over top, as a policy other than Reject says.
func Mend(values []float32, policy string, top float32) {
	for i, v := range values {
		switch {
		case v <= top && v >= -top:
		case policy == Zero || v != v: // a NaN differs from itself
			values[i] = 0
		case v > 0:
			values[i] = top
		default:
			values[i] = -top
		}
	}
}

func finite(v float32) bool { return math.Float32bits(v)&0x7f800000 != 0x7f800000 }
