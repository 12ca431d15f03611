package model

import (
	"context"

	"hcclps/internal/vec"
	"hcclps/worker"
	"hcclps/worker/dataset"
)

// DLRM is the deep learning recommendation model (Naumov et al., arXiv
// 1906.00091): a bottom network turns the numeric features into a vector as long
// as the pooled vectors of the sparse features; the dot products of all pairs of
// these vectors, and the bottom network's one, are the input of a top network,
// which gives the logit. Without numeric features there is no bottom network.
type DLRM struct {
	fields *pooled
	names  []string // of the numeric features
	bottom *mlp     // nil without them
	top    *mlp
	dim    int
	count  int // vectors a row
	width  int // of the top network's input

	head    head
	numeric []float32 // input of the bottom network
	vectors []float32 // [rows, count, dim]: the fields', then the bottom network's
	input   []float32 // of the top network: the bottom network's vector, then the dot products
	grad    []float32
	below   []float32 // gradient by the bottom network's vector
}

// NewDLRM makes the model for data of the given schema.
func NewDLRM(ctx context.Context, c *worker.Client, schema *dataset.Schema, o Options) (*DLRM, error) {
	return newDLRM(ctx, newStore(c, o.withDefaults(NameDLRM)), schema)
}

func newDLRM(ctx context.Context, st *store, schema *dataset.Schema) (*DLRM, error) {
	fields := st.fields(schema)
	m := &DLRM{names: numeric(schema), dim: st.sameDim(fields)}
	for i := range fields {
		fields[i].dim = m.dim
	}
	m.fields = newPooled(ctx, st, fields, false, 0.1)
	m.count = len(fields)
	if len(m.names) > 0 {
		m.bottom = newMLP(ctx, st, "bottom", len(m.names), append(append([]int(nil), st.o.Hidden...), m.dim), true)
		m.count++
		m.width = m.dim
	}
	m.width += m.count * (m.count - 1) / 2
	if m.count < 2 {
		st.fail("%d sparse and %d numeric features: want two sparse ones, or one and a number: there is no pair to multiply", len(fields), len(m.names))
	}
	m.top = newMLP(ctx, st, "top", m.width, tapered(st.o.Hidden), false)
	return m, st.err
}

// Step implements worker.Model.
func (m *DLRM) Step(s *worker.Step) error {
	n, row := s.Rows(), m.count*m.dim
	m.vectors, m.input = sized(m.vectors, n*row), sized(m.input, n*m.width)
	if err := m.fields.forward(s, nil, m.vectors, row); err != nil {
		return err
	}
	if err := m.lower(s); err != nil {
		return err
	}
	m.multiply(n)
	logits, err := m.top.forward(s, m.input)
	if err != nil {
		return err
	}
	grad := m.head.clicks(s, logits, 0)
	if !s.Training() {
		return nil
	}
	m.multiplyBack(n, m.top.backward(s, grad))
	if m.bottom != nil {
		m.below = sized(m.below, n*m.dim)
		for i := range n {
			copy(m.below[i*m.dim:][:m.dim], m.grad[(i+1)*row-m.dim:])
		}
		m.bottom.backward(s, m.below)
	}
	m.fields.backward(nil, m.grad, row)
	return nil
}

// lower runs the bottom network, whose vector is the last of a row and the
// beginning of the top network's input.
func (m *DLRM) lower(s *worker.Step) error {
	if m.bottom == nil {
		return nil
	}
	n, wide, row := s.Rows(), len(m.names), m.count*m.dim
	m.numeric = sized(m.numeric, n*wide)
	for f, name := range m.names {
		for i, v := range s.Numeric(name) {
			m.numeric[i*wide+f] = v
		}
	}
	out, err := m.bottom.forward(s, m.numeric)
	if err != nil {
		return err
	}
	for i := range n {
		v := out[i*m.dim:][:m.dim]
		copy(m.vectors[(i+1)*row-m.dim:], v)
		copy(m.input[i*m.width:], v)
	}
	return nil
}

// multiply writes the dot products of each row's pairs of vectors.
func (m *DLRM) multiply(n int) {
	for i := range n {
		vectors := m.vectors[i*m.count*m.dim:][:m.count*m.dim]
		out := m.input[(i+1)*m.width-m.count*(m.count-1)/2:]
		at := 0
		for a := range m.count {
			va := vectors[a*m.dim:][:m.dim]
			for b := range a {
				out[at] = vec.Dot(va, vectors[b*m.dim:][:m.dim])
				at++
			}
		}
	}
}

// multiplyBack makes the gradient by the vectors from that by the top network's
// input.
func (m *DLRM) multiplyBack(n int, top []float32) {
	m.grad = zeroed(m.grad, n*m.count*m.dim)
	for i := range n {
		vectors := m.vectors[i*m.count*m.dim:][:m.count*m.dim]
		grad := m.grad[i*m.count*m.dim:][:m.count*m.dim]
		in := top[(i+1)*m.width-m.count*(m.count-1)/2:]
		if m.bottom != nil {
			copy(grad[len(grad)-m.dim:], top[i*m.width:])
		}
		at := 0
		for a := range m.count {
			va, ga := vectors[a*m.dim:][:m.dim], grad[a*m.dim:][:m.dim]
			for b := range a {
				vec.Axpy(ga, in[at], vectors[b*m.dim:][:m.dim])
				vec.Axpy(grad[b*m.dim:][:m.dim], in[at], va)
				at++
			}
		}
	}
}
