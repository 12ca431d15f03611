package shard

import (
	"math/bits"

	"github.com/cespare/xxhash/v2"

	"hcclps/internal/vec"
	"hcclps/ps/wire"
)

// digest is a running hash of what apply did. Order matters.
type digest uint64

func (d *digest) word(v uint64) {
	h := bits.RotateLeft64(uint64(*d), 27)*0x9e3779b185ebca87 ^ v
	*d = digest(h*0xc2b2ae3d27d4eb4f + 0x165667b19e3779f9)
}

func (d *digest) bytes(b []byte) { d.word(xxhash.Sum64(b)) }

func (d *digest) answer(a *wire.Answer) {
	d.word(uint64(a.Status))
	d.word(xxhash.Sum64String(a.Detail))
	d.word(a.Clock)
	d.word(a.Done)
	d.bytes(a.Cursor)
}

// hashing is an optimizer's updater that adds each row it has touched to the
// digest.
type hashing struct {
	inner interface{ Update(row, grad []float32) }
	sum   *digest
}

// Update implements table.Updater.
func (h *hashing) Update(row, grad []float32) {
	h.inner.Update(row, grad)
	h.sum.bytes(vec.BytesOfFloats(row))
}
