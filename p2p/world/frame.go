package world

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"hcclps/p2p"
)

// MaxPosition is the most bytes of a position that are kept: see [World.Report].
const MaxPosition = 256

const (
	frameHead  = 5                               // u32 length of the rest, u8 kind
	maxPayload = 4 + 2*(2+maxName) + 2 + maxText // that of a member
)

// kind of a frame. The values are on the wire.
type kind uint8

const (
	kindHeartbeat kind = iota + 1 // nothing
	kindMissing                   // text: the rendezvous says who is missing
	kindAbandon                   // text: it has given up, or does not want this one
	kindMember                    // u32 rank, text address, text host, text info: a line of the table
	kindReady                     // u64 world, u32 epoch, u32 rank, u32 host, text machine, text info: the table is whole; that is your rank; where the rendezvous is
	kindFailed                    // u32 rank, text scope, text: it has failed, or is dead
	kindLeft                      // u32 rank, text scope, text: it has left of its own will; the scope is empty
	kindAsk                       // u64 query, text scope: to the rendezvous, what are the positions; from it, what is yours
	kindPosition                  // u64 query, u32 rank, u32 age, bytes: to the rendezvous, mine; from it, that of a rank
	kindAnswered                  // u64 query: those were all
	kindRebuild                   // text address: this rank waits for the next epoch, and listens there then
	kindWaiting                   // u32 count: so many newcomers wait for the next epoch
	kindMoved                     // nothing: the rendezvous is not here any more
)

// frame is one message between a rank and the rendezvous.
type frame struct {
	kind     kind
	rank     int
	query    uint64 // of a position; of a ready: the world's number
	epoch    uint32
	center   int    // of a ready: the rank in whose process the rendezvous is, plus 1; 0: none
	count    int    // of newcomers
	age      uint32 // of a position: milliseconds since something was heard of the rank
	address  string
	host     string
	scope    string // "": the world
	text     string // for people
	position []byte
}

// appendFrame appends f.
func appendFrame(b []byte, f frame) []byte {
	at := len(b)
	b = append(b, 0, 0, 0, 0, byte(f.kind))
	switch f.kind {
	case kindHeartbeat, kindMoved:
	case kindMissing, kindAbandon:
		b = appendBlock(b, clip(f.text))
	case kindMember:
		b = binary.LittleEndian.AppendUint32(b, uint32(f.rank))
		b = appendBlock(b, f.address)
		b = appendBlock(b, f.host)
		b = appendBlock(b, clip(f.text))
	case kindReady:
		b = binary.LittleEndian.AppendUint64(b, f.query)
		b = binary.LittleEndian.AppendUint32(b, f.epoch)
		b = binary.LittleEndian.AppendUint32(b, uint32(f.rank))
		b = binary.LittleEndian.AppendUint32(b, uint32(f.center))
		b = appendBlock(b, f.host)
		b = appendBlock(b, clip(f.text))
	case kindFailed, kindLeft:
		b = binary.LittleEndian.AppendUint32(b, uint32(f.rank))
		b = appendBlock(b, f.scope)
		b = appendBlock(b, clip(f.text))
	case kindAsk:
		b = binary.LittleEndian.AppendUint64(b, f.query)
		b = appendBlock(b, f.scope)
	case kindAnswered:
		b = binary.LittleEndian.AppendUint64(b, f.query)
	case kindPosition:
		b = binary.LittleEndian.AppendUint64(b, f.query)
		b = binary.LittleEndian.AppendUint32(b, uint32(f.rank))
		b = binary.LittleEndian.AppendUint32(b, f.age)
		b = appendBlock(b, f.position)
	case kindRebuild:
		b = appendBlock(b, f.address)
	case kindWaiting:
		b = binary.LittleEndian.AppendUint32(b, uint32(f.count))
	}
	binary.LittleEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}

// decodeFrame takes a payload apart. The frame keeps nothing of it.
func decodeFrame(k kind, payload []byte) (frame, error) {
	f := frame{kind: k}
	d := fields{b: payload}
	switch k {
	case kindHeartbeat, kindMoved:
	case kindMissing, kindAbandon:
		f.text = d.str(maxText)
	case kindMember:
		f.rank, f.address, f.host, f.text = int(d.u32()), d.str(maxName), d.str(maxName), d.str(maxText)
	case kindReady:
		f.query, f.epoch, f.rank, f.center = d.u64(), d.u32(), int(d.u32()), int(d.u32())
		f.host, f.text = d.str(maxName), d.str(maxText)
	case kindFailed, kindLeft:
		f.rank, f.scope, f.text = int(d.u32()), d.str(maxName), d.str(maxText)
	case kindAsk:
		f.query, f.scope = d.u64(), d.str(maxName)
	case kindAnswered:
		f.query = d.u64()
	case kindPosition:
		f.query, f.rank, f.age, f.position = d.u64(), int(d.u32()), d.u32(), slices.Clone(d.block(MaxPosition))
	case kindRebuild:
		f.address = d.str(maxName)
	case kindWaiting:
		f.count = int(d.u32())
	default:
		return frame{}, fmt.Errorf("%w: kind %d", p2p.ErrMalformed, k)
	}
	return f, d.end()
}

// frameReader reads frames. When a read ends early, by a deadline, the next call goes on where it was.
type frameReader struct {
	r   *bufio.Reader
	off int64 // of the next frame, for errors
}

func newFrameReader(r io.Reader) *frameReader {
	return &frameReader{r: bufio.NewReaderSize(r, frameHead+maxPayload)}
}

// next reads one frame. A fault of the peer wraps p2p.ErrMalformed and tells the offset of the frame in the stream.
func (fr *frameReader) next() (frame, error) {
	head, err := fr.r.Peek(frameHead)
	if err != nil {
		return frame{}, cut(err, len(head))
	}
	n := int64(binary.LittleEndian.Uint32(head)) - 1
	k := kind(head[4])
	if n < 0 || n > maxPayload {
		return frame{}, fmt.Errorf("read frame at offset %d: %w: kind %d with a payload of %d bytes", fr.off, p2p.ErrMalformed, k, n)
	}
	whole, err := fr.r.Peek(frameHead + int(n))
	if err != nil {
		return frame{}, cut(err, len(whole))
	}
	f, err := decodeFrame(k, whole[frameHead:])
	if err != nil {
		return frame{}, fmt.Errorf("read frame at offset %d: kind %d: %w", fr.off, k, err)
	}
	_, err = fr.r.Discard(len(whole))
	fr.off += int64(len(whole))
	return f, err
}

// cut tells the end of a stream within a frame from one between two.
func cut(err error, seen int) error {
	if err == io.EOF && seen > 0 { //nolint:errorlint // bufio returns it bare
		return io.ErrUnexpectedEOF
	}
	return err
}
