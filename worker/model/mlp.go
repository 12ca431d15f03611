package model

import (
	"context"
	"fmt"
	"math"
	"slices"

	"hcclps/internal/vec"
	"hcclps/worker"
)

// mlp is a stack of dense layers, with ReLU between them.
type mlp struct{ layers []*layer }

// layer is y = x W' + b, or the positive part of it.
type layer struct {
	in, out int
	relu    bool
	weight  worker.Dense // [out, in]
	bias    worker.Dense // [out]

	weightNow, biasNow worker.Tensor // of this step
	x                  []float32     // its input, of the layer before
	y, dx              []float32
}

// newMLP makes the tensors "NAME.I.weight" and "NAME.I.bias" of layers of the
// given units after in inputs. The last layer has no ReLU, unless closed says so.
func newMLP(ctx context.Context, st *store, name string, in int, units []int, closed bool) *mlp {
	m := &mlp{}
	for i, out := range units {
		if in < 1 || out < 1 {
			st.fail("%s: a layer of %d inputs and %d units", name, in, out)
			return m
		}
		l := &layer{in: in, out: out, relu: closed || i < len(units)-1}
		init := worker.Init{Name: "he_uniform", Params: map[string]float64{"fan_in": float64(in)}}
		if !l.relu {
			init = worker.Init{Name: "xavier_uniform", Params: map[string]float64{"fan_in": float64(in), "fan_out": float64(out)}}
		}
		l.weight = st.tensor(ctx, fmt.Sprintf("%s.%d.weight", name, i), []int{out, in}, init)
		l.bias = st.zeros(ctx, fmt.Sprintf("%s.%d.bias", name, i), out)
		m.layers = append(m.layers, l)
		in = out
	}
	return m
}

// forward takes x, [rows, in of the first layer], and returns [rows, out of the
// last]. It keeps x until backward.
func (m *mlp) forward(s *worker.Step, x []float32) ([]float32, error) {
	for _, l := range m.layers {
		var err error
		if x, err = l.forward(s, x); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// backward takes the gradient of the loss by what forward returned, which it
// changes, and returns that by x.
func (m *mlp) backward(s *worker.Step, dy []float32) []float32 {
	for _, l := range slices.Backward(m.layers) {
		dy = l.backward(s, dy)
	}
	return dy
}

func (l *layer) forward(s *worker.Step, x []float32) ([]float32, error) {
	var err error
	if l.weightNow, err = s.Value(l.weight); err != nil {
		return nil, err
	}
	if l.biasNow, err = s.Value(l.bias); err != nil {
		return nil, err
	}
	n := s.Rows()
	l.x, l.y = x, sized(l.y, n*l.out)
	vec.GemmTB(l.y, x, l.weightNow.Data, n, l.in, l.out, false)
	for i := range n {
		vec.Add(l.y[i*l.out:][:l.out], l.biasNow.Data)
	}
	if l.relu {
		for i, v := range l.y {
			l.y[i] = max(v, 0)
		}
	}
	return l.y, nil
}

// sumRows is the number of rows whose share of a weight's gradient is summed up
// at once: a step whose rows are cut into batches of a multiple of it gets the
// same bits as one batch.
const sumRows = 64

func (l *layer) backward(s *worker.Step, dy []float32) []float32 {
	n := s.Rows()
	if l.relu {
		reluBack(dy, l.y)
	}
	bias, weight := s.GradOf(l.biasNow), s.GradOf(l.weightNow)
	for i := range n {
		vec.Add(bias, dy[i*l.out:][:l.out])
	}
	for i := 0; i < n; i += sumRows {
		vec.GemmTA(weight, dy[i*l.out:], l.x[i*l.in:], l.out, min(sumRows, n-i), l.in, true)
	}
	s.Ready(l.biasNow)
	s.Ready(l.weightNow)
	l.dx = sized(l.dx, n*l.in)
	vec.Gemm(l.dx, dy, l.weightNow.Data, n, l.out, l.in, false)
	return l.dx
}

// reluBack clears dy where the ReLU gave 0. Half of the units being closed, at
// random, a branch would be foreseen wrongly every other time: the mask is all
// ones for the bits of a number above 0, and no bit for those of 0.
func reluBack(dy, y []float32) {
	for i, v := range y[:len(dy)] {
		mask := uint32(-int32(math.Float32bits(v)) >> 31)
		dy[i] = math.Float32frombits(math.Float32bits(dy[i]) & mask)
	}
}
