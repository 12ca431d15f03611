package sockets

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"hcclps/p2p"
)

// ErrRefused means that the other side does not admit this one: certificate, token, or the lack of them. The text says what to do.
var ErrRefused = errors.New("connection refused at the door")

// The door. On a network with TLS or a token the dialler says, inside TLS if there is TLS, that it has a token (token.go) or none ("hcn" 1), and
// the acceptor answers "hcOK" or a refusal: "hcNO", u16 length, text. On a network with neither nothing is said, but a
// dialler recognises a refusal.
const (
	noneMagic   = "hcn\x01"
	okMagic     = "hcOK"
	refuseMagic = "hcNO"
	magicSize   = 4
	maxRefusal  = 1024

	tlsHandshake = 0x16 // the first byte of a TLS connection

	// admitTimeout bounds all of it.
	admitTimeout = 3 * time.Second
	// maxDrain is what is read of a dialler that was refused, so that it can read the refusal: closing with something unread destroys it.
	maxDrain = 4 << 10
)

// knock is the dialler's side. What it returns is admitted.
func (n Network) knock(ctx context.Context, conn net.Conn, addr string) (net.Conn, error) {
	shows := n.shows(conn)
	if !shows && n.token == nil {
		return plain(conn), nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, admitTimeout, fmt.Errorf("it was silent for %v", admitTimeout))
	defer cancel()
	release := p2p.Bound(ctx, conn)
	var binding []byte
	var err error
	admitted, inside := conn, conn
	if shows {
		c := &cork{Conn: under(conn)}
		t := tls.Client(c, n.tls.client(hostOf(addr)))
		inside = &secure{Conn: t, raw: conn, cork: c}
		if !isUnix(conn) {
			admitted = inside
		}
		if err = t.Handshake(); err == nil { //nolint:noctx // bounded by the deadline above
			binding, err = bind(t)
		}
	}
	if err == nil {
		err = n.introduce(inside, binding)
	}
	if ended := release(); ended != nil {
		return nil, ended
	}
	if err != nil {
		return nil, n.why(err)
	}
	return admitted, nil
}

// shows says whether certificates are shown on conn. Within the host they are on the sockets that no folder guards: TLS ends there when both
// sides are admitted.
func (n Network) shows(conn net.Conn) bool {
	_, local := conn.(*localConn)
	return n.tls != nil && (local || !isUnix(conn))
}

// introduce says whether there is a token, proves it, and waits for the verdict.
func (n Network) introduce(rw io.ReadWriter, binding []byte) error {
	if n.token != nil {
		if err := present(rw, n.token, binding); err != nil {
			return err
		}
	} else if _, err := rw.Write([]byte(noneMagic)); err != nil {
		return err
	}
	magic, err := readMagic(rw)
	if err == nil && magic != okMagic {
		err = fmt.Errorf("it answers %q where a verdict should be: is it a server of ours?", magic)
	}
	return err
}

// why wraps what stopped the dialler.
func (n Network) why(err error) error {
	switch {
	case errors.Is(err, ErrRefused):
		return err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		// It may have died just now: this alone is not final.
		return fmt.Errorf("%w: it closed the connection before it admitted us: its log says why; perhaps one side alone has TLS or a token", ErrRefused)
	case n.tls != nil:
		err = n.tls.explain(err)
	}
	return final(err)
}

// final is a refusal that stays.
func final(err error) error { return refusal{fmt.Errorf("%w: %w", ErrRefused, err)} }

// refusal is p2p.ErrRefused without its text.
type refusal struct{ error }

func (r refusal) Unwrap() error      { return r.error }
func (refusal) Is(target error) bool { return target == p2p.ErrRefused }

// guard is the acceptor's side. What it returns admits the dialler in its first Read or Write.
func (n Network) guard(conn net.Conn) net.Conn {
	shows := n.shows(conn)
	if !shows && n.token == nil {
		return conn
	}
	p := &prefixed{Conn: conn}
	c := &cork{Conn: under(p)}
	var t *tls.Conn
	if shows {
		t = tls.Server(c, n.tls.config)
	}
	d := &door{let: func() error { return n.admit(p, t) }}
	if shows && !isUnix(conn) {
		return &guardedTLS{&secure{Conn: t, raw: conn, cork: c}, d}
	}
	switch c := conn.(type) {
	case *net.TCPConn:
		return &guardedTCP{c, d}
	case *net.UnixConn:
		return &guardedUnix{&localConn{c, c.RemoteAddr()}, d}
	case *localConn:
		return &guardedUnix{c, d}
	default:
		return &guarded{conn, d}
	}
}

