package worker

import (
	"context"
	"fmt"

	"hcclps/internal/trace"
	"hcclps/worker/dataset"
)

// Model is what a user writes: Step runs the forward pass over the batch and,
// if s.Training(), the backward pass, giving gradients to s.Grad.
type Model interface {
	Step(s *Step) error
}

// Ragged is a multi-valued feature of a batch: row i holds the keys
// Keys[Offsets[i]:Offsets[i+1]], each with a weight. One that Step.Ragged gave
// is read ahead for the next batch; a model may also make its own.
type Ragged struct {
	Offsets []int32
	Keys    []uint64
	Weights []float32
	feature string // name of the feature; empty: of the model's making
}

// Tensor is a flat slice with a shape. It is reused between steps and valid
// until Step returns.
type Tensor struct {
	Shape []int
	Data  []float32
	of    *operand
}

// Step is one batch on its way through a model.
type Step struct {
	c        *Client
	ctx      context.Context //nolint:containedctx // a model's Step takes no context of its own
	batch    *dataset.Batch
	training bool
	final    bool // read after every worker has finished

	out         *replica   // where dense gradients leave for at once; nil: nowhere
	clock       *stopwatch // of the goroutine that trains; nil: another one's
	half        trace.Span // forward, or backward
	accumulates bool       // a step may be several batches
	tallies     []*tally   // their gradients so far, in order of use

	ready    []*operand // read ahead for this batch, in order of use
	operands []*operand // used so far
	readings []*reading // those of this batch
	free     []*reading
	habits   []habit // the uses of the batch before
	uniq     uniquer
	early    uniquer       // of the goroutine that reads ahead
	sums     []gradientSum // of the tables of a push

	lossSum  float64
	lossRows int
	scores   []float32
	fault    error // a request the batch could not answer
}

// Context ends when training is cancelled.
func (s *Step) Context() context.Context { return s.ctx }

// Training says whether gradients are wanted.
func (s *Step) Training() bool { return s.training }

// Rows is the number of rows in the batch.
func (s *Step) Rows() int { return s.batch.Rows }

// Label holds one label a row.
func (s *Step) Label() []float32 { return s.batch.Label }

// Weight holds one weight a row, 1 where the data has none.
func (s *Step) Weight() []float32 { return s.batch.Weight }

// Batch is the batch under way. It is read only and valid until Step returns.
func (s *Step) Batch() *dataset.Batch { return s.batch }

// Ragged is a sparse feature of the batch; that of a libsvm file is named
// dataset.Features. Asking for one that the data does not have fails the step
// after the model has returned.
func (s *Step) Ragged(feature string) Ragged {
	r, ok := ragged(s.batch, feature)
	if !ok {
		s.missed("sparse", feature)
		r = Ragged{Offsets: make([]int32, s.batch.Rows+1)}
	}
	return r
}

func ragged(b *dataset.Batch, feature string) (Ragged, bool) {
	c := b.Column(feature)
	if c == nil || c.Offsets == nil {
		return Ragged{}, false
	}
	return Ragged{Offsets: c.Offsets, Keys: c.Keys, Weights: c.Weights, feature: feature}, true
}

// Numeric is a numeric feature of the batch, one value a row. Asking for one
// that the data does not have fails the step after the model has returned.
func (s *Step) Numeric(feature string) []float32 {
	if c := s.batch.Column(feature); c != nil && c.Numeric != nil {
		return c.Numeric
	}
	s.missed("numeric", feature)
	return make([]float32, s.batch.Rows)
}

// missed keeps the first request for a feature that is not there.
func (s *Step) missed(kind, feature string) {
	if s.fault != nil {
		return
	}
	names := make([]string, len(s.batch.Features))
	for i, f := range s.batch.Features {
		names[i] = f.Name
	}
	s.fault = fmt.Errorf("the data has no %s feature %q: it has %q", kind, feature, names)
}

// forward runs the model over the batch.
func (s *Step) forward(m Model) error {
	s.half = s.clock.begin("forward")
	err := m.Step(s)
	s.half.End()
	if err != nil {
		return err
	}
	s.learn()
	return s.fault
}

// Loss adds a batch's loss: its sum over rows.
func (s *Step) Loss(sum float64, rows int) {
	s.lossSum += sum
	s.lossRows += rows
}

// Score gives one score a row, for evaluation and prediction.
func (s *Step) Score(scores []float32) { s.scores = append(s.scores, scores...) }

// begun sets the context of all reads of the steps to come.
func (s *Step) begun(ctx context.Context) { s.ctx = ctx }

// begin makes the step ready for a batch, with what was read for it.
func (s *Step) begin(b *dataset.Batch, pre *ahead) {
	s.batch, s.fault = b, nil
	s.lossSum, s.lossRows, s.scores = 0, 0, s.scores[:0]
	if pre != nil {
		s.ready, s.readings = append(s.ready, pre.uses...), append(s.readings, pre.readings...)
	}
}

// end takes the memory of this step's reads back.
func (s *Step) end() {
	s.free = append(s.free, s.readings...)
	s.operands, s.ready, s.readings = s.operands[:0], s.ready[:0], s.readings[:0]
}
