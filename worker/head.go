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
//	 0 u64 step                    40 f64 loss
//	 8 u64 digest of tables        48 u64 rows of the loss
//	16 u32 kind of a plan          56 u64 bytes of the body
//	20 f32 rate of the plan        64 u8 flags: 1 the step is refused, and the body says why; 2 a worker waits to come in
//	24 u64 step it is for          65 u8 bytes of the cursor, u8 codec, u32 seconds since 1970
//	32 u64 rows                    72 64 bytes, the cursor and zeros
type head struct {
	step    uint64
	schema  uint64    // of the tables this worker has
	plan    wire.Plan // kind 0: none; Kind, Rate and T
	rows    uint64
	loss    loss
	body    uint64
	refused bool
	waiting bool
	codec   uint8 // of tables that leave the choice to workers: what rank 0 proposes for the next step, by its number in automatic
	cursor  []byte
	seconds uint32 // since 1970 by this worker's clock; that of rank 0 counts
}

const (
	headSize = 136
	cursorAt = 72
	// maxBody bounds what a worker's part of a step may be.
	maxBody = 1 << 31
	// maxHeadRows bounds the rows of data behind a step.
	maxHeadRows = 1 << 48

	flagRefused = 1
	flagWaiting = 2
)

var errHead = errors.New("head of a step cannot be")

func (h *head) encode(b []byte) {
	clear(b[:headSize])
	le := binary.LittleEndian
	le.PutUint64(b, h.step)
	le.PutUint64(b[8:], h.schema)
	le.PutUint32(b[16:], uint32(h.plan.Kind))
	le.PutUint32(b[20:], math.Float32bits(h.plan.Rate))
	le.PutUint64(b[24:], h.plan.T)
	le.PutUint64(b[32:], h.rows)
	le.PutUint64(b[40:], math.Float64bits(h.loss.sum))
	le.PutUint64(b[48:], uint64(h.loss.rows))
	le.PutUint64(b[56:], h.body)
	if h.refused {
		b[64] |= flagRefused
	}
	if h.waiting {
		b[64] |= flagWaiting
	}
	le.PutUint32(b[67:], h.seconds)
	b[66] = h.codec
	b[65] = byte(copy(b[cursorAt:headSize], h.cursor))
}

func decodeHead(b []byte) (head, error) {
	if len(b) != headSize {
		return head{}, fmt.Errorf("%d bytes, want %d: %w", len(b), headSize, errHead)
	}
	le := binary.LittleEndian
	h := head{
		step: le.Uint64(b), schema: le.Uint64(b[8:]),
		plan: wire.Plan{Kind: wire.PlanKind(le.Uint32(b[16:])), Rate: math.Float32frombits(le.Uint32(b[20:])), T: le.Uint64(b[24:])},
		rows: le.Uint64(b[32:]), loss: loss{math.Float64frombits(le.Uint64(b[40:])), int(le.Uint64(b[48:]))}, body: le.Uint64(b[56:]),
		seconds: le.Uint32(b[67:]),
		refused: b[64]&flagRefused != 0, waiting: b[64]&flagWaiting != 0, codec: b[66],
	}
	n := int(b[65])
	if b[64]&^(flagRefused|flagWaiting) != 0 || int(h.codec) >= len(automatic()) || n > headSize-cursorAt || h.body > maxBody || h.rows > maxHeadRows || uint64(h.loss.rows) > maxHeadRows {
		return head{}, fmt.Errorf("%d rows, body of %d bytes, cursor of %d: %w", h.rows, h.body, n, errHead)
	}
	if n > 0 {
		h.cursor = append([]byte(nil), b[cursorAt:][:n]...)
	}
	return h, nil
}
