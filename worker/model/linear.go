package model

import (
	"context"

	"hcclps/worker"
)

// linear is the part of a logit that needs no table: a bias, and weight x value
// over the numeric features.
type linear struct {
	names  []string // of the numeric features
	bias   worker.Dense
	weight worker.Dense // one float a numeric feature; unused without any

	values             [][]float32 // of this step, by feature
	biasNow, weightNow worker.Tensor
}

// newLinear makes the tensors "NAME.bias" and "NAME.numeric".
func newLinear(ctx context.Context, st *store, name string, numeric []string) *linear {
	l := &linear{names: numeric, values: make([][]float32, len(numeric))}
	l.bias = st.zeros(ctx, name+".bias", 1)
	if len(numeric) > 0 {
		l.weight = st.zeros(ctx, name+".numeric", len(numeric))
	}
	return l
}

// forward adds the numeric features' part to the logits and returns the bias,
// which is not in them.
func (l *linear) forward(s *worker.Step, logits []float32) (bias float32, err error) {
	if l.biasNow, err = s.Value(l.bias); err != nil {
		return 0, err
	}
	if len(l.names) == 0 {
		return l.biasNow.Data[0], nil
	}
	if l.weightNow, err = s.Value(l.weight); err != nil {
		return 0, err
	}
	for f, name := range l.names {
		l.values[f] = s.Numeric(name)
		w := l.weightNow.Data[f]
		for i, v := range l.values[f] {
			logits[i] += w * v
		}
	}
	return l.biasNow.Data[0], nil
}

// backward takes the gradient of the loss by each logit.
func (l *linear) backward(s *worker.Step, grad []float32) {
	sumInto(s.GradOf(l.biasNow), grad)
	s.Ready(l.biasNow)
	if len(l.names) == 0 {
		return
	}
	out := s.GradOf(l.weightNow)
	for f, values := range l.values {
		for i, v := range values {
			out[f] += grad[i] * v
		}
	}
	s.Ready(l.weightNow)
}

// fill writes the numeric features to the end of each row of a deep input, after
// forward has read them.
func (l *linear) fill(input []float32, width int) {
	for f, values := range l.values {
		at := width - len(l.values) + f
		for i, v := range values {
			input[i*width+at] = v
		}
	}
}
