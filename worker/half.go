package worker

import (
	"fmt"
	"slices"

	"hcclps/internal/vec"
	"hcclps/p2p"
	"hcclps/ps/wire"
)

// halfOf is the form of values by the name of a codec.
func halfOf(name string) (wire.Half, error) {
	switch name {
	case "", "off", "none":
		return wire.Whole, nil
	case "fp16":
		return wire.FP16, nil
	case "bf16":
		return wire.BF16, nil
	}
	return wire.Whole, fmt.Errorf("weights as %q: want off, fp16 or bf16", name)
}

// widen is a p2p.Sink for an answer in 16 bits, which it hands on as float32.
type widen struct {
	to     *scatter
	form   wire.Half
	came   int
	odd    []byte // of a value that is cut
	values []float32
}

// begin is that of scatter.
func (w *widen) begin(n int) (p2p.Sink, error) {
	w.came, w.odd = n, w.odd[:0]
	_, err := w.to.begin(2 * n)
	return w, err
}

// Len implements p2p.Sink.
func (w *widen) Len() int { return w.came }

// Take implements p2p.Sink.
func (w *widen) Take(off int, p []byte) error {
	if len(w.odd) > 0 && len(p) > 0 {
		b := []byte{w.odd[0], p[0]}
		w.odd = w.odd[:0]
		if err := w.give(off-1, b); err != nil {
			return err
		}
		p, off = p[1:], off+1
	}
	if len(p)%2 == 1 {
		w.odd = append(w.odd, p[len(p)-1])
		p = p[:len(p)-1]
	}
	return w.give(off, p)
}

// piece is how many values are widened at once.
const piece = 4 << 10

// give hands whole values on.
func (w *widen) give(off int, p []byte) error {
	for len(p) > 0 {
		n := min(piece, len(p)/2)
		w.values = slices.Grow(w.values[:0], n)[:n]
		if w.form == wire.BF16 {
			vec.DecodeBF16(w.values, p[:2*n])
		} else {
			vec.DecodeF16(w.values, p[:2*n])
		}
		if err := w.to.Take(2*off, vec.BytesOfFloats(w.values)); err != nil {
			return err
		}
		p, off = p[2*n:], off+2*n
	}
	return nil
}
