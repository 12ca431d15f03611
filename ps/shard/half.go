package shard

import (
	"slices"
	"sync"

	"hcclps/internal/vec"
	"hcclps/p2p"
	"hcclps/ps/wire"
)

// most16 is the largest number of binary16.
const most16 = 65504

// half is a view whose values are sent in 16 bits. It is a p2p.Source.
type half struct {
	of   p2p.Source // of float32
	form wire.Half

	mu     sync.Mutex
	values []float32 // memory of a piece
	bytes  []byte
}

// Len implements p2p.Source.
func (h *half) Len() int { return h.of.Len() / 2 }

// Fill implements p2p.Source.
func (h *half) Fill(off int, p []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	first, behind := off/2, (off+len(p)+1)/2
	n := behind - first
	h.values, h.bytes = slices.Grow(h.values[:0], n)[:n], slices.Grow(h.bytes[:0], 2*n)[:2*n]
	if err := h.of.Fill(4*first, vec.BytesOfFloats(h.values)); err != nil {
		return err
	}
	halve(h.bytes, h.values, h.form)
	copy(p, h.bytes[off%2:])
	return nil
}

// halve rounds values to 16 bits. It may change them.
func halve(dst []byte, values []float32, form wire.Half) {
	if form == wire.BF16 {
		vec.EncodeBF16(dst, values)
		return
	}
	if vec.MaxAbs(values) > most16 {
		for i, v := range values {
			values[i] = min(max(v, -most16), most16)
		}
	}
	vec.EncodeF16(dst, values)
}
