package wire

import (
	"bytes"
	"encoding/json"
)

// Block is the number of elements in a row of a dense tensor's table: a dense
// tensor of n elements is stored as ceil(n/Block) rows, keyed by block number.
const Block = 1024

// Table describes a table as the meta group agreed on it. ID is given there;
// two descriptions are the same when all but ID agree.
type Table struct {
	ID         uint32             `json:"id"`
	Name       string             `json:"name"`
	Shape      []uint32           `json:"shape,omitempty"` // dense: the tensor's shape; nil: an embedding
	Dim        uint32             `json:"dim"`             // float32 a row; dense: min(Block, elements)
	Init       string             `json:"init"`            // initializer's name
	InitParams map[string]float64 `json:"init_params,omitempty"`
	Optimizer  string             `json:"optimizer"`
	Params     map[string]float64 `json:"params,omitempty"` // hyper-parameters, defaults filled in
	NonFinite  string             `json:"non_finite"`       // reject, zero or clip
	Seed       uint64             `json:"seed"`
	Schedule   Schedule           `json:"schedule,omitzero"`  // of the learning rate
	Compress   string             `json:"compress,omitempty"` // how gradients travel: a codec's name, or auto; empty: as they are
	Admit      Admit              `json:"admit,omitzero"`     // of embeddings only, as Evict
	Evict      Evict              `json:"evict,omitzero"`
}

// Same says whether two descriptions agree in everything, whether or not they have come by wire, where an empty map and none are one.
func (t *Table) Same(u *Table) bool {
	a, errA := json.Marshal(t)
	b, errB := json.Marshal(u)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

func (t *Table) fields(c *coder) { c.json(t) }
