package compress

import (
	"fmt"
	"math"
	"slices"

	"hcclps/internal/vec"
)

// RowFeedback encodes rows of one table, step after step, and keeps what the codes of each key's row did not hold,
// which is added to that key's next row. It keeps a bounded number of residuals: when there is no room, the row that
// has not come for long loses its own (second chance). One goroutine uses it at a time.
type RowFeedback struct {
	codec Codec
	dim   int
	room  int

	at      map[uint64]int32 // slot of a key
	keys    []uint64         // of a slot
	rest    []float32        // of a slot
	recent  []bool           // came again since the hand was there
	hand    int              // next slot that may lose its residual
	dropped uint64

	sum []float32 // rows and residuals of a call
}

// NewRowFeedback makes one that keeps the residuals of at most room rows, each of dim elements.
func NewRowFeedback(c Codec, dim, room int) (*RowFeedback, error) {
	if err := checkRows(room, dim); err != nil {
		return nil, fmt.Errorf("make feedback of rows: %w", err)
	}
	if _, err := rowCodec(c, dim); err != nil {
		return nil, fmt.Errorf("make feedback of rows: %w", err)
	}
	if room < 1 || room > math.MaxInt32 {
		return nil, fmt.Errorf("make feedback of %d rows: want 1 to %d: %w", room, math.MaxInt32, ErrMismatch)
	}
	return &RowFeedback{codec: c, dim: dim, room: room, at: map[uint64]int32{}}, nil
}

// Switch changes the codec, to one of Parse. Residuals stay.
func (f *RowFeedback) Switch(c Codec) { f.codec = c }

// AppendFrame appends a frame of the rows and the residuals of their keys, as AppendRows has it. After an error all is as it was.
func (f *RowFeedback) AppendFrame(dst []byte, keys []uint64, rows []float32, seed uint64) ([]byte, error) {
	if len(rows) != len(keys)*f.dim {
		return dst, fmt.Errorf("encode rows: %d keys and %d elements, want %d a row: %w", len(keys), len(rows), f.dim, ErrMismatch)
	}
	if err := check(KindOf(f.codec), rows, Limit(f.codec)); err != nil {
		return dst, err
	}
	f.sum = append(f.sum[:0], rows...)
	for i, key := range keys {
		if slot, ok := f.at[key]; ok {
			vec.Add(f.row(f.sum, i), f.row(f.rest, int(slot)))
		}
	}
	dst, err := appendRows(dst, f.codec, keys, f.dim, len(f.sum), func(rc Codec, dst []byte) ([]byte, error) { return rc.AppendRest(dst, f.sum, seed) })
	if err != nil {
		return dst, err
	}
	for i, key := range keys {
		f.keep(key, f.row(f.sum, i))
	}
	return dst, nil
}

func (f *RowFeedback) row(rows []float32, i int) []float32 { return rows[i*f.dim:][:f.dim] }

// keep makes rest the residual of a key.
func (f *RowFeedback) keep(key uint64, rest []float32) {
	slot, ok := f.at[key]
	if !ok {
		if vec.MaxAbs(rest) == 0 {
			return
		}
		slot = f.free()
		f.at[key], f.keys[slot] = slot, key
	}
	f.recent[slot] = ok // a key that comes once gives way first
	copy(f.row(f.rest, int(slot)), rest)
}

// free is a slot for a new key.
func (f *RowFeedback) free() int32 {
	if n := len(f.keys); n < f.room {
		f.keys = append(f.keys, 0)
		f.recent = append(f.recent, false)
		f.rest = append(f.rest, make([]float32, f.dim)...)
		return int32(n)
	}
	for f.recent[f.hand] { // ends: it clears them
		f.recent[f.hand] = false
		f.hand = (f.hand + 1) % f.room
	}
	slot := f.hand
	f.hand = (f.hand + 1) % f.room
	delete(f.at, f.keys[slot])
	f.dropped++
	return int32(slot)
}

// Return puts back into the residuals what a frame holds that was not used.
func (f *RowFeedback) Return(frame Frame) error {
	keys, err := frame.Keys(nil)
	if err != nil {
		return err
	}
	if frame.Shape[1] != f.dim {
		return fmt.Errorf("return rows: of %d elements, want %d: %w", frame.Shape[1], f.dim, ErrMismatch)
	}
	rows := make([]float32, len(keys)*f.dim)
	for i, key := range keys {
		if slot, ok := f.at[key]; ok {
			copy(f.row(rows, i), f.row(f.rest, int(slot)))
		}
	}
	if err := frame.Decode(rows, Add); err != nil {
		return err
	}
	for i, key := range keys {
		f.keep(key, f.row(rows, i))
	}
	return nil
}

// Len is the number of rows with a residual.
func (f *RowFeedback) Len() int { return len(f.at) }

// Dropped is how many residuals were lost so far for want of room.
func (f *RowFeedback) Dropped() uint64 { return f.dropped }

// Norm is the length of all residuals as one vector.
func (f *RowFeedback) Norm() float64 { return Norm(f.rest) }

// LastNorm is the length of the residuals of the rows of the last frame, as one vector.
func (f *RowFeedback) LastNorm() float64 { return Norm(f.sum) }

// Residuals are copies of the keys that have one, ascending, and of their residuals.
func (f *RowFeedback) Residuals() (keys []uint64, rows []float32) {
	keys = make([]uint64, 0, len(f.at))
	for key := range f.at {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	rows = make([]float32, 0, len(keys)*f.dim)
	for _, key := range keys {
		rows = append(rows, f.row(f.rest, int(f.at[key]))...)
	}
	return keys, rows
}

// Restore makes the residuals what Residuals returned. With less room the lowest keys lose theirs.
func (f *RowFeedback) Restore(keys []uint64, rows []float32) error {
	if len(rows) != len(keys)*f.dim {
		return fmt.Errorf("restore residuals: %d keys and %d elements, want %d a row: %w", len(keys), len(rows), f.dim, ErrMismatch)
	}
	if err := check(KindOf(f.codec), rows, limit); err != nil {
		return fmt.Errorf("restore residuals: %w", err)
	}
	clear(f.at)
	f.keys, f.rest, f.recent, f.hand = f.keys[:0], f.rest[:0], f.recent[:0], 0
	for i, key := range keys {
		f.keep(key, f.row(rows, i))
	}
	return nil
}
