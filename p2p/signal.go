package p2p

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// ErrMalformed means that a peer said what the protocol does not allow.
var ErrMalformed = errors.New("malformed")

// SignalKind says what a Signal means.
type SignalKind uint8

// The kinds. The values are on the wire.
const (
	// SignalGrant gives leave to send bytes of a transfer from offset on: their receive is posted.
	SignalGrant SignalKind = iota + 1
	// SignalVoid says that the sender has given a transfer up. What it has been granted comes with any content, after SignalDropped.
	SignalVoid
	// SignalDropped says that the receiver has given a transfer up, or knows that the sender has: it takes none of its bytes for true.
	SignalDropped
	// SignalReset says that an epoch has ended on this side, in which so many chunks were taken (offset), why (text), and which upgrade
	// the next epoch uses (bytes, 0 for none; rank 0 decides).
	SignalReset
	// SignalPause says that this side grants nothing more in the epoch: it is to end as soon as what was granted has arrived.
	SignalPause
	// SignalReady says that an upgraded Comm is there (offset 1) or could not be made (offset 0); bytes is the number of the attempt.
	SignalReady
	_ // 7 and 8 were of an earlier protocol
	_
	// SignalGrantSure is SignalGrant by a receiver whose Comm is a Confirmer: the sender knows by its own completion what has been taken.
	SignalGrantSure
	// SignalTaken says how many chunks were taken in the epoch so far (offset), where completions do not tell.
	SignalTaken
	// SignalCredit says how many bytes (bytes, 0 for none) the sender of it takes unasked from now on in this epoch.
	SignalCredit
	// SignalUnasked announces a transfer whose first bytes (bytes) are sent unasked, after all that was asked for so far.
	SignalUnasked
)

// maxSignalText bounds the text of a signal, in bytes.
const maxSignalText = 512

// signalSize is the size of a signal without its text.
const signalSize = 25

// Signal is a small message of the control plane between the two ends of a Transfer.
type Signal struct {
	Kind   SignalKind
	Epoch  uint32
	ID     uint64 // of the transfer
	Offset uint64 // bytes
	Bytes  uint32
	Text   string // for people; at most 512 bytes travel
}

// MaxSignal is the largest encoding of a Signal, in bytes.
const MaxSignal = signalSize + maxSignalText

// AppendSignal encodes s: u8 kind, u32 epoch, u64 id, u64 offset, u32 bytes, all little endian, and the text to the end.
func AppendSignal(b []byte, s Signal) []byte {
	b = append(b, byte(s.Kind))
	b = binary.LittleEndian.AppendUint32(b, s.Epoch)
	b = binary.LittleEndian.AppendUint64(b, s.ID)
	b = binary.LittleEndian.AppendUint64(b, s.Offset)
	b = binary.LittleEndian.AppendUint32(b, s.Bytes)
	return append(b, s.Text[:min(len(s.Text), maxSignalText)]...)
}

// DecodeSignal is the inverse of AppendSignal. Its errors wrap ErrMalformed.
func DecodeSignal(b []byte) (Signal, error) {
	if len(b) < signalSize || len(b) > MaxSignal {
		return Signal{}, fmt.Errorf("decode signal of %d bytes: want %d to %d: %w", len(b), signalSize, MaxSignal, ErrMalformed)
	}
	s := Signal{
		Kind:   SignalKind(b[0]),
		Epoch:  binary.LittleEndian.Uint32(b[1:]),
		ID:     binary.LittleEndian.Uint64(b[5:]),
		Offset: binary.LittleEndian.Uint64(b[13:]),
		Bytes:  binary.LittleEndian.Uint32(b[21:]),
	}
	if len(b) > signalSize {
		s.Text = string(b[signalSize:])
	}
	switch {
	case s.Kind < SignalGrant || s.Kind > SignalUnasked || s.Kind > SignalReady && s.Kind < SignalGrantSure:
		return Signal{}, fmt.Errorf("decode signal: unknown kind %d: %w", s.Kind, ErrMalformed)
	case s.Offset > math.MaxInt64:
		return Signal{}, fmt.Errorf("decode signal of kind %d: offset %d: %w", s.Kind, s.Offset, ErrMalformed)
	case (s.Kind == SignalGrant || s.Kind == SignalGrantSure) && (s.Bytes == 0 || s.Bytes > MaxChunk):
		return Signal{}, fmt.Errorf("decode signal: grant of %d bytes, at most %d: %w", s.Bytes, MaxChunk, ErrMalformed)
	case s.Kind == SignalUnasked && (s.Bytes == 0 || s.Bytes > unaskedBytes), s.Kind == SignalCredit && s.Bytes > unaskedBytes:
		return Signal{}, fmt.Errorf("decode signal of kind %d: %d bytes, at most %d go unasked: %w", s.Kind, s.Bytes, unaskedBytes, ErrMalformed)
	case s.Kind != SignalReset && s.Text != "":
		return Signal{}, fmt.Errorf("decode signal of kind %d: %d bytes too many: %w", s.Kind, len(s.Text), ErrMalformed)
	}
	return s, nil
}
