package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"hcclps/p2p"
)

// Version is the version of the wire format of this package.
const Version = 3

const helloTimeout = 3 * time.Second

// Purpose says what a connection is for.
type Purpose uint8

// The purposes. The values are on the wire.
const (
	Control Purpose = iota + 1
	Bulk
	RaftControl
	RaftBulk
	RaftSnapshot
	Upgrade
)

// String is the name in logs.
func (p Purpose) String() string {
	switch p {
	case Control:
		return "control"
	case Bulk:
		return "bulk"
	case RaftControl:
		return "raft control"
	case RaftBulk:
		return "raft bulk"
	case RaftSnapshot:
		return "raft snapshot"
	case Upgrade:
		return "upgrade"
	default:
		return fmt.Sprintf("purpose(%d)", uint8(p))
	}
}

// Hello is the first message on every connection, and what each side knows of the other from then on.
type Hello struct {
	Version uint16  // 0 means Version
	Cluster string  // name of the cluster, at most 255 bytes like From and To
	From    string  // id of the sender
	To      string  // id of the server that is meant, "" when the dialler does not know it yet
	Purpose Purpose // what the connection is for
	Pair    uint64  // ties a bulk or upgrade connection to its control connection
	Epoch   uint32  // of a bulk connection: which Comm of the pair it is for; of an upgrade: the number of the attempt
	Stripe  uint8   // of a bulk connection: its number among those of the epoch
	Stripes uint8   // of a bulk connection: how many there are; 1 of an upgrade
	Info    string  // free text for people (host, process), at most 1024 bytes
}

// Identity is what an acceptor is.
type Identity struct {
	Cluster string
	ID      string
	Info    string
}

// SendHello introduces the dialler and waits for the acceptor's verdict, at most 3 s. peer is the acceptor. A refusal is one of
// ErrVersion, ErrWrongCluster, ErrWrongRecipient, ErrMalformed and shows both sides' values. The caller closes conn on error.
func SendHello(ctx context.Context, conn net.Conn, h Hello) (peer Hello, err error) {
	if h.Version == 0 {
		h.Version = Version
	}
	msg, err := encodeHello(h)
	if err != nil {
		return Hello{}, fmt.Errorf("send hello: %w", err)
	}
	var v verdictMsg
	err = handshake(ctx, conn, func() error {
		if _, err := conn.Write(msg); err != nil {
			return err
		}
		b, err := readShort(conn)
		if err != nil {
			return err
		}
		v, err = decodeVerdict(b)
		return err
	})
	if err != nil {
		return Hello{}, fmt.Errorf("wait for the answer to hello: %w", err)
	}
	peer = Hello{Version: v.version, Cluster: v.cluster, From: v.id, To: h.From, Purpose: h.Purpose, Pair: h.Pair, Info: v.info}
	return peer, v.refusal(h)
}

// AcceptHello reads the dialler's hello, at most 3 s and 4 KiB, judges it and sends the verdict. On error the dialler has been told
// if that was possible; the caller closes conn.
func AcceptHello(ctx context.Context, conn net.Conn, self Identity) (Hello, error) {
	var h Hello
	var refusal error
	err := handshake(ctx, conn, func() error {
		b, err := readShort(conn)
		if err != nil && !errors.Is(err, ErrMalformed) {
			return err
		}
		if err == nil {
			h, err = decodeHello(b)
		}
		v := judge(h, err, self)
		refusal = v.refusal(h)
		msg, err := encodeVerdict(v)
		if err != nil {
			return err
		}
		if _, err = conn.Write(msg); err == nil && v.code == codeMalformed {
			drain(conn)
		}
		return err
	})
	switch {
	case refusal != nil:
		return h, fmt.Errorf("refuse hello of %q (%s): %w", h.From, h.Purpose, refusal)
	case err != nil:
		return h, fmt.Errorf("accept hello: %w", err)
	}
	return h, nil
}

// drain waits until the other side has read what it was told: closing with something unread destroys that.
func drain(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		_, _ = io.CopyN(io.Discard, conn, maxHello)
	}
}

// judge compares a hello with what we are. decoding is the error of decoding it.
func judge(h Hello, decoding error, self Identity) verdictMsg {
	v := verdictMsg{version: Version, cluster: self.Cluster, id: self.ID, info: self.Info}
	switch {
	case errors.Is(decoding, ErrVersion):
		v.code = codeVersion
	case decoding != nil:
		v.code, v.text = codeMalformed, decoding.Error()
	case h.Cluster != self.Cluster:
		v.code = codeCluster
	case h.To != "" && h.To != self.ID:
		v.code = codeRecipient
	}
	return v
}

// refusal is the verdict on h as an error, nil if it is welcome. Both sides make the same text of it.
func (v verdictMsg) refusal(h Hello) error {
	switch v.code {
	case codeWelcome:
		return nil
	case codeVersion:
		return fmt.Errorf("%w: the caller speaks %d, the server %d: run the same release on both", ErrVersion, h.Version, v.version)
	case codeCluster:
		return fmt.Errorf("%w: the caller belongs to %q, the server %q to %q", ErrWrongCluster, h.Cluster, v.id, v.cluster)
	case codeRecipient:
		return fmt.Errorf("%w: the caller meant %q, %q answered", ErrWrongRecipient, h.To, v.id)
	default:
		return fmt.Errorf("%w: %s", ErrMalformed, v.text)
	}
}

// handshake runs f, which does I/O on conn, within the hello's time and ctx. Deadlines are cleared after a success.
func handshake(ctx context.Context, conn net.Conn, f func() error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := conn.SetDeadline(time.Now().Add(helloTimeout)); err != nil {
		return err
	}
	release := p2p.Bound(ctx, conn)
	err := f()
	if ended := release(); ended != nil {
		return ended
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("%w: silent for %v", ErrPeer, helloTimeout)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: connection closed", ErrPeer)
	}
	if err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}