// door admits once.
type door struct {
	once sync.Once
	let  func() error
	err  error
}

func (d *door) open() error {
	d.once.Do(func() { d.err = d.let() })
	return d.err
}

// admit lets the dialler in or tells it why not. t is nil where there is no TLS. It leaves the deadlines of the connection alone: they are
// the caller's.
func (n Network) admit(conn *prefixed, t *tls.Conn) error {
	timer := time.AfterFunc(admitTimeout, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer timer.Stop()
	err := n.judge(conn, t)
	if err == nil {
		return nil
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("silent: %w", err)
	}
	return fmt.Errorf("admit the caller at %s: %w", conn.RemoteAddr(), err)
}

func (n Network) judge(conn *prefixed, t *tls.Conn) error {
	magic, err := readMagic(conn.Conn)
	if err != nil {
		return err
	}
	if t == nil {
		return n.verdict(conn.Conn, magic, nil)
	}
	if magic[0] != tlsHandshake {
		return refuse(conn.Conn, "this server speaks TLS only, the caller does not: give it --tls-cert, --tls-key and --tls-ca")
	}
	conn.prefix = []byte(magic)
	if err := t.Handshake(); err != nil { //nolint:noctx // bounded by admit's timer and the caller's deadline
		return n.tls.explain(err)
	}
	binding, err := bind(t)
	if err != nil {
		return err
	}
	if magic, err = readMagic(t); err != nil {
		return n.tls.explain(err)
	}
	return n.verdict(t, magic, binding)
}

// verdict judges what the dialler said of its token, and answers.
func (n Network) verdict(rw io.ReadWriter, magic string, binding []byte) error {
	switch {
	case n.token == nil && magic == noneMagic:
	case magic[0] == tlsHandshake:
		return refuse(rw, "the caller speaks TLS, this server does not: give it --tls-cert, --tls-key and --tls-ca, or leave them out at the caller")
	case n.token == nil && magic == tokenMagic:
		return refuse(rw, "this server takes no token: leave --token-file out, or give it to the server too")
	case magic != tokenMagic:
		return refuse(rw, "this server wants a token, the caller shows none: give it --token-file")
	default:
		if err := challenge(rw, n.token, binding); errors.Is(err, errOtherToken) {
			return refuse(rw, err.Error())
		} else if err != nil {
			return err
		}
	}
	_, err := rw.Write([]byte(okMagic))
	return err
}

// refuse tells the dialler why it is not admitted, and waits for it to have read that.
func refuse(rw io.ReadWriter, text string) error {
	text = text[:min(len(text), maxRefusal)]
	b := binary.LittleEndian.AppendUint16([]byte(refuseMagic), uint16(len(text)))
	if _, err := rw.Write(append(b, text...)); err == nil {
		if half, ok := rw.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
		_, _ = io.CopyN(io.Discard, rw, maxDrain)
	}
	return fmt.Errorf("%w: %s", ErrRefused, text)
}

// readMagic reads what the other side begins with. A refusal is returned as an error.
func readMagic(r io.Reader) (string, error) {
	var b [magicSize]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return "", err
	}
	if string(b[:]) == refuseMagic {
		return "", readRefusal(r)
	}
	return string(b[:]), nil
}

// readRefusal reads what follows the magic of a refusal.
func readRefusal(r io.Reader) error {
	var n [2]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return fmt.Errorf("%w (%w)", ErrRefused, err)
	}
	text := make([]byte, min(binary.LittleEndian.Uint16(n[:]), maxRefusal))
	if _, err := io.ReadFull(r, text); err != nil {
		return fmt.Errorf("%w (%w)", ErrRefused, err)
	}
	return final(fmt.Errorf("%q", text))
}

// bind is a secret of one TLS connection.
func bind(t *tls.Conn) ([]byte, error) {
	state := t.ConnectionState()
	return state.ExportKeyingMaterial(exporter, nil, 32)
}
