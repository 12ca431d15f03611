package link

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"

	"hcclps/p2p"
)

// Limits of a control connection.
const (
	// MaxHead is the largest head of a call or reply, in bytes.
	MaxHead = 32 << 10
	// MaxInline is the largest body that travels in the frame of its call or reply, in bytes.
	MaxInline = 16 << 10

	frameHead = 13      // u32 length of the rest, u8 kind, u64 call id
	maxText   = 1 << 10 // bytes of a text for people
)

type kind uint8

// The kinds of frames. The values are on the wire. Only the dialler calls, only the acceptor replies.
const (
	kindCall      kind = iota + 1 // u8 priority, u8 0, u16 head length, u64 body length, head, body if it is at most MaxInline
	kindReply                     // u8 status, u8 0, then as a call; with another status than ok the head is a reason
	kindSignal                    // id 0; a p2p.Signal: where the large bodies are
	kindCancel                    // the caller gave up
	kindHeartbeat                 // id 0
	kindGoodbye                   // id 0; a reason
	kindWelcome                   // id 0; u32 calls the acceptor takes at once; its first frame
)

type status uint8

const (
	statusOK status = iota
	statusNoReply
	statusCancelled
	statusTooLarge
)

// frame is one message of a control connection.
type frame struct {
	kind    kind
	id      uint64
	pri     Priority
	status  status
	head    []byte
	body    []byte // inline
	bodyLen int    // of an inline body too
	calls   uint32 // of a welcome
	signal  p2p.Signal
}

func (f frame) inline() bool { return f.bodyLen <= MaxInline }

// appendFrame appends f. The body of a call or reply is given in pieces and appended only if it is small enough to be inline.
func appendFrame(b []byte, f frame, body ...[]byte) []byte {
	at := len(b)
	b = append(b, 0, 0, 0, 0, byte(f.kind))
	b = binary.LittleEndian.AppendUint64(b, f.id)
	switch f.kind {
	case kindCall, kindReply:
		first := byte(f.pri)
		if f.kind == kindReply {
			first = byte(f.status)
		}
		b = append(b, first, 0)
		b = binary.LittleEndian.AppendUint16(b, uint16(len(f.head)))
		b = binary.LittleEndian.AppendUint64(b, uint64(f.bodyLen))
		b = append(b, f.head...)
		if f.inline() {
			for _, piece := range body {
				b = append(b, piece...)
			}
		}
	case kindSignal:
		b = p2p.AppendSignal(b, f.signal)
	case kindWelcome:
		b = binary.LittleEndian.AppendUint32(b, f.calls)
	case kindGoodbye:
		b = append(b, f.head...)
	case kindCancel, kindHeartbeat:
	}
	binary.LittleEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}

// payloadLimit is the largest payload of a kind, -1 for an unknown one.
func payloadLimit(k kind) int {
	switch k {
	case kindCall, kindReply:
		return 12 + MaxHead + MaxInline
	case kindSignal:
		return p2p.MaxSignal
	case kindWelcome:
		return 4
	case kindGoodbye:
		return maxText
	case kindCancel, kindHeartbeat:
		return 0
	default:
		return -1
	}
}

// decodePayload checks and takes apart the payload p. Head and body of the frame are parts of p.
func decodePayload(k kind, id uint64, p []byte) (frame, error) {
	f := frame{kind: k, id: id}
	d := fields{b: p}
	switch k {
	case kindCall, kindReply:
		first, zero := d.u8(), d.u8()
		headLen := int(d.u16())
		f.bodyLen = d.length()
		if d.err == nil && (zero != 0 || headLen > MaxHead) {
			d.err = fmt.Errorf("%w: flags %d, head of %d bytes", ErrMalformed, zero, headLen)
		}
		f.head = d.bytes(headLen)
		if f.inline() {
			f.body = d.bytes(f.bodyLen)
		}
		if k == kindCall {
			f.pri = Priority(first)
		} else {
			f.status = status(first)
		}
		if d.err == nil && (f.pri > Background || f.status > statusTooLarge) {
			d.err = fmt.Errorf("%w: priority or status %d", ErrMalformed, first)
		}
	case kindSignal:
		f.signal, d.err = p2p.DecodeSignal(d.bytes(len(p)))
	case kindWelcome:
		f.calls = d.u32()
	case kindGoodbye:
		f.head = d.bytes(len(p))
	case kindCancel, kindHeartbeat:
	}
	return f, d.end()
}

// frameReader reads frames from a connection.
type frameReader struct {
	r    *bufio.Reader
	off  int64 // of the frame being read, for errors
	head [frameHead]byte
	tiny [32]byte // payload of frames that hold only numbers
}

func newFrameReader(r io.Reader) *frameReader {
	return &frameReader{r: bufio.NewReaderSize(r, 64<<10)}
}

// next reads one frame. A fault of the peer wraps ErrMalformed and tells the offset of the frame in the stream.
func (fr *frameReader) next() (frame, error) {
	if _, err := io.ReadFull(fr.r, fr.head[:]); err != nil {
		return frame{}, err
	}
	n := int64(binary.LittleEndian.Uint32(fr.head[:])) - (frameHead - 4)
	k := kind(fr.head[4])
	if n < 0 || n > int64(payloadLimit(k)) {
		return frame{}, fmt.Errorf("read frame at offset %d: %w: kind %d with a payload of %d bytes", fr.off, ErrMalformed, k, n)
	}
	p := fr.tiny[:min(int(n), len(fr.tiny))]
	if k == kindCall || k == kindReply || k == kindGoodbye || int(n) > len(p) {
		p = make([]byte, n)
	}
	if _, err := io.ReadFull(fr.r, p); err != nil {
		return frame{}, err
	}
	f, err := decodePayload(k, binary.LittleEndian.Uint64(fr.head[5:]), p)
	if err != nil {
		return frame{}, fmt.Errorf("read frame at offset %d: kind %d: %w", fr.off, k, err)
	}
	fr.off += frameHead + n
	return f, nil
}
