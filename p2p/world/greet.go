package world

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

// helloTime bounds what is read of a dialler, or written to it, before it is known.
const helloTime = 3 * time.Second

// sendHello introduces the dialler.
func sendHello(ctx context.Context, conn net.Conn, h hello) error {
	msg, err := h.encode()
	if err != nil {
		return err
	}
	return bounded(ctx, conn, helloTime, func() error {
		_, err := conn.Write(msg)
		return err
	})
}

// readAnswer waits for the answer to a hello as long as ctx allows. A refusal wraps p2p.ErrRefused.
func readAnswer(ctx context.Context, conn net.Conn) error {
	var a answer
	err := bounded(ctx, conn, 0, func() error {
		b, err := readShort(conn)
		if err != nil {
			return err
		}
		a, err = decodeAnswer(b)
		return err
	})
	switch {
	case err != nil:
		return err
	case a.version != version && a.refusal == "":
		return fmt.Errorf("it speaks version %d, this side %d: %w", a.version, version, errVersion)
	case a.refusal != "":
		return fmt.Errorf("%w: %s", p2p.ErrRefused, a.refusal)
	}
	return nil
}

// readHello reads what a dialler says first. A message that is none is an error that can be told it.
func readHello(ctx context.Context, conn net.Conn) (hello, error) {
	var h hello
	err := bounded(ctx, conn, helloTime, func() error {
		b, err := readShort(conn)
		if err != nil {
			return err
		}
		h, err = decodeHello(b)
		return err
	})
	return h, err
}

// sendAnswer welcomes a dialler, or tells it why not.
func sendAnswer(ctx context.Context, conn net.Conn, refusal string) error {
	return bounded(ctx, conn, helloTime, func() error {
		_, err := conn.Write(answer{refusal: refusal}.encode())
		return err
	})
}

// refuse tells a dialler why it is not welcome, waits for it to have read that, and closes the connection.
func refuse(ctx context.Context, conn net.Conn, refusal string) {
	defer func() { _ = conn.Close() }()
	if sendAnswer(ctx, conn, refusal) != nil {
		return // it has gone, which is as good
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_ = bounded(ctx, conn, helloTime, func() error { // closing with something unread would destroy what it was told
		_, err := io.CopyN(io.Discard, conn, maxHello)
		return err
	})
}

// bounded does I/O on conn until ctx ends, and at most for limit unless that is 0. After a success conn has no deadline.
func bounded(ctx context.Context, conn net.Conn, limit time.Duration, f func() error) error {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w: silent for %v", p2p.ErrPeer, limit))
		defer cancel()
	}
	release := p2p.Bound(ctx, conn)
	err := f()
	if ended := release(); ended != nil && (err == nil || errors.Is(err, os.ErrDeadlineExceeded)) {
		return ended
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: connection closed", p2p.ErrPeer)
	}
	return err
}

// rest waits for d, or until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
