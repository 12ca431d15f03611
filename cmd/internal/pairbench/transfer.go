package pairbench

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"golang.org/x/sync/errgroup"

	"hcclps/p2p"
	"hcclps/p2p/link"
)

// waiter is a message under way.
type waiter interface {
	Wait(ctx context.Context) error
}

// messages is how a rank sends and receives: straight through a Comm, or through a Transfer.
type messages interface {
	rank() int
	send(b []byte) waiter
	recv(b []byte) waiter
}

// direct is a Comm.
type direct struct{ p2p.Comm }

func (d direct) rank() int            { return d.Rank() }
func (d direct) send(b []byte) waiter { return d.Isend(1-d.Rank(), p2p.Bytes(b)) }
func (d direct) recv(b []byte) waiter { return d.Irecv(1-d.Rank(), p2p.Bytes(b)) }

// chunked is a Transfer over the Comm: messages are announced, asked for and cut into chunks, as pushes and pulls are. Both sides number
// the messages of a direction, which gives them their ids.
type chunked struct {
	transfer *p2p.Transfer
	number   int
	sent     uint64
	signals  net.Conn
	post     *outbox

	mu        sync.Mutex
	took      uint64
	announced uint64
	early     []*arrival // receives that are not announced yet, the oldest first
}

// newChunked makes one end of a Transfer over comm, whose signals go over a connection of their own.
func newChunked(comm link.Comm, rank int, signals net.Conn) (*chunked, error) {
	c := &chunked{number: rank, signals: signals, post: &outbox{wake: make(chan struct{}, 1)}}
	var err error
	c.transfer, err = p2p.NewTransfer(p2p.TransferConfig{
		Rank: rank, Peer: "the other rank", Post: c.post.put,
		Open: func(_ context.Context, epoch uint32) (p2p.RunningComm, error) {
			if comm == nil {
				return nil, fmt.Errorf("open epoch %d: a measurement has one", epoch)
			}
			first := comm
			comm = nil
			return first, nil
		},
	})
	return c, err
}

func (c *chunked) rank() int { return c.number }

func (c *chunked) send(b []byte) waiter {
	c.sent++
	out := c.transfer.Send(c.sent, b)
	c.post.announce()
	return moving{out}
}

// recv asks for the next message as soon as it is announced.
func (c *chunked) recv(b []byte) waiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took++
	a := &arrival{id: c.took, buf: b, asked: make(chan struct{})}
	if c.took > c.announced {
		c.early = append(c.early, a)
	} else {
		c.ask(a)
	}
	return a
}

// ask begins to receive a message that is announced.
func (c *chunked) ask(a *arrival) {
	a.in = c.transfer.Receive(a.id, p2p.Push, a.buf)
	close(a.asked)
}

// offered notes an announcement.
func (c *chunked) offered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.announced++
	if len(c.early) > 0 {
		c.ask(c.early[0])
		c.early = c.early[1:]
	}
}

// run moves bytes and signals until ctx ends.
func (c *chunked) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	stop := context.AfterFunc(ctx, func() { _ = c.signals.Close() })
	defer stop()
	g.Go(func() error { return c.transfer.Run(ctx) })
	g.Go(func() error { return c.post.write(ctx, c.signals) })
	g.Go(func() error { return c.hear() })
	return g.Wait()
}

// hear passes the signals of the other rank on.
func (c *chunked) hear() error {
	r := bufio.NewReader(c.signals)
	for {
		var n [2]byte
		if _, err := io.ReadFull(r, n[:]); err != nil {
			return fmt.Errorf("read signal: %w: %w", p2p.ErrPeer, err)
		}
		b := make([]byte, min(int(binary.LittleEndian.Uint16(n[:])), p2p.MaxSignal))
		if len(b) == 0 {
			c.offered()
			continue
		}
		if _, err := io.ReadFull(r, b); err != nil {
			return fmt.Errorf("read signal: %w: %w", p2p.ErrPeer, err)
		}
		s, err := p2p.DecodeSignal(b)
		if err == nil {
			err = c.transfer.Signalled(s)
		}
		if err != nil {
			return err
		}
	}
}

// moving is an Outgoing or an Incoming.
type moving struct {
	m interface {
		Done() <-chan struct{}
		Err() error
	}
}

func (m moving) Wait(ctx context.Context) error {
	select {
	case <-m.m.Done():
		return m.m.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// arrival is a message that is received, once it is announced.
type arrival struct {
	id    uint64
	buf   []byte
	asked chan struct{} // closed when in is set
	in    *p2p.Incoming
}

func (a *arrival) Wait(ctx context.Context) error {
	select {
	case <-a.asked:
		return moving{a.in}.Wait(ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// outbox holds signals until they are written: putting one never waits.
type outbox struct {
	mu   sync.Mutex
	all  []byte // framed: u16 length, signal; the length 0 announces the next message
	wake chan struct{}
}

func (o *outbox) put(s p2p.Signal) { o.frame(p2p.AppendSignal(nil, s)) }

func (o *outbox) announce() { o.frame(nil) }

func (o *outbox) frame(b []byte) {
	o.mu.Lock()
	o.all = append(binary.LittleEndian.AppendUint16(o.all, uint16(len(b))), b...)
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

func (o *outbox) write(ctx context.Context, w io.Writer) error {
	for {
		select {
		case <-o.wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		o.mu.Lock()
		b := o.all
		o.all = nil
		o.mu.Unlock()
		if _, err := w.Write(b); err != nil {
			return errors.Join(context.Cause(ctx), fmt.Errorf("write signals: %w: %w", p2p.ErrPeer, err))
		}
	}
}
