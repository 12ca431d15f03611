package collective

import (
	"errors"
	"fmt"

	"hcclps/internal/vec"
	"hcclps/p2p"
)

// AllReduceAs is AllReduce of float32 tensors whose elements travel as another type: Float16 or BFloat16, which halve the bytes, or Float32. Every contribution
// is rounded once, they are folded in float32 in the order of ranks and, for an average, divided, and the result is rounded once. So the bits do not depend
// on the algorithm, and what fits the type does not overflow on its way. In a group of one rank nothing is rounded.
func (g *Group) AllReduceAs(send, recv p2p.Buffer, wire p2p.DType, r Reduction) *Work {
	return g.allReduceAs(send, recv, wire, r, 0, nil)
}

func (g *Group) allReduceAs(send, recv p2p.Buffer, wire p2p.DType, r Reduction, tag uint32, after func(error)) *Work {
	if wire == p2p.Float32 {
		return g.allReduce(send, recv, p2p.Float32, r, tag, after)
	}
	a := g.check(AllReduce, p2p.Float32).reduction(r).wire(wire).buffers(send, 1, recv, 1)
	if a.err != nil {
		if after != nil {
			after(a.err)
		}
		return refused(AllReduce, a.err)
	}
	src, dst := send.Host(), recv.Host()
	var data []byte // made once: the operation may be taken up again, see errLater
	return g.postTagged(a.call, len(src)/2, tag, func(t team, v vector) error {
		if t.size() == 1 {
			place(dst, src)
			return nil
		}
		c := codecOf(wire)
		if data == nil {
			data = t.scratch.take(len(src) / 2)
			c.encode(data, vec.Floats(src))
		}
		v.reducer = &wireReducer{reducer: v.reducer, codec: c, over: v.over}
		v.width, v.ordered = 2, true
		if err := g.reduceAll(t, v, data, data); err != nil {
			return err
		}
		c.decodeBytes(dst, data)
		return nil
	}, after)
}

var errWire = errors.New("only float32 travels as float16 or bfloat16")

// wire checks what float32 elements travel as.
func (a arguments) wire(t p2p.DType) arguments {
	if a.call.Wire = t; a.err == nil && (a.call.DType != p2p.Float32 || t != p2p.Float16 && t != p2p.BFloat16) {
		a.err = fmt.Errorf("send %v as %v: %w", a.call.DType, t, errWire)
	}
	return a
}

// codec turns float32 into 16 bits and back.
type codec struct {
	encode func(dst []byte, src []float32)
	decode func(dst []float32, src []byte)
}

func codecOf(wire p2p.DType) codec {
	if wire == p2p.BFloat16 {
		return codec{vec.EncodeBF16, vec.DecodeBF16}
	}
	return codec{vec.EncodeF16, vec.DecodeF16}
}

// decodeBytes is decode into memory of any alignment.
func (c codec) decodeBytes(dst, src []byte) {
	f := vec.Floats(dst)
	c.decode(f, src)
	place(dst, vec.BytesOfFloats(f))
}

// wireReducer folds what travels as 16 bits in float32, and finishes the result before it rounds it.
type wireReducer struct {
	reducer
	codec codec
	over  int       // ranks
	sum   []float32 // a block
	in    [][]byte  // float32 blocks of the contributions
}

func (w *wireReducer) fold(dst []byte, parts [][]byte) {
	const width = 2
	for len(w.in) < len(parts) {
		w.in = append(w.in, vec.BytesOfFloats(make([]float32, block)))
	}
	if w.sum == nil {
		w.sum = make([]float32, block)
	}
	for lo := 0; lo < len(dst); lo += block * width {
		hi := min(lo+block*width, len(dst))
		n := (hi - lo) / width
		in := w.in[:len(parts)]
		for i, p := range parts {
			in[i] = in[i][:4*n]
			w.codec.decodeBytes(in[i], p[lo:hi])
		}
		sum := vec.BytesOfFloats(w.sum[:n])
		w.reducer.fold(sum, in)
		w.reducer.finish(sum, w.over)
		w.codec.encode(dst[lo:hi], w.sum[:n])
		for i := range in {
			in[i] = in[i][:4*block]
		}
	}
}

// finish does nothing: fold has done it, in float32.
func (w *wireReducer) finish([]byte, int) {}
