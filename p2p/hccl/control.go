package hccl

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"hcclps/p2p"
)

// control is the connection of a pair, which carries frames and no payload. That it ends is how a peer is known to be
// lost.
type control struct {
	conn net.Conn
	in   *bufio.Reader
}

func newControl(conn net.Conn) *control {
	return &control{conn: conn, in: bufio.NewReaderSize(conn, 4096)}
}

// send writes one frame. It is for the time before a Comm writes.
func (c *control) send(f frame) error {
	if _, err := c.conn.Write(f.appendTo(nil)); err != nil {
		return fmt.Errorf("write to %s: %w: %w", c.conn.RemoteAddr(), p2p.ErrPeer, err)
	}
	return nil
}

// recv reads one frame. A connection that ends is ErrPeer.
func (c *control) recv() (frame, error) {
	f, err := readFrame(c.in)
	if err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("it closed the connection")
		}
		return f, fmt.Errorf("read from %s: %w: %w", c.conn.RemoteAddr(), p2p.ErrPeer, err)
	}
	return f, nil
}

// refusal bounds how long a side that refuses waits for the other to have read why.
const refusal = 500 * time.Millisecond

// talk reads what the peer says while a pair is made.
type talk struct {
	*control
	said chan frame
	lost chan struct{} // closed when the peer will say no more
	why  error         // set before lost is closed
	quit chan struct{} // closed when nobody listens any more
}

func newTalk(conn net.Conn) *talk {
	return &talk{control: newControl(conn), said: make(chan frame, 8), lost: make(chan struct{}), quit: make(chan struct{})}
}

// listen reads up to the frame that ends the making of a pair: kindWarmed or a refusal.
func (t *talk) listen() {
	for {
		f, err := t.recv()
		if err == nil && f.kind == kindRefuse {
			err = refused(f.data)
		}
		if err != nil {
			t.why = err
			close(t.lost)
			return
		}
		select {
		case t.said <- f:
		case <-t.quit:
			return
		}
		if f.kind == kindWarmed {
			return
		}
	}
}

// expect waits for a frame of a kind.
func (t *talk) expect(ctx context.Context, k kind) (frame, error) {
	var f frame
	select {
	case f = <-t.said: // also when the peer was lost after it
	default:
		select {
		case f = <-t.said:
		case <-t.lost:
			return frame{}, t.why
		case <-ctx.Done():
			return frame{}, fmt.Errorf("wait for the peer: %w", context.Cause(ctx))
		}
	}
	if f.kind != k {
		return frame{}, fmt.Errorf("%w: kind %d in place of %d", errFrame, f.kind, k)
	}
	return f, nil
}

// refuse tells the peer why this side gives up, waits a little until it has read that, and closes the connection.
func (t *talk) refuse(cause error) {
	text := cause.Error()
	_ = t.conn.SetWriteDeadline(time.Now().Add(refusal))
	_ = t.conn.SetReadDeadline(time.Now().Add(refusal))
	if t.send(frame{kind: kindRefuse, data: []byte(text[:min(len(text), maxRefusal)])}) == nil {
		for open := true; open; {
			select {
			case <-t.lost:
				open = false
			case f := <-t.said:
				open = f.kind != kindWarmed
			}
		}
	}
	_ = t.conn.Close()
}

const maxRefusal = 1000

// printable makes text of a peer fit for a log.
func printable(b []byte) string {
	out := make([]rune, 0, len(b))
	for _, r := range string(b[:min(len(b), maxRefusal)]) {
		if r < ' ' || r == '\uFFFD' {
			r = '?'
		}
		out = append(out, r)
	}
	return string(out)
}

// refused is what the peer says, with the cause where it is one that a caller may branch on.
func refused(data []byte) error {
	text := printable(data)
	for _, cause := range []error{ErrBudget, ErrChip} {
		if why, ok := strings.CutSuffix(text, cause.Error()); ok {
			return fmt.Errorf("%w: the peer says: %s%w", ErrRefused, why, cause)
		}
	}
	return fmt.Errorf("%w: the peer says: %s", ErrRefused, text)
}
