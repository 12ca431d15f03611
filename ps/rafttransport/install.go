package rafttransport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/hashicorp/raft"

	"hcclps/p2p/link"
)

const snapshotChunk = 256 << 10

// sendSnapshot runs a transfer in a goroutine of Run's, so that it ends with Run or with the group.
func (t *Transport) sendSnapshot(target raft.ServerAddress, args *raft.InstallSnapshotRequest, data io.Reader) (r reply, err error) {
	begun := make(chan context.CancelFunc, 1)
	ended := make(chan struct{})
	if err := t.mux.start(func(ctx context.Context) {
		defer close(ended)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		begun <- cancel
		r, err = t.transfer(ctx, target, args, data)
	}); err != nil {
		return reply{}, err
	}
	cancel := <-begun
	select {
	case <-ended:
	case <-t.done:
		cancel()
		<-ended
	}
	return r, err
}

func (t *Transport) transfer(ctx context.Context, target raft.ServerAddress, args *raft.InstallSnapshotRequest, data io.Reader) (reply, error) {
	nc, err := t.mux.dial(ctx, target, link.RaftSnapshot)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = nc.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	defer stop()
	silence := bulkFactor * t.mux.cfg.Timeout

	b, err := appendHead(beginFrame(nil, kindInstall, 1, t.group), string(target), args, nil)
	if err == nil {
		err = sealFrame(b)
	}
	if err != nil {
		return reply{}, err
	}
	w := patient{nc, silence}
	if _, err := w.Write(b); err != nil {
		return reply{}, fmt.Errorf("send snapshot to server %s: %w", target, err)
	}
	n, sendErr := io.CopyBuffer(w, io.LimitReader(data, args.Size), make([]byte, snapshotChunk))
	if sendErr == nil && n < args.Size {
		return reply{}, fmt.Errorf("send snapshot to server %s: it ends after %d of %d bytes", target, n, args.Size)
	}
	in := newFrameReader(patient{nc, silence}, maxControlHead)
	for {
		f, err := in.next()
		if err != nil {
			return reply{}, fmt.Errorf("send snapshot to server %s: %d of %d bytes sent: %w", target, n, args.Size, errors.Join(sendErr, err))
		}
		if f.kind != kindWorking {
			return decodeReply(f)
		}
	}
}

// patient gives every read and write its own deadline: what moves is alive.
type patient struct {
	nc    net.Conn
	limit time.Duration
}

func (p patient) Write(b []byte) (int, error) {
	if err := p.nc.SetWriteDeadline(time.Now().Add(p.limit)); err != nil {
		return 0, err
	}
	return p.nc.Write(b)
}

func (p patient) Read(b []byte) (int, error) {
	if err := p.nc.SetReadDeadline(time.Now().Add(p.limit)); err != nil {
		return 0, err
	}
	return p.nc.Read(b)
}

// serveSnapshot serves the one request of the connection. While raft stores and restores the snapshot, the sender hears that it is
// being worked on.
func (m *Mux) serveSnapshot(ctx context.Context, c *inbound) error {
	silence := bulkFactor * m.cfg.Timeout
	c.in = newFrameReader(patient{c.nc, silence}, maxHead)
	q, t, refused, err := c.next()
	if err != nil {
		return err
	}
	if q.kind != kindInstall {
		return fmt.Errorf("%w: kind %d on a snapshot connection", errMalformed, q.kind)
	}
	if t == nil {
		c.answer(q, refused)
		return nil
	}
	answer := make(chan reply, 1)
	c.work.Go(func() { answer <- t.deliver(ctx, q.cmd, io.LimitReader(c.in.r, q.size)) })
	working := beginFrame(nil, kindWorking, q.id, q.group)
	if err := sealFrame(working); err != nil {
		return err
	}
	tick := time.NewTicker(m.cfg.Timeout)
	defer tick.Stop()
	for {
		select {
		case r := <-answer:
			c.answer(q, r)
			return nil
		case <-tick.C:
			if err := c.write(working); err != nil {
				return err
			}
		}
	}
}
