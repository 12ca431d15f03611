package model

import (
	"context"

	"hcclps/internal/vec"
	"hcclps/worker"
	"hcclps/worker/dataset"
)

// beside is a deep network beside a linear part, over vectors that both models of this kind find in their own way.
type beside struct {
	linear *linear
	deep   *mlp
	width  int // of the deep input
	head   head
	logits []float32
	input  []float32
	grad   []float32
}

// vectors lays the first floats of the deep input of each row, and adds to the logits.
type vectors interface {
	forward(s *worker.Step, logits, input []float32, width int) error
	backward(logits, input []float32, width int)
}

// newBeside is for vectors of so many floats a row, which the numeric features follow.
func newBeside(ctx context.Context, st *store, name string, schema *dataset.Schema, vectors int) beside {
	b := beside{linear: newLinear(ctx, st, name, numeric(schema))}
	b.width = vectors + len(b.linear.names)
	b.deep = newMLP(ctx, st, "deep", b.width, tapered(st.o.Hidden), false)
	return b
}

// tapered is the units of a network that ends in one logit.
func tapered(hidden []int) []int { return append(append([]int(nil), hidden...), 1) }

func (b *beside) step(s *worker.Step, v vectors) error {
	n := s.Rows()
	b.logits, b.input = zeroed(b.logits, n), sized(b.input, n*b.width)
	if err := v.forward(s, b.logits, b.input, b.width); err != nil {
		return err
	}
	bias, err := b.linear.forward(s, b.logits)
	if err != nil {
		return err
	}
	b.linear.fill(b.input, b.width)
	deep, err := b.deep.forward(s, b.input)
	if err != nil {
		return err
	}
	vec.Add(b.logits, deep)
	grad := b.head.clicks(s, b.logits, bias)
	if !s.Training() {
		return nil
	}
	b.linear.backward(s, grad)
	b.grad = append(b.grad[:0], grad...)
	v.backward(grad, b.deep.backward(s, b.grad), b.width)
	return nil
}
