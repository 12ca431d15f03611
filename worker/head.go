package worker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"hcclps/ps/wire"
)

// head is what a worker tells the others of its step, beside gradients. It closes the step: who has the heads of all knows that all have got
// what was reduced before. On the wire, little endian:
//
//	 0 u64 step               40 u64 rows of the loss
//	 8 u64 digest of tables   48 u64 bytes of the body
//	16 u32 kind of a plan     56 u8 1: the step is refused, and the body says why
//	20 f32 rate of the plan   57 u8 bytes of the cursor
//	24 u64 rows               58 6 x 0
//	32 f64 loss               64 64 bytes, the cursor and zeros
type head struct {
	step    uint64
	schema  uint64 // of the tables this worker has
	plan    wire.PlanKind
	rate    float32
	rows    uint64
	loss    loss
	body    uint64
	refused bool
	cursor  []byte
}

const (
	headSize = 128
	cursorAt = 64
	// maxBody bounds what a worker's part of a step may be.
	maxBody = 1 << 40
)

var errHead = errors.New("head of a step cannot be")

func (h *head) encode(b []byte) {
	clear(b[:headSize])
	le := binary.LittleEndian
	le.PutUint64(b, h.step)
	le.PutUint64(b[8:], h.schema)
	le.PutUint32(b[16:], uint32(h.plan))
	le.PutUint32(b[20:], math.Float32bits(h.rate))
	le.PutUint64(b[24:], h.rows)
	le.PutUint64(b[32:], math.Float64bits(h.loss.sum))
	le.PutUint64(b[40:], uint64(h.loss.rows))
	le.PutUint64(b[48:], h.body)
	if h.refused {
		b[56] = 1
	}
	b[57] = byte(copy(b[cursorAt:headSize], h.cursor))
}

func decodeHead(b []byte) (head, error) {
	if len(b) != headSize {
		return head{}, fmt.Errorf("%d bytes, want %d: %w", len(b), headSize, errHead)
	}
	le := binary.LittleEndian
	h := head{
		step: le.Uint64(b), schema: le.Uint64(b[8:]), plan: wire.PlanKind(le.Uint32(b[16:])), rate: math.Float32frombits(le.Uint32(b[20:])),
		rows: le.Uint64(b[24:]), loss: loss{math.Float64frombits(le.Uint64(b[32:])), int(le.Uint64(b[40:]))}, body: le.Uint64(b[48:]),
		refused: b[56] == 1,
	}
	n := int(b[57])
	if b[56] > 1 || n > headSize-cursorAt || h.body > maxBody || h.rows > 1<<48 || h.loss.rows < 0 {
		return head{}, fmt.Errorf("%d rows, body of %d bytes, cursor of %d: %w", h.rows, h.body, n, errHead)
	}
	if n > 0 {
		h.cursor = append([]byte(nil), b[cursorAt:][:n]...)
	}
	return h, nil
}
