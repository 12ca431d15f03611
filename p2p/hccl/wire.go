package hccl

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// kind tells control frames apart.
type kind uint8

const (
	kindHello   kind = iota + 1 // data: hello
	kindRefuse                  // data: why this side does not make the pair
	kindReady                   // this device is free for the pair
	kindRoot                    // from rank 0: data: root info and name of the communicator
	kindMade                    // this side has the communicator
	kindWarmed                  // both first operators are done here
	kindPost                    // from rank 1: a message of n bytes is posted, device or not
	kindStaged                  // from rank 1: n more pieces are staged
	kindRoom                    // from rank 1: there is room for n more pieces
	kindStep                    // from rank 0: issue a step of n bytes
	kindBye                     // no more steps after this; reason, lengths n and m, data: why
	kindDrained                 // all steps are done here
	kindEnd
)

// Reasons of a bye.
const (
	byeClosed = iota // the side was closed
	byeLength        // n bytes sent for a receive of m
	byeFault         // the side failed, data says why
)

// frame is a control frame.
type frame struct {
	kind   kind
	flow   uint8 // or the reason of a bye
	device bool
	last   bool
	n, m   uint64
	data   []byte
}

const (
	frameHead    = 32
	maxData      = 8192
	wireVersion  = 1
	flagDevice   = 1
	flagLast     = 2
	frameMagic   = 0x6368 // "hc"
	offFrameFlow = 4
	offFlags     = 5
	offZero      = 6
	offN         = 8
	offM         = 16
	offData      = 24
	offZero2     = 28
)

var errFrame = errors.New("malformed control frame")

// appendTo writes the frame behind b.
func (f frame) appendTo(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint16(b, frameMagic)
	var flags byte
	if f.device {
		flags |= flagDevice
	}
	if f.last {
		flags |= flagLast
	}
	b = append(b, wireVersion, byte(f.kind), f.flow, flags, 0, 0)
	b = le.AppendUint64(b, f.n)
	b = le.AppendUint64(b, f.m)
	b = le.AppendUint32(b, uint32(len(f.data)))
	b = le.AppendUint32(b, 0)
	return append(b, f.data...)
}

// readFrame reads one frame. Bytes that are none are errFrame.
func readFrame(r *bufio.Reader) (frame, error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return frame{}, err
	}
	f, size, err := parseHead(head[:])
	if err != nil || size == 0 {
		return f, err
	}
	f.data = make([]byte, size)
	if _, err := io.ReadFull(r, f.data); err != nil {
		return frame{}, fmt.Errorf("read data of frame %d: %w", f.kind, err)
	}
	return f, nil
}

func parseHead(h []byte) (frame, int, error) {
	le := binary.LittleEndian
	f := frame{
		kind: kind(h[3]), flow: h[offFrameFlow], device: h[offFlags]&flagDevice != 0, last: h[offFlags]&flagLast != 0,
		n: le.Uint64(h[offN:]), m: le.Uint64(h[offM:]),
	}
	size := le.Uint32(h[offData:])
	switch {
	case le.Uint16(h) != frameMagic:
		return frame{}, 0, fmt.Errorf("%w: magic %#x", errFrame, le.Uint16(h))
	case h[2] != wireVersion:
		return frame{}, 0, fmt.Errorf("%w: version %d, this side speaks %d", errFrame, h[2], wireVersion)
	case f.kind == 0 || f.kind >= kindEnd:
		return frame{}, 0, fmt.Errorf("%w: kind %d", errFrame, h[3])
	case size > maxData:
		return frame{}, 0, fmt.Errorf("%w: %d bytes of data", errFrame, size)
	case h[offFlags] > flagDevice|flagLast || le.Uint16(h[offZero:]) != 0 || le.Uint32(h[offZero2:]) != 0:
		return frame{}, 0, fmt.Errorf("%w: reserved bits are set", errFrame)
	case f.kind != kindBye && f.flow >= flows, f.kind == kindBye && f.flow > byeFault:
		return frame{}, 0, fmt.Errorf("%w: flow %d", errFrame, f.flow)
	}
	return f, int(size), nil
}
